"""Python's operators on nodes: each records the operator of the same meaning."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Self

from penstock.graph.ir.node import NodeHandle
from penstock.graph.tracing.registry import lookup
from penstock.types import Constant

if TYPE_CHECKING:
    from penstock.graph.tracing.trace import DataNode


class Expression(NodeHandle):
    """Base class of nodes: indexing, arithmetic and comparisons, sample by sample."""

    __slots__ = ()
    __hash__ = object.__hash__
    # Makes NumPy return NotImplemented for `array + node`. Otherwise it would build an array of objects.
    __array_ufunc__ = None

    def __getitem__(self, index: Any) -> DataNode:
        return lookup("getitem")(self, *(index if isinstance(index, tuple) else (index,)))

    def gpu(self) -> DataNode:
        """Return the same value with the hint to run its consumers on the accelerator."""
        return lookup("copy")(self, device="gpu")

    def cpu(self) -> DataNode:
        """Return the same value with the hint to run its consumers on the host."""
        return lookup("copy")(self, device="cpu")

    def __add__(self, other: Any) -> DataNode:
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> DataNode:
        return _binary("add", other, self)

    def __sub__(self, other: Any) -> DataNode:
        return _binary("sub", self, other)

    def __rsub__(self, other: Any) -> DataNode:
        return _binary("sub", other, self)

    def __mul__(self, other: Any) -> DataNode:
        return _binary("mul", self, other)

    def __rmul__(self, other: Any) -> DataNode:
        return _binary("mul", other, self)

    def __truediv__(self, other: Any) -> DataNode:
        return _binary("truediv", self, other)

    def __rtruediv__(self, other: Any) -> DataNode:
        return _binary("truediv", other, self)

    def __floordiv__(self, other: Any) -> DataNode:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> DataNode:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Any) -> DataNode:
        return _binary("mod", self, other)

    def __rmod__(self, other: Any) -> DataNode:
        return _binary("mod", other, self)

    def __pow__(self, other: Any) -> DataNode:
        return _binary("pow", self, other)

    def __rpow__(self, other: Any) -> DataNode:
        return _binary("pow", other, self)

    def __and__(self, other: Any) -> DataNode:
        return _binary("and", self, other)

    def __rand__(self, other: Any) -> DataNode:
        return _binary("and", other, self)

    def __or__(self, other: Any) -> DataNode:
        return _binary("or", self, other)

    def __ror__(self, other: Any) -> DataNode:
        return _binary("or", other, self)

    def __xor__(self, other: Any) -> DataNode:
        return _binary("xor", self, other)

    def __rxor__(self, other: Any) -> DataNode:
        return _binary("xor", other, self)

    def __lshift__(self, other: Any) -> DataNode:
        return _binary("lshift", self, other)

    def __rlshift__(self, other: Any) -> DataNode:
        return _binary("lshift", other, self)

    def __rshift__(self, other: Any) -> DataNode:
        return _binary("rshift", self, other)

    def __rrshift__(self, other: Any) -> DataNode:
        return _binary("rshift", other, self)

    def __eq__(self, other: object) -> DataNode:  # type: ignore[override]  # compares per sample, like NumPy
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> DataNode:  # type: ignore[override]  # as above
        return _binary("ne", self, other)

    def __lt__(self, other: Any) -> DataNode:
        return _binary("lt", self, other)

    def __le__(self, other: Any) -> DataNode:
        return _binary("le", self, other)

    def __gt__(self, other: Any) -> DataNode:
        return _binary("gt", self, other)

    def __ge__(self, other: Any) -> DataNode:
        return _binary("ge", self, other)

    def __neg__(self) -> DataNode:
        return lookup("arithmetic.neg")(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> DataNode:
        return lookup("arithmetic.abs")(self)

    def __invert__(self) -> DataNode:
        return lookup("arithmetic.invert")(self)


def _binary(name: str, left: Any, right: Any) -> DataNode:
    return lookup(f"arithmetic.{name}")(left, right)


def _equal(number: Constant, other: object) -> Any:
    if not (number.is_number and isinstance(other, Constant) and other.is_number):
        fits = isinstance(other, NodeHandle | Constant) or not number.is_number
        return _binary("eq", number, other) if fits else NotImplemented
    return (number.value, number.dtype) == (other.value, other.dtype)


def _unequal(number: Constant, other: object) -> Any:
    equal = _equal(number, other)
    if equal is NotImplemented:
        return equal
    return not equal if isinstance(equal, bool) else _binary("ne", number, other)


def _property(constant: Constant, key: str, **device: Any) -> DataNode:
    return lookup("get_property")(constant, key=key, **device)


def _source_info(constant: Constant, **device: Any) -> DataNode:
    return _property(constant, "source_info", **device)


# Members of constants that differ from those of `Expression`, or that only nodes have.
_OWN: dict[str, Any] = {
    "__array_ufunc__": None,
    "__eq__": _equal,
    "__ne__": _unequal,
    "property": _property,
    "shape": property(lambda self: [] if self.is_number else functools.partial(lookup("shapes"), self)),
    "source_info": _source_info,
}

# A constant computes like the node that it becomes.
for _name, _method in vars(Expression).items():
    if callable(_method) and _name not in ("__hash__", *_OWN):
        setattr(Constant, _name, _method)
for _name, _method in _OWN.items():
    setattr(Constant, _name, _method)
# Python falls back to `__getitem__` for iteration, which never raises IndexError here: the loop would not end.
for _kind in (Expression, Constant):
    setattr(_kind, "__iter__", None)  # noqa: B010  # type checkers refuse the assignment
