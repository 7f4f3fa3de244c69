"""Conversion of values to the types of annotations, and descriptions of those types for messages."""

import math
import types
import typing
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, ValuesView
from enum import Enum, EnumMeta, IntEnum
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast

import numpy as np

from penstock.core.dtypes import DTYPES_IN_WORDS
from penstock.errors import ArgumentTypeError, did_you_mean, short_repr
from penstock.graph.arguments.argument_marks import ElementType, NotEmpty, Range, marks_of
from penstock.graph.ir.node import NodeHandle
from penstock.types import Constant, DALIDataType, DALIImageType, DALIInterpType, as_dtype

_INT_LIMIT = 2**63  # int64 holds the numbers below; NumPy has no type for larger ones

# Elements of a sequence that are checked together: lists of labels may have millions of elements, for which one check
# each is slow. Only a part with a wrong element is searched one by one.
_PART_SIZE = 4096


class MismatchError(Exception):
    """A value does not have the type of its annotation.

    Args:
        value: The argument, or its wrong element.
        at: Index of that element, such as "[3]".
    """

    def __init__(self, value: Any, at: str = "") -> None:
        super().__init__(value, at)
        self.value, self.at = value, at

    def __str__(self) -> str:
        return f"{short_repr(self.value)} of type {type(self.value).__name__}" + (f", at {self.at}" if self.at else "")


class WrongTypeError(MismatchError):
    """A value of another type."""


class UnknownDtypeError(WrongTypeError):
    """A value that is not a dtype."""


class OutOfRangeError(MismatchError):
    """A value of the right type, but outside its limits."""


class UnknownChoiceError(OutOfRangeError):
    """A string that is not one of the choices."""


def coerce(hint: Any, value: Any, limits: Range | None = None) -> Any:
    """Return a value in the type of an annotation: 3.0 becomes 3 where it says ``int``.

    Args:
        hint: The annotation.
        value: The argument.
        limits: Limits of numbers if the annotation has none.

    Raises:
        WrongTypeError: The value has another type.
        OutOfRangeError: A number is out of range or not finite, or a string is not one of the choices.

    >>> coerce(int | None, 3.0), coerce(Sequence[int], (1, 2))
    (3, (1, 2))
    """
    if _has_mark(hint, ElementType):
        return _element_type(value)
    if _has_mark(hint, NotEmpty) and _is_empty(value):
        raise OutOfRangeError(value)
    hint, limits = _unwrapped(hint, limits or Range())
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _conform_to_one(inside, value, limits)
    if hint in (int, float, bool):
        return _number(hint, value, limits)
    if origin in (Sequence, tuple, list):
        return _sequence(inside[0], value, limits, count=_count(hint))
    if origin is Mapping:
        return _mapping(inside, value, limits)
    if origin is Literal and isinstance(value, np.str_):  # an element of an array of names
        value = str(value)
    if not _is(hint, value):
        raise (UnknownChoiceError if origin is Literal and isinstance(value, str) else WrongTypeError)(value)
    return value


def _has_mark(hint: Any, kind: type) -> bool:
    return any(isinstance(mark, kind) for mark in marks_of(hint))


def _is_empty(value: Any) -> bool:
    try:
        return not len(value)
    except Exception:  # noqa: BLE001  # nodes, numbers, arrays without axes and classes have no length
        return False


def _element_type(value: Any) -> Any:
    """Return a dtype as it was given: it is part of the identity of a definition."""
    try:
        as_dtype(value)
    except ArgumentTypeError:
        raise UnknownDtypeError(value) from None
    return value


def _unwrapped(hint: Any, limits: Range) -> tuple[Any, Range]:
    """Return the annotation without marks, and the limits among the marks."""
    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *marks = typing.get_args(hint)
        limits = next((mark for mark in marks if isinstance(mark, Range)), limits)
    return hint, limits


def _conform_to_one(alternatives: Sequence[Any], value: Any, limits: Range) -> Any:
    errors: list[MismatchError] = []
    for alternative in alternatives:
        try:
            return coerce(alternative, value, limits)
        except MismatchError as error:
            errors.append(error)
    raise max(
        errors, key=lambda error: (isinstance(error, OutOfRangeError), len(error.at))
    )  # the nearest miss explains most


def _is(hint: Any, value: Any) -> bool:
    """Return True if a value has the type of an annotation that is not a union, sequence or mapping."""
    kind: Any = typing.get_origin(hint) or hint
    if kind is Literal:
        return any(type(value) is type(item) and value == item for item in typing.get_args(hint))
    if kind is Callable:
        return callable(value)
    if kind is Any or not isinstance(kind, type):  # or a type variable
        return True
    if issubclass(kind, NodeHandle):  # operators convert constants to nodes
        return isinstance(value, NodeHandle | Constant)
    if kind is Iterable and getattr(value, "ndim", 1) == 0:  # NumPy arrays of rank 0 have __iter__, but raise
        return False
    if kind is str:  # a NUL truncates paths in C libraries
        return isinstance(value, str) and "\0" not in value
    if issubclass(kind, IntEnum):  # a member, or its number
        return isinstance(value, int) and not isinstance(value, bool) and value in set(kind)
    return isinstance(value, kind)


def _number(kind: Any, value: Any, limits: Range) -> Any:
    if isinstance(value, str | bytes | NodeHandle | DALIDataType | DALIImageType | DALIInterpType) or value is None:
        raise WrongTypeError(value)
    if isinstance(value, int) and not -_INT_LIMIT <= value < _INT_LIMIT:  # NumPy would make it an array of objects
        raise OutOfRangeError(value)
    try:
        array = np.asarray(value)
    except Exception:  # noqa: BLE001  # an array-like may raise anything
        raise WrongTypeError(value) from None
    if array.ndim or array.dtype.kind not in "biuf":
        raise WrongTypeError(value)
    number = array.item()
    if not np.isfinite(number) or (kind is int and not -_INT_LIMIT <= number < _INT_LIMIT):
        raise OutOfRangeError(value)
    counts = kind is int and limits != Range()  # without limits an int may be a flag, for which True is valid
    if (kind is int and number != int(number)) or (kind is bool and number not in (0, 1)):
        raise WrongTypeError(value)
    if counts and array.dtype.kind == "b":
        raise WrongTypeError(value)
    if not limits.contains(number, number):
        raise OutOfRangeError(value)
    if kind is bool:
        return bool(number)
    if kind is int and array.dtype.kind == "f":
        return int(number)
    return value if isinstance(value, int | float) else number


def _count(hint: Any) -> int | None:
    """Return the length of ``tuple[int, int]``, or None for other annotations."""
    inside = typing.get_args(hint)
    return len(inside) if typing.get_origin(hint) is tuple and Ellipsis not in inside else None


def _sequence(hint: Any, value: Any, limits: Range, count: int | None) -> Any:
    if isinstance(value, KeysView | ValuesView):  # a dictionary's order is defined, so they can be a sequence
        value = list(cast(Any, value))
    # A class of NumPy also has these attributes, as descriptors.
    is_array = not isinstance(value, type) and bool(getattr(value, "ndim", 0)) and hasattr(value, "__array__")
    if isinstance(value, str | bytes) or not (isinstance(value, Sequence) or is_array):
        raise WrongTypeError(value)
    if count is not None and len(cast(Any, value)) != count:
        raise WrongTypeError(value)
    if hint is Any:
        return cast(Any, value)
    before: list[Any] = np.asarray(cast(Any, value)).tolist() if is_array else list(cast(Sequence[Any], value))
    # Integer arrays are passed on as lists, so that operators need not handle them separately.
    whole = is_array and (not before or cast(Any, value).dtype.kind != "f")
    kinds = set(map(type, before))
    if len(kinds) == 1 and issubclass(kind := kinds.pop(), np.number) and kind is not np.float64:
        before, whole = np.asarray(before).tolist(), True
    after: list[Any] = []
    for start in range(0, len(before), _PART_SIZE):
        part = before[start : start + _PART_SIZE]
        fit = _all_fit(hint, part, limits)
        after += part if fit else [_element(hint, item, limits, number) for number, item in enumerate(part, start)]
    if not whole and all(a is b for a, b in zip(after, before, strict=True)):
        return cast(Any, value)
    return tuple(after) if isinstance(value, tuple) else after


def _all_fit(hint: Any, value: list[Any], limits: Range) -> bool:
    """Return True if all items have the type of an annotation and need no conversion.

    False may also mean that a check of all items together is not possible.
    """
    hint, limits = _unwrapped(hint, limits)
    origin, inside, kinds = typing.get_origin(hint), typing.get_args(hint), set(map(type, value))
    if origin in (Union, types.UnionType):
        return _all_fit(inside[0], value, limits)  # the first alternative converts the item, so others do not count
    if origin in (Sequence, tuple, list):
        count = _count(hint)
        lists = kinds <= {list, tuple} and (count is None or {len(item) for item in value} <= {count})
        return lists and (inside[0] is Any or _all_fit(inside[0], list(chain.from_iterable(value)), limits))
    if hint is str:
        return kinds <= {str} and not any("\0" in text for text in value)
    if hint is bool:
        return kinds <= {bool} and limits == Range()
    if hint not in (int, float) or not kinds <= ({int} if hint is int else {int, float, np.float64}):
        return False
    least, most = min(value, default=0), max(value, default=0)
    # One NaN or infinity makes the sum NaN or infinite. A sum that overflows only sends the items to the slower check
    # one by one.
    in_64_bits = int not in kinds or (least >= -_INT_LIMIT and most < _INT_LIMIT)
    return in_64_bits and (not value or limits.contains(least, most)) and math.isfinite(sum(value))


def _mapping(hints: Sequence[Any], mapping: Any, limits: Range) -> Any:
    if not isinstance(mapping, Mapping):
        raise WrongTypeError(mapping)
    for key, value in cast(Mapping[Any, Any], mapping).items():
        _element(hints[0], key, Range(), key)
        _element(hints[1], value, limits, key)
    return cast(Any, mapping)


def _element(hint: Any, value: Any, limits: Range, place: Any) -> Any:
    try:
        return coerce(hint, value, limits)
    except MismatchError as error:
        raise type(error)(error.value, f"[{place!r}]{error.at}") from None


_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "True or False",
    str: "a text",
    type(None): "None",
    Any: "anything",
    Callable: "a function",
}


def describe_annotation(hint: Any, limits: Range | None = None) -> str:
    """Return an annotation in words.

    >>> describe_annotation(Annotated[int, Range(1)] | None)
    'a whole number of at least 1, or None'
    """
    if _has_mark(hint, ElementType):
        return DTYPES_IN_WORDS
    if _has_mark(hint, NotEmpty):
        limits = next((mark for mark in marks_of(hint) if isinstance(mark, Range)), limits)
        return f"{describe_annotation(typing.get_args(hint)[0], limits)}, not empty"
    hint, limits = _unwrapped(hint, limits or Range())
    inside = typing.get_args(hint)
    kind: Any = typing.get_origin(hint) or hint
    if kind in (Union, types.UnionType):
        return ", or ".join(dict.fromkeys(describe_annotation(item, limits) for item in inside))
    if kind is Literal:
        return ", ".join(map(repr, inside))
    if kind in (Sequence, Iterable, tuple, list):
        word = "a sequence" if _count(hint) is None else f"a sequence of {_count(hint)}"
        return word if not inside or inside[0] is Any else f"{word} ({describe_annotation(inside[0], limits)})"
    if kind is Mapping:
        return f"a dictionary ({describe_annotation(inside[1], limits)})"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " or ".join(f"{kind.__name__}.{member.name}" for member in kind)
    if isinstance(kind, type) and issubclass(kind, NodeHandle):
        return "a node"
    word = _WORDS.get(kind) or f"a {kind.__name__ if isinstance(kind, type) else kind}"
    if kind is int and limits == Range():
        return f"{word} of at most 64 bits"
    return f"{word}{limits}" if kind in (int, float) else word


def suggest_value(hint: Any, value: Any) -> str | None:
    """Return a suggestion for a misspelt choice, or for a class in place of its instance.

    >>> suggest_value(Literal["host", "device"] | None, "hots")
    "did you mean 'host'?"
    """
    if _has_mark(hint, ElementType):
        return did_you_mean(value, DALIDataType.__members__) if isinstance(value, str) else None
    hint, _ = _unwrapped(hint, Range())
    kind: Any = typing.get_origin(hint) or hint
    inside = typing.get_args(hint)
    if kind is Literal and isinstance(value, str):
        return did_you_mean(value, [item for item in inside if isinstance(item, str)])
    if isinstance(value, type) and kind is not Any and isinstance(kind, type) and kind in value.__mro__:
        return f"an instance: {value.__name__}(...)"
    if isinstance(value, str) and isinstance(hint, EnumMeta):
        names = list(hint.__members__)
        return did_you_mean(f"{hint.__name__}.{value.upper()}", [f"{hint.__name__}.{name}" for name in names])
    parts = () if kind is Literal else inside
    return next((text for item in parts if (text := suggest_value(item, value))), None)
