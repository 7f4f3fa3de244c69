"""Calls of definitions, which an input host repeats: plain arguments as JSON."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, cast

from penstock.core.dataclass import dataclass
from penstock.errors import UsageError, short_repr


@dataclass(frozen=True)
class DefinitionCall:
    """A call of a definition.

    Args:
        name: Name of the definition.
        args: Positional arguments.
        kwargs: Arguments by name.
        conditionals: True if `if`, `and`, `or` and `not` work on nodes in the definition.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    conditionals: bool

    def as_json(self) -> dict[str, Any]:
        """Return the call as JSON.

        Raises:
            UsageError: An argument is not plain data.
        """
        return {
            "name": self.name,
            "args": [self._encoded(str(number), value) for number, value in enumerate(self.args)],
            "kwargs": {name: self._encoded(name, value) for name, value in self.kwargs.items()},
            "conditionals": self.conditionals,
        }

    def _encoded(self, name: str, value: Any) -> Any:
        try:
            return encode_argument(value)
        except TypeError:
            raise UsageError(
                f"input hosts call {self.name} with the same arguments, and the argument {name} is not plain data",
                given=short_repr(value),
                expected="numbers, texts, paths, and lists, tuples or dicts of them",
                fix=f"bind it in the program, so that the hosts have it, too: a module variable, or a value that "
                f"{self.name} computes",
            ) from None


def encode_argument(value: Any) -> Any:
    """Return plain data as JSON: paths, tuples and dicts as objects with one entry that names their type.

    >>> encode_argument((1, "a"))
    {'tuple': [1, 'a']}

    Raises:
        TypeError: The value is something else.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, PurePath):
        return {"path": os.fspath(value)}
    if type(value) in (list, tuple):
        items = [encode_argument(item) for item in cast(Sequence[Any], value)]
        return items if isinstance(value, list) else {"tuple": items}
    if type(value) is dict and all(type(name) is str for name in value):
        # As pairs, because messages sort the names of objects, and a definition may depend on the order.
        return {"dict": [[name, encode_argument(item)] for name, item in value.items()]}
    raise TypeError(type(value).__name__)


def decode_argument(value: Any, path_of: Callable[[str], str]) -> Any:
    """Return the plain data in JSON.

    Args:
        value: The JSON.
        path_of: Returns the path here of a text or path of the trainer, which may be no path at all.

    Raises:
        TypeError: The JSON is not the result of `encode_argument`.
    """
    if isinstance(value, str):
        return path_of(value)
    if isinstance(value, list):
        return [decode_argument(item, path_of) for item in cast(Sequence[Any], value)]
    if not isinstance(value, dict):
        return value
    match cast(dict[str, Any], value):
        case {"path": str(path), **rest} if not rest:
            # A path of this system: the trainer's may be another one.
            return Path(path_of(path))
        case {"tuple": list(items), **rest} if not rest:
            return tuple([decode_argument(item, path_of) for item in items])
        case {"dict": list(items), **rest} if not rest:
            return dict([_decoded_pair(item, path_of) for item in cast(Sequence[Any], items)])
        case _:
            raise TypeError("an argument that is not plain data")


def _decoded_pair(pair: Any, path_of: Callable[[str], str]) -> tuple[str, Any]:
    match pair:
        case [str(name), value]:
            return name, decode_argument(value, path_of)
        case _:
            raise TypeError("an argument that is not plain data")
