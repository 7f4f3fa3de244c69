"""Loops that NumPy has no word for, compiled by numba when they are first needed."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from penstock.data.source import Array

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()


class Compiled(Generic[P, R]):
    """A function that numba compiles when it is first called. It releases the interpreter's lock while it runs.

    It may call other compiled functions of its own module; of other modules it may not, since numba's cache on disk
    does not notice when those change.

    Args:
        function: written in the part of Python and NumPy that numba knows.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = cast(types.FunctionType, function)
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it; the first call compiles it, or loads what an earlier process compiled."""
        return self._compiled(*args, **kwargs)

    @functools.cached_property
    def plain(self) -> Callable[P, R]:
        """The function as Python runs it, and what it calls: the twin to which the compiled one is compared."""
        return self._with(lambda other: other.plain)

    @functools.cached_property
    def _compiled(self) -> Callable[P, R]:
        with _lock:  # two threads may be first
            import numba  # noqa: PLC0415  # 0.7 s, which programs without such a loop need not wait for

            function = self._with(lambda other: other._compiled)  # noqa: SLF001  # of its own class
            return cast(Any, numba).njit(function, nogil=True, cache=True, error_model="numpy")

    def _with(self, form: Callable[[Compiled[..., Any]], Callable[..., Any]]) -> Callable[P, R]:
        """The function, calling other compiled functions in one of their two forms."""
        names = self._function.__globals__
        called = {name: names[name] for name in self._function.__code__.co_names if name in names}
        changed = {name: form(cast(Any, value)) for name, value in called.items() if isinstance(value, Compiled)}
        if not changed:
            return cast(Any, self._function)
        function = types.FunctionType(self._function.__code__, names | changed, self._function.__name__)
        return cast(Any, functools.update_wrapper(function, self._function))


@Compiled
def scale_and_shift(values: Array, mean: np.float32, factor: np.float32, shift: np.float32, out: Array) -> None:
    """``out[i] = (values[i] - mean) * factor + shift`` in float32; both one-dimensional."""
    for i in range(values.shape[0]):
        out[i] = (np.float32(values[i]) - mean) * factor + shift
