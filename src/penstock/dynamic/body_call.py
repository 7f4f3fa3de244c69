"""Calls of a captured loop body: an operator or a function, on batches, references to values, or constants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from penstock.eager import Generator


class ValueRef(NamedTuple):
    """Output of a recorded call.

    Args:
        call: Number of the call; `READER` for the reader.
        output: Number of the output.
    """

    call: int
    output: int


READER = -1


class BodyCall(Protocol):
    """Call that a loop body makes, with inputs that are batches, references or constants."""

    @property
    def operands(self) -> Sequence[tuple[str, Any]]:
        """Inputs and arguments by name."""
        ...

    @property
    def identity(self) -> Hashable:
        """The operator."""
        ...

    @property
    def rng(self) -> Any:
        """Generator of the call: an `RNG`, None for the default one, or `NO_DRAWS`."""
        ...

    def with_operands(self, change: Callable[[Any], Any]) -> BodyCall:
        """Return the call with changed operands."""
        ...

    def on_samples(self, rows: int, generator: Generator | None) -> Any:
        """Compute the call, whose operands are samples and constants."""
        ...

    def on_nodes(self) -> Any:
        """Record the call, whose operands are nodes and constants, in the definition that is being traced."""
        ...


# In place of a generator: the call draws no random numbers.
NO_DRAWS = object()


@dataclass(frozen=True)
class OperatorUse:
    """Call of an operator.

    Args:
        identity: The operator.
        inputs: Inputs.
        arguments: Arguments by name.
        rng: Generator, or `NO_DRAWS`.
        compute: Function that computes the call; see `call_on_rows`.
    """

    identity: Any
    inputs: tuple[Any, ...]
    arguments: Mapping[str, Any]
    rng: Any
    compute: Callable[..., Any]

    @property
    def operands(self) -> Sequence[tuple[str, Any]]:
        """Inputs and arguments by name."""
        return [*(("", value) for value in self.inputs), *sorted(self.arguments.items())]

    def with_operands(self, change: Callable[[Any], Any]) -> OperatorUse:
        """Return the call with changed operands."""
        arguments = {name: change(value) for name, value in self.arguments.items()}
        return replace(self, inputs=tuple(map(change, self.inputs)), arguments=arguments)

    def on_samples(self, rows: int, generator: Generator | None) -> Any:
        """Compute the call."""
        arguments = self.arguments if generator is None else {**self.arguments, "rng": generator}
        return self.compute(self.identity, self.inputs, arguments, rows)

    def on_nodes(self) -> Any:
        """Record the call."""
        return self.identity(*self.inputs, **self.arguments)


@dataclass(frozen=True)
class ElementwiseUse:
    """Call of a function of arithmetic or mathematics.

    Args:
        identity: The function.
        inputs: Operands.
    """

    identity: Callable[..., Any]
    inputs: tuple[Any, ...]
    rng: Any = NO_DRAWS

    @property
    def operands(self) -> Sequence[tuple[str, Any]]:
        """Operands, without names."""
        return [("", value) for value in self.inputs]

    def with_operands(self, change: Callable[[Any], Any]) -> ElementwiseUse:
        """Return the call with changed operands."""
        return replace(self, inputs=tuple(map(change, self.inputs)))

    def on_samples(self, rows: int, generator: Generator | None) -> Any:
        """Compute the call."""
        del rows, generator
        return self.identity(*self.inputs)

    def on_nodes(self) -> Any:
        """Record the call."""
        return self.identity(*self.inputs)


def bind(call: BodyCall, get: Callable[[ValueRef], Any]) -> BodyCall:
    """Return a call with values in place of references."""
    return call.with_operands(lambda value: get(value) if isinstance(value, ValueRef) else value)


def operand_refs(call: BodyCall) -> set[ValueRef]:
    """Return the values that a call takes."""
    return {value for _, value in call.operands if isinstance(value, ValueRef)}
