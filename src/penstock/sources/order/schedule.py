"""Steps and epochs: which rows a batch consists of, how many batches there are, which follows which. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import UsageError
from penstock.types import LastBatchPolicy


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Which rows one batch consists of. With the definition, the data and the seed it determines the batch.

    Args:
        epoch: the number of the epoch, from 0.
        row: how many positions of the epoch lie before the batch, counted in the leading reader's order.
        consumed: per reader, how many positions it has passed since the beginning, over all epochs.
        rows: how many rows the batch has, over all devices and processes.
    """

    epoch: int
    row: int
    consumed: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class Schedule:
    """The sequence of steps of an iterator.

    Args:
        batch_size: how many rows a batch has.
        length: how many positions an epoch has, in the order that leads; None for an endless one.
        stride: how many positions a batch passes in that order.
        strides: the same for each reader.
        policy: what becomes of the batch that the epoch does not fill.
        padded: for each reader, whether a batch with fewer rows passes as many positions as a whole one.
        length_unknown: whether the data may end an epoch, before its length if there is one.
    """

    batch_size: int
    length: int | None
    stride: int
    strides: tuple[int, ...]
    policy: LastBatchPolicy = LastBatchPolicy.FILL
    padded: tuple[bool, ...] = ()
    length_unknown: bool = False

    def first(self) -> BatchStep:
        """The first step of the first epoch."""
        return self.step_at(0, 0, (0,) * len(self.strides))

    def position_after(self, step: BatchStep) -> BatchStep:
        """The position after this step. It may be the end of the epoch, where there is no batch."""
        rows = [self.batch_size if padded else step.rows for padded in self.padded or (False,) * len(self.strides)]
        passed = zip(step.consumed, self.strides, rows, strict=True)
        totals = tuple([total + stride * count // self.batch_size for total, stride, count in passed])
        return self.step_at(step.epoch, step.row + self.stride, totals)

    def is_epoch_end(self, step: BatchStep) -> bool:
        """Whether a position is the end of its epoch."""
        if self.length is None:
            return False
        if self.policy is LastBatchPolicy.DROP:
            return step.row + self.stride > self.length
        return step.row >= self.length

    def batches_before(self, step: BatchStep) -> int:
        """How many batches of its epoch lie before a place."""
        return self.batches_per_epoch or 0 if self.is_epoch_end(step) else step.row // self.stride

    def next_epoch(self, step: BatchStep) -> BatchStep:
        """The first step of the epoch that follows.

        All readers pass what is left of this one, so that an epoch is the same wherever the one before it was left; and
        the batch that is dropped, so that those which are as long as the epoch begin with it.
        """
        if self.batches_per_epoch and not self.is_epoch_end(step):
            skipped = self.batches_per_epoch - 1 - step.row // self.stride
            totals = tuple(
                [total + skipped * stride for total, stride in zip(step.consumed, self.strides, strict=True)]
            )
            step = self.position_after(self.step_at(step.epoch, step.row + skipped * self.stride, totals))
        if self.drops_last_batch:
            step = self.position_after(step)
        return self.step_at(step.epoch + 1, 0, step.consumed)

    def batch_at_or_after(self, step: BatchStep) -> BatchStep:
        """The position of the next batch: this one, or the first one of the next epoch where this epoch has ended."""
        return self.next_epoch(step) if self.is_epoch_end(step) else step

    def next_step(self, step: BatchStep) -> BatchStep:
        """The step that follows, in the next epoch if need be."""
        return self.batch_at_or_after(self.position_after(step))

    @property
    def batches_per_epoch(self) -> int | None:
        """How many batches an epoch has; None for an endless one."""
        if self.length is None:
            return None
        return self.length // self.stride if self.policy is LastBatchPolicy.DROP else -(-self.length // self.stride)

    @property
    def drops_last_batch(self) -> bool:
        """Whether an epoch leaves out a batch at its end, which it does not fill."""
        return self.policy is LastBatchPolicy.DROP and bool((self.length or 0) % self.stride)

    @property
    def remainder(self) -> int:
        """How many rows the last batch has under PARTIAL."""
        return (self.length or 0) % self.stride or self.stride

    def end(self, step: BatchStep) -> BatchStep:
        """The end of the epoch of a step, as it is reached from the epoch's beginning."""
        return self.step_at(step.epoch, (self.batches_per_epoch or 0) * self.stride, step.consumed)

    def step_at(self, epoch: int, row: int, totals: tuple[int, ...]) -> BatchStep:
        """The step at a row of an epoch."""
        if self.length is None or self.policy is not LastBatchPolicy.PARTIAL:
            return BatchStep(epoch, row, totals, self.batch_size)
        left = (
            max(self.length - row, 0) * self.batch_size // self.stride
        )  # where shards have parts, each passes a position
        return BatchStep(epoch, row, totals, min(self.batch_size, left) or self.batch_size)

    def check(self) -> None:
        """Check that an epoch has a batch.

        Raises:
            UsageError: it has none.
        """
        if self.batches_per_epoch == 0:
            raise UsageError(
                "an epoch has no batch: there are fewer samples than a batch has rows, and the remainder is dropped",
                given=f"{self.length} samples, {self.batch_size} rows",
                fix="a smaller batch_size, or LastBatchPolicy.FILL or PAD",
            )
        if self.policy is LastBatchPolicy.PARTIAL and self.stride != self.batch_size and self.remainder != self.stride:
            raise UsageError("PARTIAL needs one order for all shards", fix="LastBatchPolicy.PAD")
