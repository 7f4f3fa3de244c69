"""Checks of the arguments of public functions against their annotations, before the functions run.

Annotations are the only declaration of an argument: its type, its choices (`Literal`) and its limits (`Range`).

* numbers are finite, and integers for ``int``: 3.0 is valid, 2.5 is not;
* ``bool`` also takes 0 and 1; ``Sequence`` also takes arrays and the keys and values of a dictionary, but not strings;
* ``DataNode`` takes any value of the graph; ``Any`` is not checked here.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from penstock.core import with_call_site
from penstock.core.weak_cache import weak_cache
from penstock.errors import (
    ArgumentTypeError,
    DefinitionError,
    PenstockError,
    UsageError,
    about,
    dali_object_hint,
    nearest_names,
)
from penstock.graph.arguments.argument_kinds import (
    MismatchError,
    OutOfRangeError,
    UnknownChoiceError,
    UnknownDtypeError,
    coerce,
    describe_annotation,
    suggest_value,
)
from penstock.graph.ir.node import NodeHandle

P = ParamSpec("P")
R = TypeVar("R")


def check_annotations(
    function: Callable[P, R],
    *,
    kind: type[PenstockError] = UsageError,
    limits: type[PenstockError] = UsageError,
    elsewhere: Mapping[str, str] | None = None,
) -> Callable[P, R]:
    """Return a function that checks its arguments against its annotations.

    Args:
        function: The function to wrap.
        kind: Error for an argument of another type.
        limits: Error for a value that is out of range or not one of the choices.
        elsewhere: Fixes for names that are arguments of a related function, by name.

    Raises:
        ArgumentTypeError: At a call, for unknown or missing arguments.

    Example:
        >>> from typing import Annotated
        >>> from penstock.graph.arguments.argument_marks import Range
        >>> @check_annotations
        ... def take(count: Annotated[int, Range(1)]) -> None: ...
        >>> take(0)
        Traceback (most recent call last):
        penstock.errors.UsageError: take: count is out of range
          given:    0 of type int
          expected: a whole number of at least 1
          at:       <doctest penstock.graph.arguments.argument_checks.check_annotations[3]>:1 in <module>: take(0)
    """
    name, signature = function.__qualname__.removesuffix(".__init__"), inspect.signature(function)
    is_method = function.__name__ != "__init__" and next(iter(signature.parameters), "") == "self"

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        # A base class may be internal, so the message names the class of the user's object.
        with about(f"{type(args[0]).__qualname__}.{function.__name__}" if is_method and args else name):
            bound = bind_arguments(signature, args, kwargs, elsewhere)
            bound = coerce_arguments(function, bound, kind=kind, limits=limits)
        return function(*bound.args, **bound.kwargs)

    return with_call_site(call)


def bind_arguments(
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    elsewhere: Mapping[str, str] | None = None,
) -> inspect.BoundArguments:
    """Return the arguments of a call by name.

    Args:
        signature: Signature of the function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        elsewhere: Fixes for names that are arguments of a related function, by name.

    Raises:
        ArgumentTypeError: An argument is unknown or missing.
    """
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        unknown = next((argument for argument in kwargs if argument not in signature.parameters), None)
        fix = None if unknown is None else (elsewhere or {}).get(unknown)
        if unknown is not None and fix is None:
            fix = nearest_names(unknown, set(signature.parameters) - {"self"})
        if unknown is None and str(error).startswith("too many positional"):
            options = [name for name, item in signature.parameters.items() if item.kind is item.KEYWORD_ONLY]
            fix = f"pass arguments by name: {options[0]}=..." if options else None
        # A long signature hides the message.
        expected = f"the arguments {signature}" if len(str(signature)) < 200 else None
        raise ArgumentTypeError(str(error), expected=expected, fix=fix) from None


def coerce_arguments(
    function: Callable[..., Any],
    bound: inspect.BoundArguments,
    *,
    kind: type[PenstockError] = ArgumentTypeError,
    limits: type[PenstockError] = DefinitionError,
    one_is_many: bool = False,
) -> inspect.BoundArguments:
    """Return the arguments of a call in the types of the function's annotations.

    Args:
        function: Function whose annotations declare the types.
        bound: Arguments of the call.
        kind: Error for an argument of another type.
        limits: Error for a value that is out of range or not one of the choices.
        one_is_many: If True, as in DALI, a number or string may replace a sequence of one, an array of one number may
            replace the number, and None means that an argument with a default is not given.
    """
    hints = type_hints(function)

    def one(argument: str, value: Any) -> Any:
        hint = hints.get(argument, Any)
        return coerce_argument(hint, value, argument, kind=kind, limits=limits, one_is_many=one_is_many)

    result = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    for argument, value in bound.arguments.items():
        parameter = bound.signature.parameters[argument]
        if parameter.kind is parameter.VAR_POSITIONAL:
            result.arguments[argument] = tuple([one(argument, item) for item in value])
        elif parameter.kind is parameter.VAR_KEYWORD:
            result.arguments[argument] = {
                option: one(option, item)
                for option, item in value.items()
                if not (one_is_many and item is None and not is_optional(hints.get(option, Any)))
            }
        elif one_is_many and value is None and parameter.default is not None and not _takes_none(parameter, hints):
            del result.arguments[argument]
        # Defaults need not have the declared type: None often stands for "not given".
        elif argument != "self" and value is not parameter.default:
            result.arguments[argument] = one(argument, value)
    return result


def coerce_argument(
    hint: Any,
    value: Any,
    argument: str,
    *,
    kind: type[PenstockError] = ArgumentTypeError,
    limits: type[PenstockError] = DefinitionError,
    one_is_many: bool = False,
) -> Any:
    """Return one argument in the type that its annotation declares; see `coerce_arguments`."""
    try:
        return coerce(hint, value)
    except MismatchError as error:
        # Python deletes the name `error` at the end of the clause.
        mismatch = error
    if one_is_many and isinstance(value, int | float | np.number | str):
        # The first error describes the mismatch better than one of the list.
        with suppress(MismatchError):
            return coerce(hint, [value])
    if one_is_many and isinstance(value, np.ndarray) and cast(Any, value).shape == (1,):
        with suppress(MismatchError):
            return coerce(hint, value.item())
    problem = f"{argument} has the wrong type"
    if isinstance(mismatch, UnknownDtypeError):
        problem = f"{argument}: no such data type"
    elif isinstance(mismatch, OutOfRangeError):
        problem = f"no such {argument}" if isinstance(mismatch, UnknownChoiceError) else f"{argument} is out of range"
    refusal = limits if isinstance(mismatch, OutOfRangeError) else kind
    fix = suggest_value(hint, mismatch.value) or dali_object_hint(mismatch.value)
    if mismatch.at and isinstance(mismatch.value, NodeHandle):
        fix = "fn.stack(...), which makes one node of nodes and numbers"
    raise refusal(problem, given=mismatch, expected=describe_annotation(hint), fix=fix) from None


def _takes_none(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> bool:
    """Return True if None is a value of a parameter, or if there is no default that it could stand for."""
    hint = hints.get(parameter.name, Any)
    return parameter.default is parameter.empty or (hint is not Any and is_optional(hint))


# Every call needs the hints, and evaluating annotations is slow.
@weak_cache
def type_hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotation of each argument, including those of ``**options: Unpack[...]``."""
    hints = typing.get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.kind is parameter.VAR_KEYWORD and typing.get_args(hint):
            hints |= typing.get_type_hints(typing.get_args(hint)[0], include_extras=True)
    return hints


def is_optional(hint: Any) -> bool:
    """Return True if an argument may be None."""
    try:
        coerce(hint, None)
    except MismatchError:
        return False
    return True
