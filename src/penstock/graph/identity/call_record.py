"""Recording what the user wrote: which operator was called, and with which arguments, as text.

The text is what a state names its definition by, so it must survive changes of penstock and of the user's program that
change no sample. It has the operator's public name and the arguments that were given, but no default, no hint and no
place where data lie, and nothing of the classes that do the work.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, cast

from penstock.errors import ArgumentTypeError
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_groups import CommonArguments, group_hints
from penstock.graph.arguments.argument_marks import LEFT_OUT, Default, marks_of
from penstock.graph.identity.canonical_text import canonical_text
from penstock.graph.ir.node import CallResult, Given, OperatorCall, handles
from penstock.graph.ir.operator import Operator
from penstock.types import as_dtype

_running: ContextVar[OperatorCall | None] = ContextVar("running_call", default=None)


def current_call() -> OperatorCall | None:
    """The call that the user wrote and that is being executed. What it calls in turn belongs to it."""
    return _running.get()


def internal_call(operator: Operator, inputs: Sequence[Any], arguments: Mapping[str, Any]) -> OperatorCall:
    """A call for a node that no public operator makes, named by its operator's class and fields."""
    given = [("", canonical_text(value)) for value in (operator, *inputs)]
    return OperatorCall(
        "operator", (*given, *((name, canonical_text(value)) for name, value in sorted(arguments.items())))
    )


class CallRecorder:
    """Records how the public function of an operator is called.

    Args:
        kind: the operator's public name.
        function: the function.
        maker: the call that returned this function, whose arguments count as given to it, too.
    """

    def __init__(self, kind: str, function: Callable[..., Any], maker: OperatorCall | None = None) -> None:
        self._kind = kind
        self._function = function
        self._before: Given = () if maker is None else maker.arguments_text

    def record(self, bound: inspect.BoundArguments, common: CommonArguments) -> Any:
        """Call the function and record the nodes that it returns.

        Args:
            bound: The function's own arguments.
            common: The other ones, which a serialized pipeline repeats; they do not identify the call.
        """
        if current_call() is not None:
            return self._function(*bound.args, **bound.kwargs)
        call = OperatorCall(self._kind, self._given(bound), arguments=(bound.args, {**bound.kwargs, **common}))
        token = _running.set(call)
        try:
            result = self._function(*bound.args, **bound.kwargs)
        finally:
            _running.reset(token)
        call.outputs = tuple((handle.value.node.id, handle.value.index) for handle in handles(result))
        return result

    @cached_property
    def _marks(self) -> Mapping[str, tuple[Any, ...]]:
        """What the annotations of arguments say besides types."""
        return {name: marks_of(hint) for name, hint in type_hints(self._function).items()}

    def _given(self, bound: inspect.BoundArguments) -> Given:
        inputs: list[tuple[str, tuple[str | CallResult, ...]]] = []
        named = dict(self._before)
        for name, value in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                inputs += [("", canonical_text(item)) for item in value]
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= {each: text for each in value if (text := self._argument(each, value[each])) is not None}
            elif (text := self._argument(name, value, parameter.default)) is not None:
                if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
                    inputs.append(("", text))
                else:
                    named[name] = text
        return (*inputs, *sorted(named.items(), key=lambda item: item[0]))

    def _argument(
        self, name: str, value: Any, default: Any = inspect.Parameter.empty
    ) -> tuple[str | CallResult, ...] | None:
        """The text of an argument, or None where it does not count."""
        marks = self._marks.get(name, ())
        if LEFT_OUT in marks or (name in group_hints(CommonArguments) and name != "seed"):
            return None
        default = next((mark.value for mark in marks if isinstance(mark, Default)), default)
        text = canonical_text(_dtype(value) if name == "dtype" else value)
        if default is inspect.Parameter.empty:
            return text
        same = isinstance(value, int | float) and isinstance(default, int | float) and value == default
        return None if same or text == canonical_text(_dtype(default) if name == "dtype" else default) else text


def _dtype(given: Any) -> Any:
    """An element type, or a list of them, however they are spelled."""
    try:
        if isinstance(given, list | tuple):
            listed = cast(list[Any], given)
            few = {id(each): each for each in listed}
            known = {number: each if each is None else as_dtype(each) for number, each in few.items()}
            return [known[id(each)] for each in listed]
        return None if given is None else as_dtype(given)
    except ArgumentTypeError:
        return cast(Any, given)
