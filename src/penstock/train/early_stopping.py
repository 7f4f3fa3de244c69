"""`EarlyStopping`: the end of a training that no longer improves."""

from typing import Annotated, Literal

from penstock.graph import Range, check_annotations
from penstock.train.train_loop import Callback, TrainLoop


class EarlyStopping(Callback):
    """Callback that stops the training when a recorded value has not improved for some epochs.

    It reads the records of the epochs, which a checkpoint contains, so a resumed training stops at the same epoch. Put
    it after `Evaluate`, which makes the record.

    Args:
        monitor: Name of the value in the record of an epoch, such as "loss" or "val_accuracy".
        mode: "min" if smaller values are better, "max" if larger ones are.
        patience: Number of recorded values without improvement after which the training stops.
        min_delta: Smallest change that counts as an improvement.

    Raises:
        UsageError: During training, the name is not recorded.

    Example:
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda loss, batch: (loss * 0.9, loss))
        >>> stop = EarlyStopping("loss", "min", patience=2, min_delta=1.0)
        >>> loop = train.fit(step, np.float32(2), train.batches(np.ones(8), 8), epochs=9, callbacks=[stop])
        stopped at step 3 of 9: loss has not improved for 2 epochs; the best is 2 in epoch 1
        >>> loop.epoch
        3
    """

    @check_annotations
    def __init__(
        self,
        monitor: str,
        mode: Literal["min", "max"],
        patience: Annotated[int, Range(1)] = 3,
        min_delta: Annotated[float, Range(0)] = 0.0,
    ) -> None:
        self._monitor, self._patience = monitor, patience
        self._sign, self._min_delta = (1 if mode == "max" else -1), min_delta

    def on_resume(self, loop: TrainLoop) -> None:
        """Stop a training again that had stopped before its checkpoint."""
        self._check(loop)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Compare the value of the epoch with the best one."""
        loop.recorded(self._monitor)  # raises if it never is
        self._check(loop)

    def _check(self, loop: TrainLoop) -> None:
        best, best_epoch, count = float("-inf"), 0, 0
        for epoch, record in enumerate(loop.history.epochs, 1):
            value = record.get(self._monitor)
            if value is None:
                continue
            # NaN is never an improvement, as it is not larger than any number.
            if self._sign * value > best + self._min_delta:
                best, best_epoch, count = self._sign * value, epoch, 0
            else:
                count += 1
        if count >= self._patience:
            result = f"; the best is {self._sign * best:.6g} in epoch {best_epoch}" if best_epoch else ""
            loop.stop(f"{self._monitor} has not improved for {count} epoch{'s' * (count > 1)}{result}")
