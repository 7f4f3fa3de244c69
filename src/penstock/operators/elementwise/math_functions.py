"""Mathematical functions of one value, and `clamp`, for `penstock.math`.

Integers are converted to float32; floats keep their type. `clamp` keeps integers.
"""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply, operator
from penstock.numerics.ordered_sums import no_fma
from penstock.operators.elementwise.arithmetic import broadcast, common_layout, promote, raise_rank

# NumPy's names by DALI's names.
_ELEMENTARY = ("sqrt", "cbrt", "exp", "log", "log2", "log10", "floor", "ceil")
_TRIGONOMETRIC = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
_NUMPY_NAMES: Mapping[str, str] = {
    **{name: name for name in _ELEMENTARY + _TRIGONOMETRIC},
    **{f"a{name}": f"arc{name}" for name in _TRIGONOMETRIC},
    "fabs": "abs",
}

# Functions by DALI's name. A test compares each of them with DALI.
FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "rsqrt": lambda xp, a: xp.ones((), a.dtype) / xp.sqrt(a),
    **{name: lambda xp, a, function=function: getattr(xp, function)(a) for name, function in _NUMPY_NAMES.items()},
}

# From here on, x**2 + 1 equals x**2, so asinh(x) and acosh(x) are log(2 * x). Squares of larger numbers may overflow.
_LARGE = 2.0**28


def _rsqrt(xp: Any, a: Any) -> Any:
    return xp.ones((), a.dtype) / no_fma(xp, xp.sqrt(a))


def _atan(xp: Any, a: Any) -> Any:
    # XLA would recognize a constant 1 and simplify back to its own atan.
    return xp.arctan2(a, xp.where(a != a, a, xp.ones((), a.dtype)))


def _asinh(xp: Any, a: Any) -> Any:
    # log1p(x + x**2 / (1 + sqrt(x**2 + 1))), which is accurate also near 0.
    size, one = xp.abs(a), xp.ones((), a.dtype)
    near = xp.minimum(size, _LARGE)
    square = no_fma(xp, near * near)
    near = xp.log1p(no_fma(xp, near + no_fma(xp, square / (one + xp.sqrt(square + one)))))
    return xp.copysign(xp.where(size < _LARGE, near, no_fma(xp, xp.log(no_fma(xp, size))) + np.log(2)), a)


def _acosh(xp: Any, a: Any) -> Any:
    one = xp.ones((), a.dtype)
    # With x = a - 1: log1p(x + sqrt(x * (x + 2))), which is accurate also near a = 1.
    near = xp.minimum(a, _LARGE) - one
    near = xp.log1p(no_fma(xp, near + no_fma(xp, xp.sqrt(no_fma(xp, near * (near + 2 * one))))))
    real = xp.where(a < _LARGE, near, no_fma(xp, xp.log(no_fma(xp, a))) + np.log(2))
    return xp.where(a < one, xp.asarray(np.nan, a.dtype), real)


# XLA's own formulas for these functions have last bits that depend on the number of rows. These do not.
FOR_XLA: Mapping[str, Callable[[Any, Any], Any]] = {"rsqrt": _rsqrt, "atan": _atan, "asinh": _asinh, "acosh": _acosh}


@dataclass(frozen=True)
class Function(Operator, BatchKernel):
    """Mathematical function of each element.

    Args:
        symbol: Name of the function, a key of `FUNCTIONS`.
    """

    symbol: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec) -> Spec:
        """Return the spec in a float type."""
        if value.dtype.kind == "b":
            raise DefinitionError("the value must be a number", given=value, fix="fn.cast(x, dtype=types.FLOAT)")
        return Spec(_float(value.dtype), value.shape, value.layout)

    def batch(self, context: BatchContext, value: Any) -> Any:
        """Apply the function to a batch."""
        xp = context.xp
        numbers = value.astype(_float(value.dtype))
        if xp is np:
            # NumPy uses another routine for strided memory, and its last bit differs.
            return FUNCTIONS[self.symbol](np, np.ascontiguousarray(numbers))
        function = FOR_XLA.get(self.symbol)
        # float16 cannot represent `_LARGE`.
        if function is not None and numbers.dtype.itemsize == 2:
            numbers = numbers.astype(np.float32)
        # XLA rounds differently if a program has only this function of a few numbers. `no_fma` would change -inf.
        numbers = xp.where(xp.isneginf(numbers), numbers, no_fma(xp, numbers))
        return (function or FUNCTIONS[self.symbol])(xp, numbers).astype(_float(value.dtype))


@dataclass(frozen=True)
class Clamp(Operator, BatchKernel):
    """Limitation of values to a range."""

    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec, low: Spec, high: Spec) -> Spec:
        """Return the broadcast spec in the common type."""
        dtype = promote(promote(value.dtype, low.dtype), high.dtype)
        if dtype.kind == "b":
            raise DefinitionError("the value must be a number", given=value, fix="fn.cast(x, dtype=types.INT32)")
        for pair in combinations((value, low, high), 2):
            common_layout(*pair)
        limited = Spec(dtype, broadcast(value.shape, low.shape), common_layout(value, low))
        return Spec(dtype, broadcast(limited.shape, high.shape), common_layout(limited, high))

    def batch(self, context: BatchContext, value: Any, low: Any, high: Any) -> Any:
        """Limit a batch. NaNs stay, as both comparisons with them are False."""
        xp = context.xp
        dtype = promote(promote(value.dtype, low.dtype), high.dtype)
        rank = max(value.ndim, low.ndim, high.ndim)
        numbers, least, most = (raise_rank(operand, rank).astype(dtype) for operand in (value, low, high))
        # The upper limit wins if the limits are out of order.
        above = xp.where(least > numbers, least, numbers)
        return xp.where(most < above, most, above)


def _float(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype.kind in "iu" else dtype


def _define(kind: Function) -> None:
    @operator(f"math.{kind.symbol}")
    def apply_to(value: DataNode) -> DataNode:  # pyright: ignore[reportUnusedFunction]  # it is registered
        return apply(kind, value)


for _symbol in FUNCTIONS:
    _define(Function(_symbol))


@operator("math.clamp")
def _clamp(value: DataNode, low: DataNode, high: DataNode) -> DataNode:  # pyright: ignore[reportUnusedFunction]  # it is registered
    return apply(Clamp(), value, low, high)
