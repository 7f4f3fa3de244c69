"""What an annotation says of an argument: whether something is it, and what it is called in messages."""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Iterable, KeysView, Mapping, Sequence, ValuesView
from enum import Enum, EnumMeta, IntEnum
from itertools import chain
from typing import Annotated, Any, Literal, NotRequired, Required, Union, cast

import numpy as np

from penstock.errors import did_you_mean, short_repr
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.ir.node import NodeHandle
from penstock.types import Constant, DALIDataType, DALIImageType, DALIInterpType

_WHOLE = 2**63
"""Whole numbers are below: what int64 holds."""

_AT_ONCE = 4096
"""Elements of a sequence that are looked at together: where one of them is wrong, it is looked for one by one."""


class MismatchError(Exception):
    """The argument is not what its annotation says.

    Args:
        given: the argument, or the element of it that is wrong.
        at: the place of that element, such as "[3]".
    """

    def __init__(self, given: Any, at: str = "") -> None:
        super().__init__(given, at)
        self.given, self.at = given, at

    def __str__(self) -> str:
        return f"{short_repr(self.given)} of type {type(self.given).__name__}" + (f", at {self.at}" if self.at else "")


class WrongTypeError(MismatchError):
    """It is of no kind that the annotation has."""


class OutOfRangeError(MismatchError):
    """A value of the right type, but outside its limits."""


class UnknownChoiceError(OutOfRangeError):
    """A string that is not one of the choices."""


def coerce(hint: Any, given: Any, limits: Range | None = None) -> Any:
    """What was given, in the form in which it is passed on: whole numbers that were floats are whole.

    Args:
        hint: the annotation.
        given: the argument.
        limits: of numbers, where the annotation has none.

    Raises:
        OfOtherKindError: it is not what the annotation says.
        OutOfRangeError: it is a number outside of the limits, or not finite.

    >>> coerce(int | None, 3.0), coerce(Sequence[int], (1, 2))
    (3, (1, 2))
    """
    hint, limits = _unwrapped(hint, limits or Range())
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _conform_to_one(inside, given, limits)
    if hint in (int, float, bool):
        return _number(hint, given, limits)
    if origin in (Sequence, tuple, list):
        return _sequence(inside[0], given, limits, count=_count(hint))
    if origin is Mapping:
        return _mapping(inside, given, limits)
    if not _is(hint, given):
        raise (UnknownChoiceError if origin is Literal and isinstance(given, str) else WrongTypeError)(given)
    return given


def _unwrapped(hint: Any, limits: Range) -> tuple[Any, Range]:
    """The annotation without what only marks it, and the limits among the marks."""
    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *marks = typing.get_args(hint)
        limits = next((mark for mark in marks if isinstance(mark, Range)), limits)
    return hint, limits


def _conform_to_one(alternatives: Sequence[Any], given: Any, limits: Range) -> Any:
    errors: list[MismatchError] = []
    for alternative in alternatives:
        try:
            return coerce(alternative, given, limits)
        except MismatchError as error:
            errors.append(error)
    raise max(errors, key=lambda error: (isinstance(error, OutOfRangeError), len(error.at)))  # what came nearest


def _is(hint: Any, given: Any) -> bool:
    """Whether something is what an annotation says that has no parts."""
    kind: Any = typing.get_origin(hint) or hint
    if kind is Literal:
        return any(type(given) is type(each) and given == each for each in typing.get_args(hint))
    if kind is Callable:
        return callable(given)
    if kind is Any or not isinstance(kind, type):  # or a type variable
        return True
    if issubclass(kind, NodeHandle):  # operators pass on whatever stands for a value
        return isinstance(given, NodeHandle | Constant)
    if kind is Iterable and getattr(given, "ndim", 1) == 0:  # an array without axes says that it is iterable
        return False
    if kind is str:  # no file, name or word has a character 0
        return isinstance(given, str) and "\0" not in given
    if issubclass(kind, IntEnum):  # a member, or its number
        return isinstance(given, int) and not isinstance(given, bool) and given in set(kind)
    return isinstance(given, kind)


def _number(kind: Any, given: Any, limits: Range) -> Any:
    if isinstance(given, str | bytes | NodeHandle | DALIDataType | DALIImageType | DALIInterpType) or given is None:
        raise WrongTypeError(given)
    if isinstance(given, int) and not -_WHOLE <= given < _WHOLE:  # NumPy might have none of that size
        raise OutOfRangeError(given)
    try:
        array = np.asarray(given)
    except Exception:  # noqa: BLE001  # whatever an array-like of somebody else's raises
        raise WrongTypeError(given) from None
    if array.ndim or array.dtype.kind not in "biuf":
        raise WrongTypeError(given)
    number = array.item()
    if not np.isfinite(number) or (kind is int and not -_WHOLE <= number < _WHOLE):
        raise OutOfRangeError(given)
    counts = kind is int and limits != Range()  # a flag that is 0 or 1 has none
    if (kind is int and number != int(number)) or (kind is bool and number not in (0, 1)):
        raise WrongTypeError(given)
    if counts and array.dtype.kind == "b":
        raise WrongTypeError(given)
    if not limits.low <= number <= limits.high:
        raise OutOfRangeError(given)
    if kind is bool:
        return bool(number)
    if kind is int and array.dtype.kind == "f":
        return int(number)
    return given if isinstance(given, int | float) else number


def _count(hint: Any) -> int | None:
    """How many elements a sequence has, where its annotation says so: ``tuple[int, int]``."""
    inside = typing.get_args(hint)
    return len(inside) if typing.get_origin(hint) is tuple and Ellipsis not in inside else None


def _sequence(hint: Any, given: Any, limits: Range, count: int | None) -> Any:
    if isinstance(given, KeysView | ValuesView):  # of a dictionary: in its order
        given = list(cast(Any, given))
    is_array = bool(getattr(given, "ndim", 0)) and hasattr(given, "__array__")
    if isinstance(given, str | bytes) or not (isinstance(given, Sequence) or is_array):
        raise WrongTypeError(given)
    if count is not None and len(cast(Any, given)) != count:
        raise WrongTypeError(given)
    if hint is Any:
        return cast(Any, given)
    before: list[Any] = np.asarray(cast(Any, given)).tolist() if is_array else list(cast(Sequence[Any], given))
    whole = is_array and (not before or cast(Any, given).dtype.kind != "f")  # as a list, which is easier to work with
    kinds = set(map(type, before))
    if len(kinds) == 1 and issubclass(kind := kinds.pop(), np.number) and kind is not np.float64:
        before, whole = np.asarray(before).tolist(), True
    after: list[Any] = []
    for start in range(0, len(before), _AT_ONCE):
        part = before[start : start + _AT_ONCE]
        fit = _all_fit(hint, part, limits)
        after += part if fit else [_element(hint, each, limits, number) for number, each in enumerate(part, start)]
    if not whole and all(a is b for a, b in zip(after, before, strict=True)):
        return cast(Any, given)
    return tuple(after) if isinstance(given, tuple) else after


def _all_fit(hint: Any, given: list[Any], limits: Range) -> bool:
    """Whether plain numbers, texts and lists of them are all what an annotation says, and passed on as they are.

    Where that cannot be told of all at once, it is False.
    """
    hint, limits = _unwrapped(hint, limits)
    origin, inside, kinds = typing.get_origin(hint), typing.get_args(hint), set(map(type, given))
    if origin in (Union, types.UnionType):
        return _all_fit(inside[0], given, limits)  # which comes first where an element is several of them
    if origin in (Sequence, tuple, list):
        count = _count(hint)
        lists = kinds <= {list, tuple} and (count is None or {len(each) for each in given} <= {count})
        return lists and (inside[0] is Any or _all_fit(inside[0], list(chain.from_iterable(given)), limits))
    if hint is str:
        return kinds <= {str} and not any("\0" in text for text in given)
    if hint is bool:
        return kinds <= {bool} and limits == Range()
    if hint not in (int, float) or not kinds <= ({int} if hint is int else {int, float, np.float64}):
        return False
    least, most = min(given, default=0), max(given, default=0)
    in_64_bits = int not in kinds or (least >= -_WHOLE and most < _WHOLE)
    return in_64_bits and limits.low <= least <= most <= limits.high and math.isfinite(sum(given))


def _mapping(hints: Sequence[Any], given: Any, limits: Range) -> Any:
    if not isinstance(given, Mapping):
        raise WrongTypeError(given)
    for key, value in cast(Mapping[Any, Any], given).items():
        _element(hints[0], key, Range(), key)
        _element(hints[1], value, limits, key)
    return cast(Any, given)


def _element(hint: Any, given: Any, limits: Range, place: Any) -> Any:
    try:
        return coerce(hint, given, limits)
    except MismatchError as error:
        raise type(error)(error.given, f"[{place!r}]{error.at}") from None


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
    """An annotation in words.

    >>> describe_annotation(Annotated[int, Range(1)] | None)
    'a whole number of at least 1, or None'
    """
    hint, limits = _unwrapped(hint, limits or Range())
    inside = typing.get_args(hint)
    kind: Any = typing.get_origin(hint) or hint
    if kind in (Union, types.UnionType):
        return ", or ".join(dict.fromkeys(describe_annotation(each, limits) for each in inside))
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


def suggest_value(hint: Any, given: Any) -> str | None:
    """A proposal, where a text was given for one of a few words, or a class for one of its instances.

    >>> suggest_value(Literal["host", "device"] | None, "hots")
    "did you mean 'host'?"
    """
    hint, _ = _unwrapped(hint, Range())
    kind: Any = typing.get_origin(hint) or hint
    inside = typing.get_args(hint)
    if kind is Literal and isinstance(given, str):
        return did_you_mean(given, [each for each in inside if isinstance(each, str)])
    if isinstance(given, type) and kind is not Any and isinstance(kind, type) and kind in given.__mro__:
        return f"an instance: {given.__name__}(...)"
    if isinstance(given, str) and isinstance(hint, EnumMeta):
        names = list(hint.__members__)
        return did_you_mean(f"{hint.__name__}.{given.upper()}", [f"{hint.__name__}.{name}" for name in names])
    parts = () if kind is Literal else inside
    return next((found for each in parts if (found := suggest_value(each, given))), None)
