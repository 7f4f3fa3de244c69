"""Checkpoints of a training, which resume it bit-for-bit."""

import json
import logging
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import jax

from penstock.core import optional_import
from penstock.errors import CheckpointError, JobError, StateError, UsageError
from penstock.graph import Range, check_annotations
from penstock.train.background_save import BackgroundSave
from penstock.train.checkpoint_arrays import array_tree, describe_arrays, read_arrays
from penstock.train.checkpoint_files import CheckpointFiles, Monitor
from penstock.train.checkpoint_numbers import describe_numbers, with_numbers
from penstock.train.first_process import on_process_0
from penstock.train.iterator_checkpoint_handler import check_has_state
from penstock.train.metrics_file import MetricsFile
from penstock.train.shared_variables import check_not_shared
from penstock.train.train_loop import Callback, TrainLoop

_log = logging.getLogger("penstock")


class Checkpoint(Callback):
    """Callback that saves the training and resumes it from the latest checkpoint.

    A checkpoint contains the arrays of the state (model and optimizer), saved with Orbax, the Python numbers that the
    training has changed, the iterator's state and the history. It is saved after each epoch, at intervals within it,
    and when the training stops. `fit` resumes from the latest one in the directory: the same program, started again,
    gives the same bits as an uninterrupted run on the same devices. Other devices round sums differently.

    A checkpoint counts when all of its files are on disk with their checksums, and only then an older one is removed.
    The next start removes a partial checkpoint of a killed process. A warning names a damaged checkpoint, and the
    previous one is used.

    Args:
        directory: Directory of one training, shared by all processes of a job.
        save_interval_steps: Steps between checkpoints within an epoch; None saves only after epochs and at the end.
        max_to_keep: Number of checkpoints to keep; None keeps all. With `monitor`, the best ones and also the latest
            one, which a resume needs.
        monitor: Name of a value in the record of an epoch, such as "val_accuracy", that ranks checkpoints. Put
            `Evaluate` before this callback. Without it, the latest checkpoints are kept.
        mode: "max" if larger values of `monitor` are better, "min" if smaller ones are. Required with `monitor`.
        enable_async_checkpointing: True to write files while the training continues. A save then waits only for the
            previous one and for the copy of the arrays to the host. False waits until the files are on disk.

    Raises:
        MissingExtraError: Orbax is not installed.
        CheckpointError: The directory is not writable, before the first step or later. All processes raise it; with
            `enable_async_checkpointing`, at the next save or at the end.
        StateError: The checkpoint belongs to another state, definition, data set or batch size; or all checkpoints are
            damaged.
        UsageError: The iterator does not have a state to save; `monitor` and `mode` are not given together; the
            monitored name is not recorded, at the end of the first epoch; a variable of NNX is in the state twice; an
            array of the state contains text or objects; `directory` is the URL of an object store.

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
        resumed at step 4 of 8 (1 of 2 epochs are complete)
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
        enable_async_checkpointing: bool = False,
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
        self._files = CheckpointFiles(directory, max_to_keep, self._monitor)
        self._metrics_file = MetricsFile(self._files.folder / "history.jsonl")
        self._async = enable_async_checkpointing
        self._orbax: Any = None
        self._initial_numbers: frozenset[Any] = frozenset()
        self._last_step: int | None = None
        self._last_save: BackgroundSave | None = None

    def save(self, loop: TrainLoop, metrics: Mapping[str, float] | None = None) -> None:
        """Save the current step, unless it is saved already.

        Args:
            loop: The training.
            metrics: Values that belong to this step, such as the record of its epoch. `monitor` is one of them.
        """
        # The last step may also be at the interval, at the end of an epoch, and at the end of the training.
        if self._last_step == loop.step:
            return
        self.wait_until_finished()
        iterator = check_has_state(loop.iterator)
        about = {
            "arrays": describe_arrays(loop.state),
            "numbers": [number for number in describe_numbers(loop.state) if number not in self._initial_numbers],
            "batch_size": iterator.batch_size,
            "step": loop.step,
            "epoch": loop.epoch,
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
            "monitor": self._monitor,
        }
        _ = loop.history.steps  # waits for the steps; TerminateOnNaN raises here, before a bad state is saved
        arrays = jax.block_until_ready(array_tree(loop.state))
        # By now all processes have taken their batches and reported bad samples.
        about["iterator"] = iterator.checkpoints()[0].decode()
        folder = self._files.folder / on_process_0(lambda: self._begin(about, loop))
        if self._last_save is not None:
            self._last_save.forget()
        save = self._last_save = BackgroundSave()
        try:
            # Returns when the arrays are copied to the host. On CPUs they are not copied, but JAX does not reuse a
            # donated buffer while Orbax refers to it.
            self._orbax_checkpointer().save(folder / "state", args=self._ocp.args.StandardSave(arrays))
            written = self._orbax_checkpointer().wait_until_finished
        except Exception as error:  # noqa: BLE001  # raised below, in all processes
            written = partial(_raise, error)
        # A KeyboardInterrupt, for example, passes unchanged.
        except BaseException:
            self._files.abandon(folder, shared=jax.process_count() > 1)
            raise
        save.start(lambda: self._finish(written, folder, about))
        self._last_step = loop.step
        if not self._async:
            self.wait_until_finished()

    def _orbax_checkpointer(self) -> Any:
        if self._orbax is None:
            barrier = self._ocp.options.AsyncOptions(barrier_sync_fn=self._barrier)
            self._orbax = self._ocp.AsyncCheckpointer(self._ocp.StandardCheckpointHandler(), async_options=barrier)
        return self._orbax

    def _barrier(self, **_: Any) -> None:
        if self._last_save is not None:
            self._last_save.barrier()

    def _begin(self, about: dict[str, Any], loop: TrainLoop) -> str:
        """Create the directory of a save and append to the history, which changes while the save is written."""
        folder = self._files.begin(loop.step)
        try:
            about["history"] = self._metrics_file.append(loop.history)
        except OSError as error:
            raise self._files.failed(folder, error) from error
        return folder.name

    def _finish(self, written: Callable[[], None], folder: Path, about: dict[str, Any]) -> None:
        """Wait for Orbax, then turn the save into a checkpoint."""
        try:
            written()
            if jax.process_index() == 0:
                self._files.commit(folder, about["step"], about)
        except (CheckpointError, JobError):  # of another process
            self._files.abandon(folder, shared=True)
            raise
        except Exception as error:
            raise self._files.failed(folder, error, shared=jax.process_count() > 1) from error

    def wait_until_finished(self) -> None:
        """Wait until the last save is a checkpoint.

        Raises:
            CheckpointError: A process could not write its part. All processes raise it.
            JobError: A process has failed for another reason.
        """
        if self._last_save is not None:
            self._last_save.wait()

    def restore(self, loop: TrainLoop) -> bool:
        """Restore the latest intact checkpoint and return True, or False if there is none."""
        # Also without a checkpoint: the first save would lose the sharing, or fail.
        check_not_shared(loop.state)
        describe_arrays(loop.state)
        # A number that no step changes is a setting of the program, which may have another value after a resume.
        self._initial_numbers = frozenset(describe_numbers(loop.state))
        self.wait_until_finished()
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
        loop.state = with_numbers(state, about.get("numbers", []))
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
            loop.recorded(self._monitor.name)  # raises if it never is
        self.save(loop, loop.history.epochs[-1])

    def on_train_end(self, loop: TrainLoop) -> None:
        """Save the steps since the last checkpoint."""
        if loop.step:
            self.save(loop)
        self.wait_until_finished()

    def teardown(self) -> None:
        """Complete a save that is being written when an error ends the training, and close Orbax's checkpointer."""
        save, orbax, self._last_save, self._orbax = self._last_save, self._orbax, None, None
        if save is not None:
            try:
                save.wait()
            except (CheckpointError, JobError) as error:
                # The error that ends the training matters more to the user. The text, because a record that keeps the
                # error keeps the iterator of its traceback.
                _log.warning("the last save of the training is lost: %s", str(error))
        if orbax is not None:
            orbax.close()


def _raise(error: Exception) -> NoReturn:
    raise error
