"""Schedule of steps and epochs: the rows of each batch, the number of batches and their sequence. Pure functions."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.dataclass import dataclass
from penstock.errors import UsageError
from penstock.types import LastBatchPolicy


@dataclass(frozen=True, slots=True)
class BatchStep:
    """Position of one batch. With the definition, the data and the seed, it determines the batch.

    Args:
        epoch: Number of the epoch, from 0.
        row: Number of positions of the epoch before the batch, in the leading reader's order.
        consumed: Number of positions that each reader has passed since the beginning, over all epochs.
        rows: Number of rows of the batch, over all devices and processes.
    """

    epoch: int
    row: int
    consumed: tuple[int, ...]
    rows: int


@dataclass(frozen=True)
class Schedule:
    """The sequence of steps of an iterator.

    Args:
        batch_size: Number of rows of a full batch.
        length: Number of positions of an epoch in the leading order; None if it is endless.
        stride: Number of positions that a batch passes in that order.
        strides: The same number for each reader.
        policy: Treatment of an incomplete last batch.
        padded: For each reader, True if a batch with fewer rows passes as many positions as a full one.
        length_unknown: True if the data can end an epoch, possibly before `length`.
    """

    batch_size: int
    length: int | None
    stride: int
    strides: tuple[int, ...]
    policy: LastBatchPolicy = LastBatchPolicy.FILL
    padded: tuple[bool, ...] = ()
    length_unknown: bool = False

    def first(self) -> BatchStep:
        """Return the first step of the first epoch."""
        return self.step_at(0, 0, (0,) * len(self.strides))

    def position_after(self, step: BatchStep) -> BatchStep:
        """Return the position after this step. The end of an epoch is a position without a batch."""
        rows = [self.batch_size if padded else step.rows for padded in self.padded or (False,) * len(self.strides)]
        passed = zip(step.consumed, self.strides, rows, strict=True)
        totals = tuple([total + stride * count // self.batch_size for total, stride, count in passed])
        return self.step_at(step.epoch, step.row + self.stride, totals)

    def is_epoch_end(self, step: BatchStep) -> bool:
        """Return True if a position is the end of its epoch."""
        if self.length is None:
            return False
        if self.policy is LastBatchPolicy.DROP:
            return step.row + self.stride > self.length
        return step.row >= self.length

    def batches_before(self, step: BatchStep) -> int:
        """Count the batches of the epoch before a position."""
        return self.batches_per_epoch or 0 if self.is_epoch_end(step) else step.row // self.stride

    def next_epoch(self, step: BatchStep) -> BatchStep:
        """Return the first step of the next epoch."""
        # All readers pass the rest of this epoch, so that the next one is the same wherever the loop left this one.
        if self.length is not None and not self.is_epoch_end(step):
            # After a state of another batch size, the row need not be a multiple of the stride.
            skipped = self._batches_in(self.length - step.row) - 1
            totals = tuple(
                [total + skipped * stride for total, stride in zip(step.consumed, self.strides, strict=True)]
            )
            step = self.position_after(self.step_at(step.epoch, step.row + skipped * self.stride, totals))
        # They also pass the dropped batch, so that a reader as long as the epoch starts at its first sample again.
        if self.drops_last_batch:
            step = self.position_after(step)
        return self.step_at(step.epoch + 1, 0, step.consumed)

    def batch_at_or_after(self, step: BatchStep) -> BatchStep:
        """Return this position, or the first one of the next epoch if this epoch has ended."""
        return self.next_epoch(step) if self.is_epoch_end(step) else step

    def next_step(self, step: BatchStep) -> BatchStep:
        """Return the next step, which can be in the next epoch."""
        return self.batch_at_or_after(self.position_after(step))

    def step_of(self, epoch: int, number: int) -> BatchStep:
        """Return the step of batch `number` of an epoch, as a run from the first step reaches it."""
        # Every epoch passes the same number of positions of every reader, so the steps between are not computed.
        passed = self.next_epoch(self.first()).consumed if epoch else (0,) * len(self.strides)
        totals = tuple([epoch * total + number * stride for total, stride in zip(passed, self.strides, strict=True)])
        return self.step_at(epoch, number * self.stride, totals)

    @property
    def batches_per_epoch(self) -> int | None:
        """Number of batches of an epoch; None if it is endless."""
        return None if self.length is None else self._batches_in(self.length)

    def _batches_in(self, positions: int) -> int:
        """Count the batches of the rest of an epoch."""
        return positions // self.stride if self.policy is LastBatchPolicy.DROP else -(-positions // self.stride)

    def with_batch_size(self, rows: int) -> Schedule | None:
        """Return the schedule for another batch size, as far as readers do not count; None if it does not divide."""
        stride, rest = divmod(rows * self.stride, self.batch_size)
        return replace(self, batch_size=rows, stride=stride) if stride and not rest else None

    @property
    def rows_per_epoch(self) -> int:
        """Number of rows that a source passes in an epoch, with those that fill up the last batch; 0 if endless."""
        # The batch that DROP leaves out counts: sources pass it, too.
        rows = ((self.batches_per_epoch or 0) + self.drops_last_batch) * self.batch_size
        return rows - (self.stride - self.remainder) if self.policy is LastBatchPolicy.PARTIAL else rows

    @property
    def drops_last_batch(self) -> bool:
        """True if an epoch drops an incomplete batch at its end."""
        return self.policy is LastBatchPolicy.DROP and bool((self.length or 0) % self.stride)

    @property
    def remainder(self) -> int:
        """Number of rows of the last batch under PARTIAL."""
        return (self.length or 0) % self.stride or self.stride

    def end(self, step: BatchStep) -> BatchStep:
        """Return the end of the step's epoch, as a run from the start of the epoch reaches it."""
        return self.step_at(step.epoch, (self.batches_per_epoch or 0) * self.stride, step.consumed)

    def step_at(self, epoch: int, row: int, totals: tuple[int, ...]) -> BatchStep:
        """Return the step at a row of an epoch."""
        if self.length is None or self.policy is not LastBatchPolicy.PARTIAL:
            return BatchStep(epoch, row, totals, self.batch_size)
        # With contiguous shards, one position of the order counts a row of every shard.
        left = max(self.length - row, 0) * self.batch_size // self.stride
        return BatchStep(epoch, row, totals, min(self.batch_size, left) or self.batch_size)

    def check(self) -> None:
        """Check that an epoch contains at least one batch.

        Raises:
            UsageError: An epoch does not contain a batch, or PARTIAL is used with one order per shard and a remainder.
        """
        if self.batches_per_epoch == 0:
            raise UsageError(
                "an epoch has no batch: there are fewer samples than a batch has rows, and the remainder is dropped",
                given=f"{self.length} samples, {self.batch_size} rows",
                fix="a smaller batch_size, or LastBatchPolicy.FILL or PAD",
            )
        if self.policy is LastBatchPolicy.PARTIAL and self.stride != self.batch_size and self.remainder != self.stride:
            raise UsageError("PARTIAL needs one order for all shards", fix="LastBatchPolicy.PAD")
