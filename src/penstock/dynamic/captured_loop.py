"""Captured loop: a loop over a reader, whose body becomes part of the reader's pipeline after its first step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.dynamic.loop_capture import (
    BodyStep,
    LoopDraws,
    RecordedStep,
    ReplayedStep,
    check_sources,
    unpredicted_draws,
)
from penstock.dynamic.reader_run import ReaderRun
from penstock.graph import DataNode
from penstock.pipeline import Pipeline
from penstock.types import LastBatchPolicy

_log = logging.getLogger("penstock")

Definition = Callable[[], Sequence[DataNode]]


class CapturedLoop:
    """Loop over a reader that is recorded in its first step and replayed in the following ones.

    It does not refer to the reader, which refers to it: a cycle would keep the threads of a dropped reader.

    Args:
        policy: Policy of the reader for the last batch.
        run: The batches of the reader alone, for the first step.

    Attributes:
        run: The batches: of the reader alone in the first step, then of the whole body.
    """

    def __init__(self, policy: LastBatchPolicy | None, run: ReaderRun) -> None:
        self._policy, self.run = policy, run
        self._pipeline: Pipeline | None = None
        self._draws: LoopDraws | None = None

    def next_step(self, *, first: bool) -> BodyStep:
        """Take the next batch of the reader.

        Args:
            first: True for the first step of an epoch, before which generators may have been used or replaced.

        Raises:
            ContextError: The last step has drawn more or less from a generator than the first one.
            SampleError: A sample of the batch is bad.
        """
        if self._draws is None:
            return RecordedStep(self.run.next_batch())
        number = self.run.step_number
        if not check_sources(self._draws, number):
            if not first:
                raise unpredicted_draws()
            self._start(self._draws.recording.draws(number))
        return ReplayedStep(self._draws, number, self.run.next_batch())

    def finish(self, step: BodyStep, reader: Definition, trace: Callable[[Definition], Pipeline]) -> None:
        """End a step whose body has run. After the first one, the pipeline computes the calls.

        A call whose constants differ from those of the first step is left to the loop body from then on.

        Args:
            step: The step.
            reader: Records the reader in the definition that is being traced.
            trace: Returns the pipeline of a definition.

        Raises:
            ContextError: The body did not make a recorded call.
            PenstockError: A recorded call cannot be part of a pipeline.
        """
        if isinstance(step, RecordedStep):
            recording = step.finish()
            if not recording.calls:
                _log.warning("the captured loop has no operator that depends on batches and constants alone")
        elif isinstance(step, ReplayedStep) and self._draws is not None and (varying := step.finish()):
            recording = self._draws.recording.without(varying)
        else:
            return
        self._pipeline = trace(lambda: recording.define(reader()))
        self._start(recording.draws(self.run.step_number))

    def _start(self, draws: LoopDraws) -> None:
        """Compute the following batches ahead, with these random numbers."""
        assert self._pipeline is not None  # traced after the first step
        self.run.close()
        self.run, self._draws = ReaderRun(self._pipeline, self._policy, self.run.position, draws.bits), draws
