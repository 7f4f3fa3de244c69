"""Checkpoints of a training, which resume it bit-for-bit."""

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from penstock.core import optional_import
from penstock.engine.jobs.startup_exchange import exchange
from penstock.errors import StateError, UsageError
from penstock.graph import Range, check_annotations
from penstock.train.checkpoint_files import CheckpointFiles, Monitor, run_on_process_0
from penstock.train.iterator_checkpoint_handler import check_has_state
from penstock.train.metrics_file import MetricsFile
from penstock.train.replication import is_key, put_on_devices, replicated_sharding, unreplicate
from penstock.train.train_loop import Callback, TrainLoop
from penstock.train.tree_partition import NUMBERS, is_array


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
        saved = _leaves(loop.state)
        about = {
            "leaves": {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in saved.items()},
            "batch_size": iterator.batch_size,
            "step": loop.step,
            "epoch": loop.epoch,
            "metrics": {name: float(value) for name, value in (metrics or {}).items()},
            "monitor": self._monitor,
        }
        _ = loop.history.steps  # waits for the steps; TerminateOnNaN raises here, before a bad state is saved
        arrays = jax.block_until_ready({str(number): _plain(leaf) for number, leaf in enumerate(saved.values())})
        # By now all processes have taken their batches and reported bad samples.
        (about["iterator"],) = iterator.checkpoints()
        folder = self._files.folder / _on_process_0(lambda: self._files.begin(loop.step).name)
        try:
            self._arrays().save(folder / "state", args=self._ocp.args.StandardSave(arrays))
        except Exception as error:
            raise self._files.failed(folder, error) from error
        # A KeyboardInterrupt, for example, passes unchanged.
        except BaseException:
            self._files.abandon(folder)
            raise
        _on_process_0(lambda: self._finish(folder, about, loop))
        self._last_step = loop.step

    def _finish(self, folder: Path, about: dict[str, Any], loop: TrainLoop) -> None:
        try:
            about["history"] = self._metrics_file.append(loop.history)
            self._files.commit(folder, loop.step, about)
        except OSError as error:
            raise self._files.failed(folder, error) from error

    def restore(self, loop: TrainLoop) -> bool:
        """Restore the latest intact checkpoint and return True, or False if there is none."""
        step = _on_process_0(self._files.latest_step)
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
        leaves, structure = jax.tree.flatten(loop.state)
        # Leaves are matched by path, not by position: a clear error names the leaf that differs.
        numbers = _places(loop.state, about["leaves"])
        like = [_like(leaves[place], about["leaves"][name]) for name, place in numbers.items()]
        targets = {str(number): struct for number, struct in enumerate(like)}
        where, read = self._files.folder / str(step) / "state", self._ocp.args.StandardRestore(targets)
        arrays = self._arrays().restore(where, args=read)
        for number, position in enumerate(numbers.values()):
            leaves[position] = _with_placement_of(arrays[str(number)], leaves[position])
        iterator.set_state(json.loads(about["iterator"]))
        loop.state = jax.tree.unflatten(structure, leaves)
        loop.step, loop.epoch = about["step"], about["epoch"]
        self._metrics_file.restore(loop.history, about["history"])
        self._last_step = step
        return True

    def on_train_start(self, loop: TrainLoop) -> None:
        """Check that the directory is writable, and resume the training if it has a checkpoint."""
        check_has_state(loop.iterator)
        _on_process_0(self._files.prepare)
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

    def teardown(self) -> None:
        """Close Orbax's checkpointer."""
        if self._orbax is not None:
            self._orbax.close()
            self._orbax = None


def _on_process_0(act: Callable[[], Any]) -> Any:
    """Call `act` on process 0 and return its result on all processes."""
    return run_on_process_0(act, jax.process_index() == 0, lambda message: exchange(jax.devices(), message))


def _leaves(state: Any) -> dict[str, Any]:
    """Return the arrays of a state, by path."""
    pairs = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs if is_array(leaf)}


def _places(state: Any, saved: dict[str, Any]) -> dict[str, int]:
    """Return the positions of the saved leaves. A step may have turned a Python number into an array."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    current = {jax.tree_util.keystr(path): (number, leaf) for number, (path, leaf) in enumerate(leaves)}
    # A saved array may replace a Python number (a step counter becomes an array), but an array of this state must be in
    # the checkpoint.
    mine = {name for name, (_, leaf) in current.items() if is_array(leaf)}
    able = mine | {name for name, (_, leaf) in current.items() if isinstance(leaf, NUMBERS)}
    wrong = sorted((mine - set(saved)) | (set(saved) - able))
    wrong += [name for name in sorted(mine & set(saved)) if saved[name] != _kind(current[name][1])]
    if wrong:
        name = wrong[0]
        raise StateError(
            "the checkpoint is of another state",
            given=f"{name or 'the state'}: {saved.get(name, 'nothing')} in the checkpoint",
            expected=f"{_kind(current[name][1]) if name in mine else 'nothing'} here",
            fix="start with the model and optimizer of the checkpoint, or use another directory",
        )
    return {name: current[name][0] for name in saved}


def _kind(leaf: Any) -> list[Any]:
    # NumPy arrays become `jax.Array`s in a save, and 64-bit types may become 32-bit.
    dtype = leaf.dtype if isinstance(leaf, jax.Array) else jax.dtypes.canonicalize_dtype(leaf.dtype)
    return [list(leaf.shape), str(dtype)]


def _plain(leaf: Any) -> jax.Array:
    """Return a leaf as a numeric `jax.Array`, which Orbax can save. Typed keys are saved as their data."""
    if is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def _like(leaf: Any, kind: list[Any]) -> jax.ShapeDtypeStruct:
    """Return the shape, dtype and sharding to restore: those of the leaf that it replaces."""
    shape, dtype = tuple(kind[0]), kind[1]
    if is_key(leaf):
        shape, dtype = jax.random.key_data(leaf).shape, np.uint32
    sharding = leaf.sharding if isinstance(leaf, jax.Array) else None
    if not isinstance(sharding, NamedSharding):
        sharding = replicated_sharding()
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype), sharding=sharding)


def _with_placement_of(array: jax.Array, leaf: Any) -> Any:
    """Return a restored array with the key type and placement of the leaf that it replaces."""
    if is_key(leaf):
        array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding):
        return put_on_devices(array, leaf.sharding, fresh=False)
    # `data_parallel` places a state without a mesh at its first call. With several processes, it stays replicated.
    return array if jax.process_count() > 1 else unreplicate(array)
