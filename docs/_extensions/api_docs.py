"""Docstrings and signatures of the API reference, for autodoc."""

from __future__ import annotations

import functools
import inspect
import re
import typing
from enum import EnumMeta
from typing import Any

from docutils import nodes
from signature_text import default_text, type_text
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext import napoleon

ATTRIBUTES = ("attribute", "data", "property")


def signature(
    _app: Sphinx, _what: str, _name: str, obj: Any, _options: Any, signature: str | None, _returns: str | None
) -> tuple[str, str | None] | None:
    """Return the signature with types that are easy to read: no modules, no marks of arguments."""
    if isinstance(obj, EnumMeta):
        return "", None
    if signature is None or not callable(obj):
        return None
    hints = type_hints(obj)
    parts: list[str] = []
    for name, item in inspect.signature(obj).parameters.items():
        if name in ("self", "cls") and not parts:
            continue
        if item.kind is item.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        star = {item.VAR_POSITIONAL: "*", item.VAR_KEYWORD: "**"}.get(item.kind, "")
        hint = hints.get(name, item.annotation)
        kind = "" if star or hint in (item.empty, Any) else f": {type_text(hint, keep_nodes=True, qualified=True)}"
        default = "" if item.default is item.empty else f"{' = ' if kind else '='}{default_text(item.default)}"
        parts.append(f"{star}{name}{kind}{default}")
    result = None if isinstance(obj, type) else hints.get("return")
    silent = result in (None, Any, type(None))
    return f"({', '.join(parts)})", None if silent else type_text(result, keep_nodes=True, qualified=True)


def type_hints(obj: Any) -> dict[str, Any]:
    """Return the evaluated annotations of a function, or of a class's constructor; {} if they cannot be evaluated."""
    function = obj.__init__ if isinstance(obj, type) else obj
    if hasattr(obj, "__signature__"):  # its annotations are evaluated
        return {name: item.annotation for name, item in obj.__signature__.parameters.items()}
    try:
        return typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (NameError, TypeError):  # a name that only type checkers import
        return {}


class Docstring(napoleon.GoogleDocstring):
    """Docstring whose section ``Returns:`` says what is returned, without a type before a colon."""

    def _consume_returns_section(self, preprocess_types: bool = False) -> list[tuple[str, str, list[str]]]:
        return [("", "", self._dedent(self._consume_to_next_section()))]


def google_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Convert the sections of a docstring. Unlike napoleon, do not take the first words of a property for its type."""
    what = "method" if what in ATTRIBUTES else what
    # Plurals such as `Array`s: reStructuredText wants an escaped space after inline code.
    lines[:] = [re.sub(r"(`+[^`]+`+)(\w?)", lambda m: f"{m[1]}\\ {m[2]}" if m[2] else m[1], line) for line in lines]
    lines[:] = Docstring(list(lines), app.config, app, what, name, obj, options).lines()


def unlink_foreign_types(_app: Sphinx, document: nodes.document) -> None:
    """Replace links from types of other libraries in signatures by their names.

    Sphinx would link `bool` to any object of that name, such as `penstock.dynamic.bool`.
    """
    for signature in document.findall(addnodes.desc_signature):
        for link in list(signature.findall(addnodes.pending_xref)):
            if not link["reftarget"].startswith("penstock."):
                link.replace_self(nodes.inline("", link.astext()))


def skip(_app: Sphinx, _what: str, _name: str, obj: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out attributes of DALI's that only raise an error with a fix."""
    return (isinstance(obj, property) and isinstance(obj.fget, functools.partial)) or None


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the functions to autodoc's events. It must follow napoleon among the extensions."""
    for listener in list(app.events.listeners["autodoc-process-docstring"]):
        if listener.handler is napoleon._process_docstring:  # noqa: SLF001  # `google_docstring` replaces it
            app.disconnect(listener.id)
    app.connect("autodoc-process-docstring", google_docstring)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-read", unlink_foreign_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
