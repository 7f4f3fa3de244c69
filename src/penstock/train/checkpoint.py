"""Checkpoints of a training, which resume it bit-for-bit."""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import jax

from penstock.core import optional_import
from penstock.errors import StateError, UsageError
from penstock.graph import Range, check_annotations
from penstock.train.checkpoint_arrays import array_tree, describe_arrays, read_arrays
from penstock.train.checkpoint_files import CheckpointFiles, Monitor
from penstock.train.first_process import on_process_0
from penstock.train.iterator_checkpoint_handler import check_has_state
from penstock.train.metrics_file import MetricsFile
from penstock.train.train_loop import Callback, TrainLoop


class Checkpoint(Callback):
    """Callback that saves the training and resumes it from the latest checkpoint.

    A checkpoint contains the arrays of the state (model and optimizer), saved with Orbax, the iterator's state and the
    history. It is saved after each epoch, at intervals within it, and when the training stops. `fit` resumes from the
    latest one in the directory: the same program, started again, gives the same bits as an uninterrupted run on the
    same devices. Other devices round sums differently.

    Saving waits until the files are on disk. The next start removes a partial checkpoint of a killed process. Files
    have checksums: a warning names a damaged checkpoint, and the previous one is used.

    Args:
        directory: Directory of one training, shared by all processes of a job.
        save_interval_steps: Steps between checkpoints within an epoch; None saves only after epochs and at the end.
        max_to_keep: Number of checkpoints to keep; None keeps all. With `monitor`, the best ones and also the latest
            one, which a resume needs.
        monitor: Name of a value in the record of an epoch, such as "val_accuracy", that ranks checkpoints. Put
            `Evaluate` before this callback. Without it, the latest checkpoints are kept.
        mode: "max" if larger values of `monitor` are better, "min" if smaller ones are. Required with `monitor`.

    Raises:
        MissingExtraError: Orbax is not installed.
        CheckpointError: The directory is not writable, before the first step or later.
        StateError: The checkpoint belongs to another state, definition, data set or batch size; or all checkpoints are
            damaged.
        UsageError: The iterator does not have a state to save; `monitor` and `mode` are not given together; the
            monitored name is not recorded, at the end of the first epoch.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from penstock import train
        >>> folder = tempfile.mkdtemp()
        >>> step = train.data_parallel(lambda count, batch: count + batch["x"].sum())
        >>> def run(epochs):
        ...     data = train.batches(np.ones(32), 8, shuffle=True)
        ...     return train.fit(step, np.float32(0), data, epochs=epochs, callbacks=[Checkpoint(folder)])
        >>> float(run(1).state), float(run(2).state)  # the second run resumes the first
        (32.0, 64.0)
    """

    @check_annotations
    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        save_interval_steps: Annotated[int | None, Range(1)] = None,
        max_to_keep: Annotated[int | None, Range(1)] = 2,
        monitor: str | None = None,
        mode: Literal["min", "max"] | None = None,
    ) -> None:
        if (monitor is None) != (mode is None):
            # Keras guesses the mode, and the defaults of Lightning and Orbax differ. The wrong one keeps the worst.
            raise UsageError(
                "monitor and mode belong together",
                given=f"monitor={monitor!r}, mode={mode!r}",
                fix='mode="max" if larger values are better, mode="min" if smaller ones are',
            )
        self._save_interval_steps = save_interval_steps
        self._monitor = Monitor(monitor, mode) if monitor is not None and mode is not None else None
        self._ocp = optional_import.import_extra("orbax.checkpoint", "train", "train.Checkpoint")  # slow to import
        self._files = CheckpointFiles(Path(directory).absolute(), max_to_keep, self._monitor)
        self._metrics_file = MetricsFile(self._files.folder / "history.jsonl")
        self._orbax: Any = None
        self._last_step: int | None = None

    def _arrays(self) -> Any:
        if self._orbax is None:
            self._orbax = self._ocp.Checkpointer(self._ocp.StandardCheckpointHandler())
        return self._orbax

    def save(self, loop: TrainLoop, metrics: Mapping[str, float] | None = None) -> None:
        """Save the current step, unless it is saved already.

        Args:
            loop: The training.
            metrics: Values that belong to this step, such as the record of its epoch. `monitor` is one of them.
        """
        # The last step may also be at the interval, at the end of an epoch, and at the end of the training.
        if self._last_step == loop.step:
            return
        iterator = check_has_state(loop.iterator)
        about = {
            "arrays": describe_arrays(loop.state),
            "batch_size": iterator.batch_size,
            "step": loop.step,
            "epoch": loop.epoch,
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
            "monitor": self._monitor,
        }
        _ = loop.history.steps  # waits for the steps; TerminateOnNaN raises here, before a bad state is saved
        arrays = jax.block_until_ready(array_tree(loop.state))
        # By now all processes have taken their batches and reported bad samples.
        (about["iterator"],) = iterator.checkpoints()
        folder = self._files.folder / on_process_0(lambda: self._files.begin(loop.step).name)
        try:
            self._arrays().save(folder / "state", args=self._ocp.args.StandardSave(arrays))
        except Exception as error:
            raise self._files.failed(folder, error) from error
        # A KeyboardInterrupt, for example, passes unchanged.
        except BaseException:
            self._files.abandon(folder)
            raise
        on_process_0(lambda: self._finish(folder, about, loop))
        self._last_step = loop.step

    def _finish(self, folder: Path, about: dict[str, Any], loop: TrainLoop) -> None:
        try:
            about["history"] = self._metrics_file.append(loop.history)
            self._files.commit(folder, loop.step, about)
        except OSError as error:
            raise self._files.failed(folder, error) from error

    def restore(self, loop: TrainLoop) -> bool:
        """Restore the latest intact checkpoint and return True, or False if there is none."""
        step = on_process_0(self._files.latest_step)
        if step is None:
            return False
        iterator = check_has_state(loop.iterator)
        about = self._files.metadata(step)
        if about["batch_size"] != iterator.batch_size:
            raise StateError(
                "the checkpoint is of a training with another batch size, whose steps count other numbers of samples",
                given=f"batches of {about['batch_size']} rows in the checkpoint",
                expected=f"{iterator.batch_size} rows, as here",
                fix=f"batch_size={about['batch_size']}, on any number of devices; or a folder for another training",
            )
        state = read_arrays(self._ocp, self._files.folder / str(step) / "state", about, loop.state)
        iterator.set_state(json.loads(about["iterator"]))
        loop.state = state
        loop.step, loop.epoch = about["step"], about["epoch"]
        self._metrics_file.restore(loop.history, about["history"])
        self._last_step = step
        return True

    def on_train_start(self, loop: TrainLoop) -> None:
        """Check that the directory is writable, and resume the training if it has a checkpoint."""
        check_has_state(loop.iterator)
        on_process_0(self._files.prepare)
        # The callback may serve a second call of `fit`.
        self._last_step = None
        self.restore(loop)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Save at the interval. `on_epoch_end` saves the last step of an epoch, whose record exists only then."""
        if (
            self._save_interval_steps is not None
            and loop.step % self._save_interval_steps == 0
            and not loop.epoch_ended
        ):
            self.save(loop)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Save the epoch with its record."""
        if self._monitor is not None:
            _check_recorded(loop, self._monitor.name)
        self.save(loop, loop.history.epochs[-1])

    def on_train_end(self, loop: TrainLoop) -> None:
        """Save the steps since the last checkpoint."""
        if loop.step:
            self.save(loop)

    def teardown(self) -> None:
        """Close Orbax's checkpointer."""
        if self._orbax is not None:
            self._orbax.close()
            self._orbax = None


def _check_recorded(loop: TrainLoop, name: str) -> None:
    """Check that a name is in the record of an epoch. The records of all processes have the same names."""
    records = loop.history.epochs
    if not any(name in record for record in records):
        raise UsageError(
            "the monitored value is not in the record of the epoch",
            given=name,
            expected=", ".join(dict.fromkeys(name for record in records for name in record)) or "a metric of the step",
            fix="one of these names; put Evaluate before Checkpoint",
        )
