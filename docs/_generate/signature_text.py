"""Types and defaults in signatures, as a reader writes them."""

from __future__ import annotations

import inspect
import types
import typing
from enum import Enum
from typing import Annotated, Any, NotRequired, Required

import numpy as np

from penstock.graph import DataNode
from penstock.types import DALIDataType, DALIImageType, DALIInterpType


def type_text(hint: Any, *, keep_nodes: bool = False, qualified: bool = False) -> str:
    """Return a type as a reader writes it: without modules and marks.

    Args:
        hint: The annotation.
        keep_nodes: False to leave out `DataNode` among alternatives.
        qualified: True to keep the modules of Penstock's classes, which Sphinx then links and shows without them.
    """

    def text(hint: Any) -> str:
        return type_text(hint, keep_nodes=keep_nodes, qualified=qualified)

    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint = typing.get_args(hint)[0]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, str):
        return hint
    if hint is Ellipsis or isinstance(hint, typing.ParamSpec):
        return "..."
    if hint is inspect.Parameter.empty or hint is Any or isinstance(hint, typing.TypeVar):
        return "Any"
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, list):
        return f"[{', '.join(map(text, hint))}]"
    if origin in (typing.Union, types.UnionType):
        items = [item for item in inside if keep_nodes or not (isinstance(item, type) and issubclass(item, DataNode))]
        return " | ".join(sorted(dict.fromkeys(map(text, items)), key=lambda text: text == "None"))
    if origin is typing.Literal:
        return " | ".join(map(_quoted, inside))
    if origin is not None:
        # A shape and a dtype say nothing where any array will do.
        inside = () if origin is np.ndarray and Any in typing.get_args(inside[1]) else inside
        return f"{_name(origin, qualified)}[{', '.join(map(text, inside))}]".removesuffix("[]")
    return _name(hint, qualified)


def _name(kind: Any, qualified: bool) -> str:
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__name__", str(kind))
    if module == "numpy":
        return f"np.{name}"
    return f"{module}.{name}" if qualified and module.startswith("penstock") else name


def default_text(value: Any) -> str:
    """Return a default as code."""
    if isinstance(value, DALIDataType | DALIInterpType | DALIImageType):
        return f"types.{value.name}"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list | tuple) and len(value) > 4:
        return f"({', '.join(map(default_text, value[:2]))}, ...)"
    if isinstance(value, np.ndarray | np.dtype):
        return "..."
    return _quoted(value)


def _quoted(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and '"' not in value else repr(value)
