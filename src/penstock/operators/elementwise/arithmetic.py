"""Arithmetic, comparisons and bit operations between values, as Python's operators and `penstock.math` spell them.

Types and results are DALI's: Python numbers count as int32 and float32, ``u8 + u8`` wraps, ``u8 + i8`` is int16,
``/`` of integers is float32, ``//`` of integers cuts towards zero and is plain division for floats, ``%`` has the sign
of the dividend. A division of integers by zero gives 0. Comparisons compare numbers, whatever the types: -1 is less
than any uint64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core.spec import Shape, Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.types import Constant

DType = np.dtype[Any]


def _divide(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return a / b
    zero = b == 0
    safe = xp.where(zero, xp.ones((), b.dtype), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((a - quotient * safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
    return xp.where(zero, xp.zeros((), a.dtype), quotient)


def _remainder(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return xp.fmod(a, b)
    return xp.where(b == 0, xp.zeros((), a.dtype), a - _divide(xp, a, b) * b)


def _compare(xp: Any, symbol: str, a: Any, b: Any) -> Any:
    """A comparison of signed with unsigned integers, for which no integer type is wide enough."""
    signed, unsigned = (a, b) if a.dtype.kind == "i" else (b, a)
    negative = signed < 0
    wide = np.dtype(f"u{max(signed.dtype.itemsize, unsigned.dtype.itemsize)}")
    size, other = xp.where(negative, xp.zeros((), signed.dtype), signed).astype(wide), unsigned.astype(wide)
    above = _BINARY[symbol](xp, *((size, other) if signed is a else (other, size)))
    below = symbol in (("ne", "lt", "le") if signed is a else ("ne", "gt", "ge"))
    return xp.where(negative, below, above)


def _power(xp: Any, a: Any, b: Any) -> Any:
    if a.dtype.kind != "i":
        return xp.power(a, b)
    one, zero = xp.ones((), a.dtype), xp.zeros((), a.dtype)
    inverse = xp.where(a == 1, one, xp.where(a == -1, one - (b & one) * 2, zero))  # 1 / a, cut towards zero
    return xp.where(b < 0, inverse, xp.power(a, xp.maximum(b, zero)))


def _shift(symbol: str, a: Any, b: Any) -> Any:
    """Shifted bits; truth values are shifted as bytes, and are true where a bit is left."""
    if a.dtype.kind == "b":
        return _shift(symbol, a.astype(np.uint8), b.astype(np.uint8)) != 0
    return a << b if symbol == "lshift" else a >> b


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
    "min": lambda xp, a, b: xp.where(a < b, a, b),  # of a NaN and a number, the second
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
    """The type in which two operands are combined.

    >>> promote(np.dtype("uint8"), np.dtype("int8")), promote(np.dtype("int64"), np.dtype("float32"))
    (dtype('int16'), dtype('float32'))
    """
    if a == b:
        return a
    ranks = [0 if t.kind == "b" else 1 if t.kind in "iu" else 2 for t in (a, b)]  # kind of bfloat16 is "V"
    if ranks[0] != ranks[1]:
        return a if ranks[0] > ranks[1] else b
    if ranks[0] == 2 and a.itemsize == b.itemsize:
        return np.dtype(np.float32)  # float16 and bfloat16
    if ranks[0] == 2 or a.kind == b.kind:
        return max(a, b, key=lambda t: t.itemsize)
    signed, unsigned = (a, b) if a.kind == "i" else (b, a)
    return np.dtype(f"i{max(signed.itemsize, min(2 * unsigned.itemsize, 8))}")


def common_layout(left: Spec, right: Spec) -> str:
    """The layout of what two values give together.

    Raises:
        DefinitionError: their axes have other names.
    """
    if not (left.layout.endswith(right.layout) or right.layout.endswith(left.layout)):
        raise DefinitionError(
            "the axes of the operands have different names",
            given=f"{left.layout} and {right.layout}",
            expected="the same layout, or the last axes of it",
            fix="fn.transpose(x, output_layout=...) or fn.reshape(x, layout='')",
        )
    return max(left, right, key=lambda spec: (len(spec.shape), bool(spec.layout))).layout


@dataclass(frozen=True)
class Binary(Operator, BatchKernel):
    """Two values combined element by element; shapes broadcast as in NumPy."""

    symbol: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, left: Spec, right: Spec) -> Spec:
        """The broadcast shape in the combined type."""
        common = self._common(left.dtype, right.dtype)
        given = f"{left.dtype} {self.symbol} {right.dtype}"
        if left.dtype.kind == right.dtype.kind == "b" and self.symbol in _NOT_FOR_BOOLS:
            raise DefinitionError(
                f"{self.symbol} does not work on truth values", given=given, fix="fn.cast one of them to types.INT32"
            )
        if common.kind not in "biu" and self.symbol in _BITWISE:
            raise DefinitionError("bit operations work on integers and truth values", given=given)
        layout = common_layout(left, right)
        shape = broadcast(left.shape, right.shape)
        return Spec(np.dtype(np.bool_) if self.symbol in _COMPARISONS else common, shape, layout)

    def _common(self, left: DType, right: DType) -> DType:
        common = promote(left, right)
        return np.dtype(np.float32) if self.symbol in _IN_FLOATS and common.kind in "biu" else common

    def batch(self, context: BatchContext, left: Any, right: Any) -> Any:
        """The combined batch."""
        common = self._common(left.dtype, right.dtype)
        rank = max(left.ndim, right.ndim)
        a, b = raise_rank(left, rank), raise_rank(right, rank)
        if self.symbol in _COMPARISONS and {a.dtype.kind, b.dtype.kind} == {"i", "u"} and common.itemsize == 8:
            return _compare(context.xp, self.symbol, a, b)
        return _BINARY[self.symbol](context.xp, a.astype(common), b.astype(common))


@dataclass(frozen=True)
class Unary(Operator, BatchKernel):
    """A value changed element by element."""

    symbol: str
    pixel_aligned: ClassVar[bool] = True

    def infer(self, value: Spec) -> Spec:
        """The input's."""
        if self.symbol == "invert" and value.dtype.kind not in "biu":
            raise DefinitionError("~ works on integers and truth values", given=value)
        if self.symbol == "neg" and value.dtype.kind == "b":
            raise DefinitionError("a truth value has no negative", given=value, fix="~value")
        if self.symbol == "abs" and value.dtype.kind == "b":
            raise DefinitionError("a truth value has no absolute value", given=value)
        return value

    def batch(self, context: BatchContext, value: Any) -> Any:
        """The changed batch."""
        return _UNARY[self.symbol](context.xp, value)


def broadcast(left: Shape, right: Shape) -> Shape:
    """The shape of what two values give together.

    Raises:
        DefinitionError: an axis has two extents, neither of them 1.
    """
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    shape: list[int | None] = []
    for a, b in pairs:
        if a is not None and b is not None and a != b and 1 not in (a, b):
            raise DefinitionError(
                "the shapes do not fit each other", given=f"{left} and {right}", expected="equal or 1"
            )
        shape.append(b if a == 1 else a if b == 1 or b is None else b)
    return tuple(shape)


def raise_rank(value: Any, rank: int) -> Any:
    """A batch of values with axes of extent 1 in front of a sample's."""
    return value.reshape(value.shape[:1] + (1,) * (rank - value.ndim) + value.shape[1:])


def _operand(given: Any) -> Any:
    """NumPy's integers count with their own type, as those of a `Constant` do; elsewhere 64 bits become 32."""
    own = isinstance(given, np.integer | np.ndarray) and not np.ndim(cast(Any, given))
    return Constant(given) if own else cast(Any, given)


def _define(kind: Binary | Unary) -> None:
    @operator(f"arithmetic.{kind.symbol}")
    def apply_to(*operands: Any) -> DataNode:  # pyright: ignore[reportUnusedFunction]  # it is registered
        return apply(kind, *map(_operand, operands))


for _symbol in _BINARY:
    _define(Binary(_symbol))
for _symbol in _UNARY:
    _define(Unary(_symbol))
