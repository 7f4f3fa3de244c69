"""Arithmetic, comparisons and bit operations between values, for Python's operators and `penstock.math`.

Types and results are those of DALI: Python numbers count as int32 and float32, ``u8 + u8`` wraps around, ``u8 + i8`` is
int16, and ``/`` of integers is float32. ``//`` truncates the quotient of integers toward zero and is plain division for
floats; ``%`` has the sign of the dividend. Integer division by zero is 0, and so are negative powers of integers.
Comparisons of signed with unsigned integers are exact: -1 is less than any uint64.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core import Shape, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError, short_repr
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply, operator
from penstock.numerics.casting import cast_bool
from penstock.types import Constant

DType = np.dtype[Any]


def _divide(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return a / b
    # NumPy warns of a division by zero, and XLA returns -1. `//` rounds down, so negative inexact quotients get 1 more.
    zero = b == 0
    safe = xp.where(zero, xp.ones((), b.dtype), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((a - quotient * safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return xp.where(zero, xp.zeros((), a.dtype), quotient)


def _remainder(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return xp.fmod(a, b)
    # By the truncated quotient, because `%` of NumPy and JAX has the sign of the divisor.
    return xp.where(b == 0, xp.zeros((), a.dtype), a - _divide(xp, a, b) * b)


def _compare_mixed_signs(xp: Any, symbol: str, a: Any, b: Any) -> Any:
    """Compare signed with unsigned integers whose common type is int64, which cannot hold all of uint64."""
    signed, unsigned = (a, b) if a.dtype.kind == "i" else (b, a)
    # A negative number is less than any unsigned one. All others are compared as unsigned.
    negative = signed < 0
    wide = np.dtype(f"u{max(signed.dtype.itemsize, unsigned.dtype.itemsize)}")
    magnitude, other = xp.where(negative, xp.zeros((), signed.dtype), signed).astype(wide), unsigned.astype(wide)
    above = _BINARY[symbol](xp, *((magnitude, other) if signed is a else (other, magnitude)))
    below = symbol in (("ne", "lt", "le") if signed is a else ("ne", "gt", "ge"))
    return xp.where(negative, below, above)


def _power(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return xp.power(a, b)
    zero = xp.zeros((), a.dtype)
    # Negative exponents give 0, as in DALI, even if the base is 1 or -1.
    exponent = xp.maximum(b, zero)
    return xp.where(b < 0, zero, np.power(a, exponent) if xp is np else _wrapping_power(xp, a, exponent))


def _wrapping_power(xp: Any, base: Any, exponent: Any) -> Any:
    """Return powers that wrap around as NumPy's do. `jax.numpy.power` reads only 6 bits of exponents."""
    result = xp.ones((), base.dtype)
    for bit in range(8 * base.dtype.itemsize - (base.dtype.kind == "i")):
        is_set = (exponent & xp.asarray(1 << bit, base.dtype)) != 0
        result, base = xp.where(is_set, result * base, result), base * base
    return result


def _shift(symbol: str, a: Any, b: Any) -> Any:
    """Shift bits. Booleans are shifted as bytes and are True if any bit remains."""
    if a.dtype.kind == "b":
        return _shift(symbol, a.astype(np.uint8), b.astype(np.uint8)) != 0
    return a << b if symbol == "lshift" else a >> b


# Functions of (namespace, operands in their common type).
_BINARY: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda _xp, a, b: a + b,
    "sub": lambda _xp, a, b: a - b,
    "mul": lambda _xp, a, b: a * b,
    "truediv": lambda _xp, a, b: a / b,
    "floordiv": _divide,
    "mod": _remainder,
    "pow": _power,
    "and": lambda _xp, a, b: a & b,
    "or": lambda _xp, a, b: a | b,
    "xor": lambda _xp, a, b: a ^ b,
    "lshift": lambda _xp, a, b: _shift("lshift", a, b),
    "rshift": lambda _xp, a, b: _shift("rshift", a, b),
    # If one of the two is NaN, the result is the second operand. `xp.minimum` would return NaN.
    "min": lambda xp, a, b: xp.where(a < b, a, b),
    "max": lambda xp, a, b: xp.where(a > b, a, b),
    "atan2": lambda xp, a, b: xp.arctan2(a, b),
    "fpow": lambda xp, a, b: xp.power(a, b),
    "eq": lambda _xp, a, b: a == b,
    "ne": lambda _xp, a, b: a != b,
    "lt": lambda _xp, a, b: a < b,
    "le": lambda _xp, a, b: a <= b,
    "gt": lambda _xp, a, b: a > b,
    "ge": lambda _xp, a, b: a >= b,
}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_NOT_FOR_BOOLS = ("add", "sub", "truediv", "floordiv", "mod", "pow", "min", "max", "atan2", "fpow")
_IN_FLOATS = ("truediv", "atan2", "fpow")

_UNARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "neg": lambda _xp, a: -a,
    "abs": lambda xp, a: xp.abs(a),
    "invert": lambda _xp, a: ~a,
}


def promote(a: DType, b: DType) -> DType:
    """Return the type in which two operands are combined.

    >>> promote(np.dtype("uint8"), np.dtype("int8")), promote(np.dtype("int64"), np.dtype("float32"))
    (dtype('int16'), dtype('float32'))
    """
    if a == b:
        return a
    # Bool, integer, float; everything else is a float because the kind of bfloat16 is "V".
    ranks = [0 if t.kind == "b" else 1 if t.kind in "iu" else 2 for t in (a, b)]
    if ranks[0] != ranks[1]:
        return a if ranks[0] > ranks[1] else b
    if ranks[0] == 2 and a.itemsize == b.itemsize:
        # float16 with bfloat16, neither of which contains the other.
        return np.dtype(np.float32)
    if ranks[0] == 2 or a.kind == b.kind:
        return max(a, b, key=lambda t: t.itemsize)
    # The signed type that holds both, at most int64: int64 with uint64 is int64, as in DALI.
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return np.dtype(f"i{max(signed.itemsize, min(2 * unsigned.itemsize, 8))}")


def common_layout(left: Spec, right: Spec) -> str:
    """Return the layout of the result of two operands.

    Raises:
        DefinitionError: Their axes have different names.
    """
    if not (left.layout.endswith(right.layout) or right.layout.endswith(left.layout)):
        raise DefinitionError(
            "the axes of the operands have different names",
            given=f"{left.layout} and {right.layout}",
            expected="the same layout, or one that the other ends with",
            fix="fn.transpose(x, output_layout=...) or fn.reshape(x, layout='')",
        )
    return max(left, right, key=lambda spec: (len(spec.shape), bool(spec.layout))).layout


@dataclass(frozen=True)
class Binary(Operator, BatchKernel):
    """Operation on two values, element by element. Shapes broadcast as in NumPy."""

    symbol: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, left: Spec, right: Spec) -> Spec:
        """Return the broadcast spec in the common type."""
        common = self._common(left.dtype, right.dtype)
        expression = f"{left.dtype} {self.symbol} {right.dtype}"
        if left.dtype.kind == right.dtype.kind == "b" and self.symbol in _NOT_FOR_BOOLS:
            raise DefinitionError(
                f"{self.symbol} does not work on booleans", given=expression, fix="fn.cast one of them to types.INT32"
            )
        if common.kind not in "biu" and self.symbol in _BITWISE:
            raise DefinitionError("bitwise operations work on integers and booleans", given=expression)
        layout = common_layout(left, right)
        shape = broadcast(left.shape, right.shape)
        return Spec(np.dtype(np.bool_) if self.symbol in _COMPARISONS else common, shape, layout)

    def _common(self, left: DType, right: DType) -> DType:
        common = promote(left, right)
        return np.dtype(np.float32) if self.symbol in _IN_FLOATS and common.kind in "biu" else common

    def batch(self, context: BatchContext, left: Any, right: Any) -> Any:
        """Combine two batches."""
        common = self._common(left.dtype, right.dtype)
        rank = max(left.ndim, right.ndim)
        a, b = raise_rank(left, rank), raise_rank(right, rank)
        # Converted to int64, large uint64 would become negative.
        if self.symbol in _COMPARISONS and {a.dtype.kind, b.dtype.kind} == {"i", "u"} and common.itemsize == 8:
            return _compare_mixed_signs(context.xp, self.symbol, a, b)
        a, b = (cast_bool(context.xp, v, common) if v.dtype.kind == "b" else v.astype(common) for v in (a, b))
        return _BINARY[self.symbol](context.xp, a, b)


@dataclass(frozen=True)
class Unary(Operator, BatchKernel):
    """Operation on one value, element by element."""

    symbol: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec) -> Spec:
        """Return the spec of the input."""
        if self.symbol == "invert" and value.dtype.kind not in "biu":
            raise DefinitionError("~ works on integers and booleans", given=value)
        if self.symbol == "neg" and value.dtype.kind == "b":
            raise DefinitionError("cannot negate a boolean node", given=value, fix="~value")
        if self.symbol == "abs" and value.dtype.kind == "b":
            raise DefinitionError("abs does not work on booleans", given=value)
        return value

    def batch(self, context: BatchContext, value: Any) -> Any:
        """Apply the operation to a batch."""
        return _UNARY[self.symbol](context.xp, value)


def broadcast(left: Shape, right: Shape) -> Shape:
    """Return the broadcast shape of two operands.

    Raises:
        DefinitionError: Two extents of an axis differ, and neither is 1.
    """
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    shape: list[int | None] = []
    for a, b in pairs:
        if a is not None and b is not None and a != b and 1 not in (a, b):
            raise DefinitionError(
                "the shapes do not broadcast", given=f"{left} and {right}", expected="equal extents, or 1"
            )
        # An unknown extent next to a known one must turn out to be equal or 1.
        shape.append(b if a == 1 else a if b == 1 or b is None else b)
    return tuple(shape)


def raise_rank(value: Any, rank: int) -> Any:
    """Insert axes of extent 1 after that of the batch, so that samples of different ranks broadcast."""
    return value.reshape(value.shape[:1] + (1,) * (rank - value.ndim) + value.shape[1:])


def _operand(value: Any) -> Any:
    """Wrap NumPy scalars in a `Constant`, which keeps their type; otherwise 64-bit integers would become 32-bit."""
    is_scalar = isinstance(value, np.integer | np.ndarray) and not np.ndim(cast(Any, value))
    return Constant(value) if is_scalar else cast(Any, value)


def _has_zero(divisor: Any) -> bool:
    """Return True if a divisor is a constant with a zero. DALI refuses it too, where a program on a device gives 0."""
    value = divisor.value if isinstance(divisor, Constant) else divisor
    return isinstance(value, int | float | np.number | np.ndarray) and not np.all(cast(Any, value))


def _define(kind: Binary | Unary) -> None:
    @operator(f"arithmetic.{kind.symbol}")
    def apply_to(*operands: Any) -> DataNode:  # pyright: ignore[reportUnusedFunction]  # it is registered
        result = apply(kind, *map(_operand, operands))
        if kind.symbol in ("floordiv", "mod") and result.value.spec.dtype.kind in "iu" and _has_zero(operands[1]):
            raise DefinitionError("integers cannot be divided by zero", given=short_repr(operands[1]))
        return result


for _symbol in _BINARY:
    _define(Binary(_symbol))
for _symbol in _UNARY:
    _define(Unary(_symbol))
