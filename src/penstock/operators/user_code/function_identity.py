"""Functions of the user's that operators call: which two are the same, and what to call them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

import numpy as np


@dataclass(frozen=True, eq=False)
class FunctionIdentity:
    """A function of the user's.

    Two are equal if they are made by the same lines from equal values: a definition that contains a function makes a
    new one each time it is traced.

    Args:
        function: the function.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self.function(*args)

    @property
    def name(self) -> str:
        """What its definition calls it."""
        inner = _inner(self.function)
        return getattr(inner, "__name__", type(inner).__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionIdentity) and _same(self.function, other.function)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


class FunctionSnapshot:
    """A function as it is now, with the values that it finds outside itself.

    What is compiled from it has these values, and serves for another one that is equal, too.

    Args:
        function: it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._found = _found(function)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSnapshot) or len(self._found) != len(other._found):
            return False
        pairs = zip(self._found, other._found, strict=True)
        return all(mine is theirs if callable(mine) else _same(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash(FunctionIdentity(self.function))


def _inner(function: Any) -> Any:
    """What decorators and partial applications have been put around."""
    while True:
        inner = inspect.unwrap(function)
        inner = inner.func if isinstance(inner, functools.partial) else inner
        if inner is function:
            return inner
        function = inner


def _same(mine: Any, theirs: Any) -> bool:
    if mine is theirs:
        return True
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, np.ndarray):
        return bool(np.array_equal(cast(Any, mine), theirs))
    if type(mine) is functools.partial:
        return all(
            _same(getattr(cast(Any, mine), part), getattr(theirs, part)) for part in ("func", "args", "keywords")
        )
    if isinstance(mine, tuple | list):
        pair = cast(list[Any], mine), cast(list[Any], theirs)
        return len(pair[0]) == len(pair[1]) and all(map(_same, *pair))
    if isinstance(mine, dict):
        one, other = cast(dict[Any, Any], mine), cast(dict[Any, Any], theirs)
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if hasattr(mine, "__wrapped__"):
        return _same(mine.__wrapped__, theirs.__wrapped__)
    if inspect.isfunction(mine):
        parts = ("__defaults__", "__kwdefaults__")
        return (
            mine.__code__ is theirs.__code__
            and all(_same(getattr(mine, part), getattr(theirs, part)) for part in parts)
            and _same(_cells(mine), _cells(theirs))
        )
    if inspect.ismethod(mine):
        return _same(mine.__func__, theirs.__func__) and _same(mine.__self__, theirs.__self__)
    equal = mine == theirs
    return equal if isinstance(equal, bool) else False


def _cells(function: Any) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _found(function: Any) -> list[Any]:
    """What a function does, as far as its code and the names in it tell."""
    if not inspect.isfunction(function):
        return [function]
    known = function.__globals__
    outside = [*_cells(function), *[known[name] for name in _names(function.__code__) if name in known]]
    copied = [cast(Any, value).copy() if isinstance(value, np.ndarray) else value for value in outside]
    return [function.__code__, function.__defaults__, function.__kwdefaults__, *copied]


def _names(code: CodeType) -> list[str]:
    inner = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return [*code.co_names, *inner]
