"""Python's operators on nodes: each records the operator of the same meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from penstock.graph.ir.node import NodeHandle
from penstock.graph.tracing.registry import lookup
from penstock.types import Constant

if TYPE_CHECKING:
    from penstock.graph.tracing.trace import DataNode


def _binary(name: str) -> Callable[[Any, Any], DataNode]:
    """Return the method of a binary operator."""

    def method(left: Any, right: Any) -> DataNode:
        return lookup(f"arithmetic.{name}")(left, right)

    return method


def _reflected(name: str) -> Callable[[Any, Any], DataNode]:
    """Return the method of a binary operator for a node on the right."""
    return lambda self, other: lookup(f"arithmetic.{name}")(other, self)


class Expression(NodeHandle):  # noqa: PLW1641  # derived classes define the hash, to say what is wrong
    """Base class of nodes: indexing, arithmetic and comparisons, sample by sample."""

    __slots__ = ()
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

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _binary("truediv"), _reflected("truediv")
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __pow__, __rpow__ = _binary("pow"), _reflected("pow")
    __and__, __rand__ = _binary("and"), _reflected("and")
    __or__, __ror__ = _binary("or"), _reflected("or")
    __xor__, __rxor__ = _binary("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _binary("lshift"), _reflected("lshift")
    __rshift__, __rrshift__ = _binary("rshift"), _reflected("rshift")

    def __eq__(self, other: object) -> DataNode:  # type: ignore[override]  # compares per sample, like NumPy
        return _binary("eq")(self, other)

    def __ne__(self, other: object) -> DataNode:  # type: ignore[override]  # as above
        return _binary("ne")(self, other)

    __lt__ = _binary("lt")
    __le__ = _binary("le")
    __gt__ = _binary("gt")
    __ge__ = _binary("ge")

    def __neg__(self) -> DataNode:
        return lookup("arithmetic.neg")(self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> DataNode:
        return lookup("arithmetic.abs")(self)

    def __invert__(self) -> DataNode:
        return lookup("arithmetic.invert")(self)


def _equal(number: Constant, other: object) -> Any:
    if not (number.is_number and isinstance(other, Constant) and other.is_number):
        fits = isinstance(other, NodeHandle | Constant) or not number.is_number
        return _binary("eq")(number, other) if fits else NotImplemented
    return (number.value, number.dtype) == (other.value, other.dtype)


def _unequal(number: Constant, other: object) -> Any:
    equal = _equal(number, other)
    if equal is NotImplemented:
        return equal
    return not equal if isinstance(equal, bool) else _binary("ne")(number, other)


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
    if callable(_method) and _name not in _OWN:
        setattr(Constant, _name, _method)
for _name, _method in _OWN.items():
    setattr(Constant, _name, _method)
# Python falls back to `__getitem__` for iteration, which never raises IndexError here: the loop would not end.
for _kind in (Expression, Constant):
    setattr(_kind, "__iter__", None)  # noqa: B010  # type checkers refuse the assignment
