"""Recording of a loop body: its calls, as the definition of a pipeline, and the random numbers that they draw."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from penstock.core import Indices
from penstock.core.call_site import CallSite, pretend_at
from penstock.dynamic.body_call import READER, BodyCall, ValueRef, bind, operand_refs
from penstock.dynamic.random_state import RNG, RngState, check_rng
from penstock.graph import DataNode
from penstock.graph.tracing.trace import current_trace
from penstock.numerics.random_bits import random_bits, row_counters


@dataclass(frozen=True)
class CallDraw:
    """Random numbers of a recorded call.

    Args:
        source: Number of the generator.
        offset: Position of the generator at the call, from its position at the beginning of the step.
    """

    source: int
    offset: int


@dataclass(frozen=True)
class RecordedCall:
    """Call of the first step.

    Args:
        call: The call, with references to the values that it takes.
        draw: Its random numbers; None if it draws none.
        outputs: Number of outputs.
        several: True if the result is a sequence of outputs.
        where: Line of the loop body.
    """

    call: BodyCall
    draw: CallDraw | None
    outputs: int
    several: bool
    where: CallSite

    def results(self, result: Any) -> Sequence[Any]:
        """Return the outputs of a result."""
        return cast(Sequence[Any], result) if self.several else [result]


@dataclass
class DrawSource:
    """Generator of a loop body.

    Args:
        argument: The generator, or None for the default one of the thread.
        start: Its state at the beginning of the step.
        per_step: Number of draws of a step.
    """

    argument: RNG | None
    start: RngState
    per_step: int = 0

    @property
    def state(self) -> RngState:
        """State of the generator now."""
        return check_rng(self.argument).snapshot()


@dataclass
class Recording:
    """Calls of a loop body.

    Attributes:
        calls: The calls, in order.
        numbers: Number of each call that the pipeline computes, by its key, in order.
        sources: The generators that the body draws from.
        outputs: The values that the pipeline delivers: those of the reader, those that the body reads, and those that
            no call takes.
        streams: Call of each stream of random numbers of the pipeline, and the number of the stream in the call.
    """

    calls: list[RecordedCall] = field(default_factory=list[RecordedCall])
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    sources: list[DrawSource] = field(default_factory=list[DrawSource])
    outputs: tuple[ValueRef, ...] = ()
    streams: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def define(self, reader: Sequence[DataNode]) -> list[DataNode]:
        """Record the calls in the definition that is being traced, behind the nodes of a reader.

        Returns:
            The nodes of `outputs`.

        Raises:
            PenstockError: A call cannot be part of a pipeline. The error has its line.
        """
        nodes = {ValueRef(READER, number): node for number, node in enumerate(reader)}
        trace, self.streams = current_trace(), []
        for number in self.numbers.values():
            recorded = self.calls[number]
            with pretend_at(recorded.where):
                result = bind(recorded.call, nodes.__getitem__).on_nodes()
            nodes |= {ValueRef(number, output): node for output, node in enumerate(recorded.results(result))}
            self.streams += [(number, stream) for stream in range(trace.streams - len(self.streams))]
        return [nodes[ref] for ref in self.outputs]

    @property
    def drawing_sources(self) -> set[int]:
        """Numbers of the generators that the pipeline draws from."""
        draws = [self.calls[number].draw for number in self.numbers.values()]
        return {draw.source for draw in draws if draw is not None}

    def without(self, varying: set[int]) -> Recording:
        """Return a recording that leaves some calls to the loop body, and delivers what they take.

        Args:
            varying: Numbers of the calls, with all calls that depend on them.
        """
        taken = {ref for number in varying for ref in operand_refs(self.calls[number].call)}
        outputs = {ref for ref in {*self.outputs, *taken} if ref.call not in varying}
        numbers = {key: number for key, number in self.numbers.items() if number not in varying}
        return Recording(self.calls, numbers, self.sources, tuple(sorted(outputs)))

    def draws(self, first: int) -> LoopDraws:
        """Return the random numbers from step `first` on, for the present states of the generators."""
        return LoopDraws(self, [source.state for source in self.sources], first)


@dataclass(frozen=True)
class LoopDraws:
    """Random numbers of a pipeline that replays a loop: those that the calls draw in the loop itself.

    Args:
        recording: The calls.
        starts: State of each generator before the first step.
        first: Number of that step.
    """

    recording: Recording
    starts: Sequence[RngState]
    first: int

    def state(self, source: int, step: int) -> RngState:
        """Return the state of a generator at the beginning of a step."""
        start = self.starts[source]
        return start.advanced((step - self.first) * self.recording.sources[source].per_step)

    def call_state(self, number: int, step: int) -> RngState:
        """Return the state of the generator at a recorded call."""
        draw = self.recording.calls[number].draw
        assert draw is not None  # only calls that draw are asked
        return self.state(draw.source, step).advanced(draw.offset)

    def bits(self, step: int, stream: int, rows: Indices, count: int) -> Any:
        """Return the random words of a node.

        Args:
            step: Number of the step.
            stream: Stream of the node in the pipeline.
            rows: Numbers of the rows in the batch.
            count: Number of words per row.
        """
        number, own_stream = self.recording.streams[stream]
        # As in an eager call, whose program draws with the seed of the call, from row 0 on.
        return random_bits(np, self.call_state(number, step).call_seed, own_stream, row_counters(0, rows), count)
