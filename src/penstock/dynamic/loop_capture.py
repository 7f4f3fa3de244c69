"""Capture of loops: the calls of a loop body, recorded in its first step and replayed by a pipeline.

In the first step, calls compute at once and are recorded if they depend on batches of the reader and on constants
alone. The recording becomes the definition of an ordinary pipeline. In each later step, the loop body runs again: a
call that matches the recording returns a batch whose samples the pipeline has computed ahead, and any other call
computes at once. A call matches if the operator, the constants and the origin of its inputs are equal, so results never
change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from penstock.core import Array, user_call_site
from penstock.core.call_site import CallSite
from penstock.core.user_callbacks import tracing_variable
from penstock.dynamic.body_call import NO_DRAWS, READER, BodyCall, ValueRef, bind, operand_refs
from penstock.dynamic.dynamic_tensor import Batch
from penstock.dynamic.loop_recording import CallDraw, DrawSource, LoopDraws, RecordedCall, Recording
from penstock.dynamic.random_state import RNG, check_rng, get_default_rng
from penstock.eager import Generator as EagerGenerator
from penstock.eager.batch import Batch as Samples
from penstock.eager.constant_key import UnknownConstantError, constant_key
from penstock.errors import ContextError

T = TypeVar("T")


def invariant(value: T) -> T:
    """Mark a value as the same in every step of a captured loop.

    Programs for DALI do so for values that DALI cannot prove constant. Penstock compares the values of every step, so
    the mark has no effect, and this function returns the value.

    >>> from penstock import dynamic as ndd
    >>> ndd.capture.invariant([1, 2])
    [1, 2]
    """
    return value


class BodyStep(ABC):
    """One step of a captured loop.

    Args:
        rows: Number of samples of its batch.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._counts: Counter[Hashable] = Counter()
        self._views: dict[ValueRef, Samples] = {}

    @abstractmethod
    def apply(self, call: BodyCall) -> Any:
        """Return the result of a call of the loop body; None if the call is not captured."""

    @abstractmethod
    def samples(self, ref: ValueRef) -> Samples:
        """Return the samples of a value that the loop body reads."""

    def read_only_samples(self, ref: ValueRef) -> Samples:
        """Return the samples of a value for the loop body, which must not write: the pipeline would not see that."""
        if ref not in self._views:
            samples = self.samples(ref)
            column = samples.column
            views = _read_only(column) if isinstance(column, np.ndarray) else [_read_only(sample) for sample in column]
            self._views[ref] = Samples(views, samples.layout)
        return self._views[ref]

    def note_draw(self, rng: RNG | None) -> None:
        """Note that a call which is not captured will draw from a generator."""
        del rng

    def batches(self, number: int, count: int) -> list[Batch]:
        """Return the outputs of a call as batches."""
        return [CapturedBatch(self, ValueRef(number, output)) for output in range(count)]

    def _key(self, call: BodyCall) -> Hashable | None:
        """Return the key of a call: equal for calls that compute the same. None for a call that cannot be captured."""
        try:
            parts = tuple([(name, self._operand_key(value)) for name, value in call.operands])
        except UnknownConstantError:
            return None
        key = (call.identity, parts)
        self._counts[key] += 1
        return key, self._counts[key]

    def _operand_key(self, value: Any) -> Hashable:
        if isinstance(value, CapturedBatch) and value.step is self:
            return value.ref
        return constant_key(value)

    def _result(self, number: int, recorded: RecordedCall) -> Any:
        batches = self.batches(number, recorded.outputs)
        return tuple(batches) if recorded.several else batches[0]


def _read_only(array: Array) -> Array:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


class CapturedBatch(Batch):
    """Batch of a captured loop, whose samples a pipeline may have computed.

    Args:
        step: The step of the loop.
        ref: The value.
    """

    __slots__ = ("ref", "step")

    def __init__(self, step: BodyStep, ref: ValueRef) -> None:
        self.step, self.ref = step, ref

    @property
    def samples(self) -> Samples:
        """The samples, read-only, as operators of `penstock.fn` take them."""
        return self.step.read_only_samples(self.ref)

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        return self.step.rows


class RecordedStep(BodyStep):
    """First step of a captured loop: its calls compute at once and are recorded.

    Args:
        reader: Outputs of the reader.
    """

    def __init__(self, reader: Sequence[Samples]) -> None:
        super().__init__(len(reader[0]))
        self._values = {ValueRef(READER, number): samples for number, samples in enumerate(reader)}
        self._recording = Recording()
        self._read: set[ValueRef] = set()
        self._taken: set[ValueRef] = set()
        self._sources: dict[int, tuple[RNG, int]] = {}
        self.note_draw(None)

    def note_draw(self, rng: RNG | None) -> None:
        """Note the state of a generator before its first draw in the step."""
        self._source(rng)

    def _source(self, rng: RNG | None) -> int:
        """Return the number of a generator."""
        generator = check_rng(rng)
        if id(generator) not in self._sources:
            # The default generator is looked up in each step, because `set_seed` replaces it.
            argument = None if generator is get_default_rng() else generator
            self._sources[id(generator)] = generator, len(self._recording.sources)
            self._recording.sources.append(DrawSource(argument, generator.snapshot()))
        return self._sources[id(generator)][1]

    def apply(self, call: BodyCall) -> Any:
        """Compute and record a call."""
        key = self._key(call)
        if key is None:
            return None
        recording, draw, generator = self._recording, None, None
        if call.rng is not NO_DRAWS:
            source = self._source(call.rng)
            state = check_rng(call.rng).snapshot()
            draw = CallDraw(source, state.position - recording.sources[source].start.position)
            generator = EagerGenerator(check_rng(call.rng).call_seed())
        refs = call.with_operands(_as_ref)
        result = bind(refs, self._values.__getitem__).on_samples(self.rows, generator)
        several = isinstance(result, list | tuple)
        number = recording.numbers[key] = len(recording.calls)
        recorded = RecordedCall(refs, draw, len(result) if several else 1, several, user_call_site())
        recording.calls.append(recorded)
        self._values |= {ValueRef(number, output): value for output, value in enumerate(recorded.results(result))}
        self._taken |= operand_refs(refs)
        return self._result(number, recorded)

    def samples(self, ref: ValueRef) -> Samples:
        """Return the samples of a value, which the pipeline will compute, too."""
        self._read.add(ref)
        return self._values[ref]

    def finish(self) -> Recording:
        """Return the recording, at the end of the step."""
        recording = self._recording
        for generator, number in self._sources.values():
            source = recording.sources[number]
            source.per_step = generator.snapshot().position - source.start.position
        # The values of the reader cannot be computed from others if a later step reads them.
        reader = {ref for ref in self._values if ref.call == READER}
        recording.outputs = tuple(sorted(reader | self._read | (self._values.keys() - self._taken)))
        return recording


class ReplayedStep(BodyStep):
    """Later step of a captured loop, whose recorded calls the pipeline has computed.

    Args:
        draws: The random numbers of the pipeline, and the recording.
        number: Number of the step.
        outputs: Outputs of the pipeline.
    """

    def __init__(self, draws: LoopDraws, number: int, outputs: Sequence[Samples]) -> None:
        super().__init__(len(outputs[0]))
        self._draws, self._recording, self._number = draws, draws.recording, number
        self._values = dict(zip(self._recording.outputs, outputs, strict=True))
        self._seen: set[int] = set()
        # Calls that were not captured: operator and line.
        self._others: set[tuple[Hashable, CallSite]] = set()

    def apply(self, call: BodyCall) -> Any:
        """Return the batches that the pipeline has computed for a call.

        Raises:
            ContextError: The generator of the call is in another state than the first step predicts.
        """
        key = self._key(call)
        number = None if key is None else self._recording.numbers.get(key)
        if number is None:
            self._others.add((call.identity, user_call_site()))
            return None
        recorded = self._recording.calls[number]
        if recorded.draw is not None:
            generator = check_rng(call.rng)
            if generator.snapshot() != self._draws.call_state(number, self._number):
                raise unpredicted_draws()
            generator.call_seed()
        self._seen.add(number)
        return self._result(number, recorded)

    def samples(self, ref: ValueRef) -> Samples:
        """Return the samples of a value: from the pipeline, or computed now if the first step did not read it."""
        if ref not in self._values:
            recorded = self._recording.calls[ref.call]
            generator = None
            if recorded.draw is not None:
                generator = EagerGenerator(self._draws.call_state(ref.call, self._number).call_seed)
            result = bind(recorded.call, self.samples).on_samples(self.rows, generator)
            self._values |= {ValueRef(ref.call, output): value for output, value in enumerate(recorded.results(result))}
        return self._values[ref]

    def finish(self) -> set[int]:
        """Return the numbers of recorded calls that vary: their line has made the call with other constants or inputs.

        Raises:
            ContextError: A recorded call was not made at all.
        """
        missing = {number for number in self._recording.numbers.values() if number not in self._seen}
        for number in missing:
            recorded = self._recording.calls[number]
            if (recorded.call.identity, recorded.where) not in self._others:
                raise ContextError(
                    "a captured loop makes the same calls in every step, and this call of its first step was not made",
                    given="a loop body that depends on data or on the number of the step",
                    fix="capture=False; or operators in place of Python's `if`, such as arithmetic with a mask",
                    where=recorded.where,
                )
        return missing


def check_sources(draws: LoopDraws, number: int) -> bool:
    """Return True if the generators of a loop are in the states that are predicted for the beginning of a step."""
    sources = draws.recording.sources
    return all(sources[index].state == draws.state(index, number) for index in draws.recording.drawing_sources)


def unpredicted_draws() -> ContextError:
    """Return the error for a generator that is in another state than the first step predicts."""
    return ContextError(
        "a captured loop draws from its generators as often in every step as in the first one",
        given="a generator in another state",
        fix="a generator of its own for other draws, made before the loop; or capture=False",
    )


def _as_ref(value: Any) -> Any:
    return value.ref if isinstance(value, CapturedBatch) else value


# The steps that run, the innermost last. A list, because two loops in a `zip` end their steps in the order in which
# they began, not in the reverse one. None in user callbacks, whose calls are not part of the loop body.
_steps: ContextVar[list[BodyStep] | None] = tracing_variable("captured_steps")


def active_step() -> BodyStep | None:
    """Return the step of the innermost captured loop that runs in this thread, or None."""
    steps = _steps.get()
    return steps[-1] if steps else None


@contextmanager
def capturing(step: BodyStep) -> Generator[None]:
    """Pass the calls of this thread to a step."""
    steps = _steps.get()
    if steps is None:
        _steps.set(steps := [])
    steps.append(step)
    try:
        yield
    finally:
        steps.remove(step)
