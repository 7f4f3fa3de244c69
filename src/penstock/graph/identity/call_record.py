"""Records of the user's operator calls: the operator and its arguments as text.

Saved states identify their definition by this text, so changes of penstock and of the user's program that change no
sample must not change it. It has the operator's public name and the arguments that the user set, without defaults,
performance hints, locations of data, and classes of the implementation.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, cast

from penstock.core.user_callbacks import tracing_variable
from penstock.errors import ArgumentTypeError
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_groups import CommonArguments, group_hints
from penstock.graph.arguments.argument_marks import LEFT_OUT, Default, marks_of
from penstock.graph.identity.canonical_text import canonical_text
from penstock.graph.ir.node import CallResult, Given, OperatorCall, handles
from penstock.graph.ir.operator import Operator
from penstock.types import as_dtype

_running: ContextVar[OperatorCall | None] = tracing_variable("running_call")


def current_call() -> OperatorCall | None:
    """Return the user's call that is running. Operators that it calls in turn belong to it."""
    return _running.get()


def internal_call(operator: Operator, inputs: Sequence[Any], arguments: Mapping[str, Any]) -> OperatorCall:
    """Return a call for a node without a public operator, named by its operator's class and fields."""
    texts = [("", canonical_text(value)) for value in (operator, *inputs)]
    return OperatorCall(
        "operator", (*texts, *((name, canonical_text(value)) for name, value in sorted(arguments.items())))
    )


class CallRecorder:
    """Recorder of the calls of an operator's public function.

    Args:
        kind: The operator's public name.
        function: The function.
        maker: The call that returned the function, if any. Its arguments count as arguments of the function.
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
        call = OperatorCall(self._kind, self._arguments_text(bound), arguments=(bound.args, {**bound.kwargs, **common}))
        token = _running.set(call)
        try:
            result = self._function(*bound.args, **bound.kwargs)
        finally:
            _running.reset(token)
        call.outputs = tuple((handle.value.node.id, handle.value.index) for handle in handles(result))
        return result

    @cached_property
    def _marks(self) -> Mapping[str, tuple[Any, ...]]:
        """Metadata of the arguments' annotations."""
        return {name: marks_of(hint) for name, hint in type_hints(self._function).items()}

    def _arguments_text(self, bound: inspect.BoundArguments) -> Given:
        inputs: list[tuple[str, tuple[str | CallResult, ...]]] = []
        named = dict(self._before)
        for name, value in bound.arguments.items():
            parameter = bound.signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                inputs += [("", canonical_text(item)) for item in value]
            elif parameter.kind is parameter.VAR_KEYWORD:
                named |= {key: text for key in value if (text := self._argument(key, value[key])) is not None}
            elif (text := self._argument(name, value, parameter.default)) is not None:
                if parameter.default is parameter.empty and parameter.kind is not parameter.KEYWORD_ONLY:
                    inputs.append(("", text))
                else:
                    named[name] = text
        return (*inputs, *sorted(named.items(), key=lambda item: item[0]))

    def _argument(
        self, name: str, value: Any, default: Any = inspect.Parameter.empty
    ) -> tuple[str | CallResult, ...] | None:
        """Return the text of an argument; None if it is a default or does not count."""
        marks = self._marks.get(name, ())
        if LEFT_OUT in marks or (name in group_hints(CommonArguments) and name != "seed"):
            return None
        default = next((mark.value for mark in marks if isinstance(mark, Default)), default)
        text = canonical_text(_dtype(value) if name == "dtype" else value)
        if default is inspect.Parameter.empty:
            return text
        same = isinstance(value, int | float) and isinstance(default, int | float) and value == default
        return None if same or text == canonical_text(_dtype(default) if name == "dtype" else default) else text


def _dtype(value: Any) -> Any:
    """Convert all spellings of a dtype, or of a list of dtypes, to NumPy's."""
    try:
        if isinstance(value, list | tuple):
            dtypes = cast(list[Any], value)
            distinct = {id(dtype): dtype for dtype in dtypes}
            converted = {number: dtype if dtype is None else as_dtype(dtype) for number, dtype in distinct.items()}
            return [converted[id(dtype)] for dtype in dtypes]
        return None if value is None else as_dtype(value)
    except ArgumentTypeError:
        # The operator itself reports the error.
        return cast(Any, value)
