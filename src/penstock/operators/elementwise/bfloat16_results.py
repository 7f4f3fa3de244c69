"""Results in bfloat16: the float32 results of an operator, rounded to the nearest, ties to even."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from penstock.errors import ArgumentTypeError
from penstock.operators.elementwise import cast as casting
from penstock.types import BFLOAT16, FLOAT, as_dtype, is_bfloat16

P = ParamSpec("P")
R = TypeVar("R")

# The arguments that say the dtype of a result, the second in older programs.
_NAMES = ("dtype", "output_dtype")


def rounds_to_bfloat16(function: Callable[P, R]) -> Callable[P, R]:
    """Let an operator's function take bfloat16 as the dtype of its result.

    Compiled loops do not know bfloat16, and NumPy's functions are slow with it. So the operator computes float32, and
    an `fn.cast` follows, which becomes part of the same pass over an image.

    Args:
        function: Function of an operator with a keyword argument ``dtype``. Its result, or the first of several, has
            this dtype.
    """

    @functools.wraps(function)
    def rounding(*args: P.args, **kwargs: P.kwargs) -> R:
        names = [name for name in _NAMES if _is_bfloat16(kwargs.get(name))]
        if not names:
            return function(*args, **kwargs)
        kwargs.update(dict.fromkeys(names, FLOAT))
        result: Any = function(*args, **kwargs)
        if isinstance(result, list):
            first, *others = cast(list[Any], result)
            return cast(R, [casting.cast(first, dtype=BFLOAT16), *others])
        return cast(R, casting.cast(result, dtype=BFLOAT16))

    return rounding


def _is_bfloat16(dtype: Any) -> bool:
    try:
        return dtype is not None and is_bfloat16(as_dtype(dtype))
    except ArgumentTypeError:
        return False  # the operator itself reports it
