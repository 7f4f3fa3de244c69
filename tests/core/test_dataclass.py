"""Data classes whose comparison and text are shared code: they equal those of the standard library."""

import dataclasses
import pickle
from dataclasses import field
from typing import Any

import numpy as np
import pytest

from penstock.core.dataclass import dataclass


def both(**options: Any) -> list[type[Any]]:
    """Return a class made with the standard library and one made with `dataclass`."""

    def define(decorate: Any) -> type[Any]:
        class Size:
            """Size of an image."""

            width: int
            height: int = 2
            note: Any = field(default=None, compare=False, repr=False)

        return decorate(**options)(Size) if options else decorate(Size)

    return [define(dataclasses.dataclass), define(dataclass)]


OPTIONS = [{}, {"frozen": True}, {"frozen": True, "slots": True}, {"slots": True}, {"eq": False}, {"repr": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_equals_the_standard_library(options):
    for size in both(**options):
        first, same, other = size(1, note="x"), size(1, note="y"), size(3)
        by_value = options.get("eq", True)
        assert (first == same) is by_value
        assert first != other
        assert first != (1, 2)
        assert dataclasses.astuple(dataclasses.replace(first, width=5)) == (5, 2, "x")
        assert ("width=1, height=2)" in repr(first)) is options.get("repr", True)
        assert "note" not in repr(first)
        if options.get("frozen"):
            assert hash(first) == hash(same)
            with pytest.raises(dataclasses.FrozenInstanceError):
                first.width = 3
        else:
            assert (size.__hash__ is None) is by_value
    standard, cheap = both(**options)
    if options.get("repr", True):
        assert repr(standard(1)) == repr(cheap(1))


def test_methods_of_the_class_stay():
    @dataclass(frozen=True)
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

        def __repr__(self) -> str:
            return self.text

    assert Name("A") == Name("a")
    assert hash(Name("A")) == hash(Name("a"))
    assert repr(Name("A")) == "A"


def test_classes_are_compared_by_all_fields_of_their_own_class():
    @dataclass(frozen=True)
    class Base:
        a: Any

    @dataclass(frozen=True)
    class Derived(Base):
        b: int = 0

    @dataclass(frozen=True)
    class Empty: ...

    array = np.zeros(3)
    assert Base(1) != Derived(1)
    assert Derived(1, 2) == Derived(1, 2) != Derived(1, 3)
    assert Base(array) == Base(array)  # the same object, whatever its own comparison returns
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    assert repr(Derived(Base(1), 2)).endswith("Derived(a=" + repr(Base(1)) + ", b=2)")


@dataclass(frozen=True, slots=True)
class Point:
    """A class that pickle finds by name."""

    x: int


def test_it_pickles():
    assert pickle.loads(pickle.dumps(Point(3))) == Point(3)
