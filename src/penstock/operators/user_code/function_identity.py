"""Identity of user functions: equality and names across repeated tracing."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, cast

import numpy as np

from penstock.core.user_callbacks import call_user


@dataclass(frozen=True, eq=False)
class FunctionIdentity:
    """A user function that compares by its code and values.

    Each time a definition is traced, a function inside it is a new object. Two functions are equal if the same lines
    made them from equal values.

    Args:
        function: The function.
    """

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return call_user(self.function, *args, **kwargs)

    def takes_rng(self, num_inputs: int) -> bool:
        """Return True if the function requires an argument `rng` that is not among its first `num_inputs` ones."""
        try:
            parameters = inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # implemented in C without a signature
            return False
        rng = parameters.get("rng")
        # With a default, the function works without it, and a program may rely on that.
        if rng is None or rng.default is not rng.empty:
            return False
        by_name = rng.kind is rng.POSITIONAL_OR_KEYWORD and list(parameters).index("rng") >= num_inputs
        return by_name or rng.kind is rng.KEYWORD_ONLY

    @property
    def name(self) -> str:
        """Name of the function without decorators and partial applications."""
        inner = _unwrap(self.function)
        return getattr(inner, "__name__", type(inner).__name__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionIdentity) and _same(self.function, other.function)

    def __hash__(self) -> int:
        # Equal functions have equal names. Their values may not be hashable.
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


class FunctionSnapshot:
    """A function with the values of its closure and globals at this moment, as key of a cache of compiled code.

    Compiled code has these values built in, so it also serves another function with equal values.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._values = _referenced_values(function)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FunctionSnapshot) or len(self._values) != len(other._values):
            return False
        pairs = zip(self._values, other._values, strict=True)
        # Functions by identity: an equal one may see other globals, whose values are compiled in, too.
        return all(mine is theirs if callable(mine) else _same(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash(FunctionIdentity(self.function))


def _unwrap(function: Any) -> Any:
    """Return the function inside of decorators and partial applications."""
    while True:
        inner = inspect.unwrap(function)
        inner = inner.func if isinstance(inner, functools.partial) else inner
        if inner is function:
            return inner
        function = inner


def _same(mine: Any, theirs: Any) -> bool:
    # `==` alone does not do: it is elementwise for arrays, and identity for functions and partials.
    if mine is theirs:
        return True
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, np.ndarray):
        return bool(np.array_equal(cast(Any, mine), theirs))
    if type(mine) is functools.partial:
        return all(
            _same(getattr(cast(Any, mine), name), getattr(theirs, name)) for name in ("func", "args", "keywords")
        )
    if isinstance(mine, tuple | list):
        ours, others = cast(list[Any], mine), cast(list[Any], theirs)
        return len(ours) == len(others) and all(map(_same, ours, others))
    if isinstance(mine, dict):
        one, other = cast(dict[Any, Any], mine), cast(dict[Any, Any], theirs)
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if hasattr(mine, "__wrapped__"):
        return _same(mine.__wrapped__, theirs.__wrapped__)
    if inspect.isfunction(mine):
        # The compiler makes a code object once per definition in the source, so `is` means "the same lines".
        return (
            mine.__code__ is theirs.__code__
            and _same(mine.__defaults__, theirs.__defaults__)
            and _same(mine.__kwdefaults__, theirs.__kwdefaults__)
            and _same(_cells(mine), _cells(theirs))
        )
    if inspect.ismethod(mine):
        return _same(mine.__func__, theirs.__func__) and _same(mine.__self__, theirs.__self__)
    # Array-likes of other libraries compare elementwise. Such values count as different.
    equal = mine == theirs
    return equal if isinstance(equal, bool) else False


def _cells(function: Any) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _referenced_values(function: Any) -> list[Any]:
    """Return the code of a function and the values that its names refer to."""
    if not inspect.isfunction(function):
        return [function]
    known = function.__globals__
    # Names include attributes, which may match an unrelated global: that only makes the cache miss more often.
    outside = [*_cells(function), *[known[name] for name in _names(function.__code__) if name in known]]
    # numba compiles global arrays as constants, so a later change in place must count as another value.
    copied = [cast(Any, value).copy() if isinstance(value, np.ndarray) else value for value in outside]
    return [function.__code__, function.__defaults__, function.__kwdefaults__, *copied]


def _names(code: CodeType) -> list[str]:
    # Nested functions and comprehensions have code objects of their own among the constants.
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]
