"""Loops that NumPy has no word for, compiled by numba when they are first needed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from penstock.data.source import Array

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.Lock()


class Compiled(Generic[P, R]):
    """A function that numba compiles when it is first called. It releases the interpreter's lock while it runs.

    Args:
        function: written in the part of Python and NumPy that numba knows. It stays at hand as `plain`, the twin to
            which the compiled one is compared.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.plain = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it; the first call compiles it, or loads what an earlier process compiled."""
        return self._compiled(*args, **kwargs)

    @functools.cached_property
    def _compiled(self) -> Callable[P, R]:
        with _lock:  # two threads may be first
            import numba  # noqa: PLC0415  # 0.7 s, which programs without such a loop need not wait for

            return cast(Any, numba).njit(self.plain, nogil=True, cache=True, error_model="numpy")


@Compiled
def scale_and_shift(values: Array, mean: np.float32, factor: np.float32, shift: np.float32, out: Array) -> None:
    """``out[i] = (values[i] - mean) * factor + shift`` in float32; both one-dimensional."""
    for i in range(values.shape[0]):
        out[i] = (np.float32(values[i]) - mean) * factor + shift
