"""Data classes that are cheap to define: `dataclass` of the standard library, with comparison and text in shared code.

The standard library compiles `__eq__`, `__hash__` and `__repr__` for each class, which takes half of the time that a
class takes. An import of the package defines more than a hundred classes: the modules that it loads use this decorator,
and others may use that of the standard library.
"""

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(
    *,
    init: bool = True,
    repr: bool = True,  # as below
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(
    cls: type[Any] | None = None,
    /,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002  # as in the standard library
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    """Return the class as a data class, as `dataclasses.dataclass` does.

    Args:
        cls: The class.
        init: Whether to add `__init__`.
        repr: Whether to add `__repr__`.
        eq: Whether to add `__eq__`, and `__hash__` if the class is frozen.
        frozen: Whether to refuse assignments.
        slots: Whether to store the fields in slots.
    """

    def convert(cls: type[Any]) -> type[Any]:
        own = cls.__dict__
        # A class that defines only `__eq__` has None as its `__hash__`.
        defines_hash = own.get("__hash__") is not None
        result = dataclasses.dataclass(init=init, repr=False, eq=False, frozen=frozen, slots=slots)(cls)
        if repr and "__repr__" not in own:
            result.__repr__ = _text
        if eq:
            values = _values([item.name for item in dataclasses.fields(result) if item.compare])
            if "__eq__" not in own:
                result.__eq__ = _equality(values)
            if not defines_hash:
                result.__hash__ = _hash(values) if frozen else None
        return result

    return convert if cls is None else convert(cls)


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the values of fields."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda instance: tuple([getattr(instance, name) for name in names])


def _equality(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], bool]:
    def equal(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


@reprlib.recursive_repr()
def _text(self: Any) -> str:
    fields = [f"{item.name}={getattr(self, item.name)!r}" for item in dataclasses.fields(self) if item.repr]
    return f"{type(self).__qualname__}({', '.join(fields)})"
