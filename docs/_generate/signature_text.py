"""Types and defaults in signatures, as a reader writes them."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from enum import Enum
from typing import Annotated, Any, NotRequired, Required

import numpy as np

from penstock.graph import DataNode
from penstock.types import DALIDataType, DALIImageType, DALIInterpType


def type_text(hint: Any, *, keep_nodes: bool = False) -> str:
    """Return a type as a reader writes it: without modules and marks.

    Args:
        hint: The annotation.
        keep_nodes: False to leave out `DataNode` among alternatives.
    """
    if isinstance(hint, str):
        return hint
    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint = typing.get_args(hint)[0]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if hint is Ellipsis:
        return "..."
    if hint is inspect.Parameter.empty or hint is Any or isinstance(hint, typing.TypeVar):
        return "Any"
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, list):
        return f"[{', '.join(map(type_text, hint))}]"
    if origin in (typing.Union, types.UnionType):
        items = [item for item in inside if keep_nodes or not (isinstance(item, type) and issubclass(item, DataNode))]
        texts = list(dict.fromkeys(type_text(item, keep_nodes=keep_nodes) for item in items))
        return " | ".join(sorted(texts, key=lambda text: text == "None"))
    if origin is typing.Literal:
        return " | ".join(map(_quoted, inside))
    if origin in (collections.abc.Sequence, list, tuple) and inside:
        parts = [type_text(item) for item in inside]
        return f"{origin.__name__}[{', '.join(parts)}]"
    if origin is not None:
        return f"{_name(origin)}[{', '.join(map(type_text, inside))}]"
    return _name(hint)


def _name(kind: Any) -> str:
    return "np.dtype" if kind is np.dtype else getattr(kind, "__name__", str(kind))


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
