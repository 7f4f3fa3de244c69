"""`Checkpoint`: a training that was ended, by whatever, goes on where it was, bit by bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from penstock.core import optional_import
from penstock.engine.jobs.startup_exchange import exchange
from penstock.errors import StateError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_marks import Range
from penstock.iterate import DataIterator
from penstock.train.checkpoint_files import CheckpointFiles, run_on_process_0
from penstock.train.device_placement import put_on_devices, replicated_sharding, unreplicate
from penstock.train.metrics_file import MetricsFile
from penstock.train.train_loop import Callback, TrainLoop
from penstock.train.tree_partition import NUMBERS, is_array


class Checkpoint(Callback):
    """Saves the training after each epoch, at intervals within it and when it stops; continues it from the last save.

    What is saved: the arrays of the state (model and optimiser), with Orbax, the iterator's state, and the history.
    `fit` with a folder that holds a save goes on from it, so the same program, started again, ends as if it had not
    been interrupted: bit-equal, on the same devices. On other devices sums are rounded differently.

    Saving waits until the files are on the disk. A save that was killed does not count, and is removed at the next
    start. Files have checksums: for a damaged save a message says what is wrong, and the save before it is used.

    Args:
        directory: where saves go; one folder per training, that all processes of a job see.
        save_interval_steps: steps between saves within an epoch; None saves after epochs and at the end only.
        max_to_keep: how many saves to keep; None for all.

    Raises:
        MissingExtraError: Orbax is not installed.
        CheckpointError: the folder cannot be written to, when a training starts or later.
        StateError: when a training is continued, the save is of another state, definition, data set or batch size; or
            no save is whole.
        UsageError: when a training starts, its iterator has no state to save; or wrong arguments.

    Example:
        >>> import tempfile
        >>> from penstock import train
        >>> folder = tempfile.mkdtemp()
        >>> step = train.data_parallel(lambda count, batch: count + batch["x"].sum())
        >>> def run(epochs):
        ...     data = train.batches(np.ones(32), 8, shuffle=True)
        ...     return train.fit(step, np.float32(0), data, epochs=epochs, callbacks=[Checkpoint(folder)])
        >>> float(run(1).state), float(run(2).state)  # the second run goes on after the first
        (32.0, 64.0)
    """

    @check_annotations
    def __init__(
        self,
        directory: str | PathLike[str],
        *,
        save_interval_steps: Annotated[int | None, Range(1)] = None,
        max_to_keep: Annotated[int | None, Range(1)] = 2,
    ) -> None:
        self._every = save_interval_steps
        self._ocp = optional_import.import_extra("orbax.checkpoint", "train", "train.Checkpoint")  # slow to import
        self._saves = CheckpointFiles(Path(directory).absolute(), max_to_keep)
        self._journal = MetricsFile(self._saves.folder / "history.jsonl")
        self._orbax: Any = None
        self._last: int | None = None

    def _arrays(self) -> Any:
        if self._orbax is None:
            self._orbax = self._ocp.Checkpointer(self._ocp.StandardCheckpointHandler())
        return self._orbax

    def save(self, loop: TrainLoop) -> None:
        """Save the training as it is, unless that was done already."""
        if self._last == loop.step:
            return
        iterator = _stateful(loop.iterator)
        saved = _leaves(loop.state)
        about = {
            "leaves": {name: [list(leaf.shape), str(leaf.dtype)] for name, leaf in saved.items()},
            "batch_size": iterator.batch_size,
            "step": loop.step,
            "epoch": loop.epoch,
        }
        _ = loop.history.steps  # waits for the steps, and ends the training here where TerminateOnNaN does
        arrays = jax.block_until_ready({str(number): _plain(leaf) for number, leaf in enumerate(saved.values())})
        (about["iterator"],) = iterator.checkpoints()  # all processes have taken their batches, and told of bad samples
        folder = self._saves.folder / _first(lambda: self._saves.begin(loop.step).name)
        try:
            self._arrays().save(folder / "state", args=self._ocp.args.StandardSave(arrays))
        except Exception as error:
            raise self._saves.failed(folder, error) from error
        except BaseException:
            self._saves.abandon(folder)
            raise
        _first(lambda: self._finish(folder, about, loop))
        self._last = loop.step

    def _finish(self, folder: Path, about: dict[str, Any], loop: TrainLoop) -> None:
        try:
            about["history"] = self._journal.append(loop.history)
            self._saves.commit(folder, loop.step, about)
        except OSError as error:
            raise self._saves.failed(folder, error) from error

    def restore(self, loop: TrainLoop) -> bool:
        """Take up the training from the newest save that is whole; returns whether there is one."""
        step = _first(self._saves.latest_step)
        if step is None:
            return False
        iterator = _stateful(loop.iterator)
        about = self._saves.metadata(step)
        if about["batch_size"] != iterator.batch_size:
            raise StateError(
                "the checkpoint is of a training with another batch size: its steps count other numbers of samples",
                given=f"batches of {about['batch_size']} rows in the checkpoint",
                expected=f"{iterator.batch_size} rows, as here",
                fix=f"batch_size={about['batch_size']}, on any number of devices; or a folder for another training",
            )
        leaves, structure = jax.tree.flatten(loop.state)
        numbers = _places(loop.state, about["leaves"])
        like = [_like(leaves[place], about["leaves"][name]) for name, place in numbers.items()]
        targets = {str(number): struct for number, struct in enumerate(like)}
        where, read = self._saves.folder / str(step) / "state", self._ocp.args.StandardRestore(targets)
        arrays = self._arrays().restore(where, args=read)
        for number, place_ in enumerate(numbers.values()):
            leaves[place_] = _as_was(arrays[str(number)], leaves[place_])
        iterator.set_state(json.loads(about["iterator"]))
        loop.state = jax.tree.unflatten(structure, leaves)
        loop.step, loop.epoch = about["step"], about["epoch"]
        self._journal.restore(loop.history, about["history"])
        self._last = step
        return True

    def on_train_start(self, loop: TrainLoop) -> None:
        """See that saves can be written, and take up the training if there is one."""
        _stateful(loop.iterator)
        _first(self._saves.prepare)
        self._last = None
        self.restore(loop)

    def on_step_end(self, loop: TrainLoop) -> None:
        """Save, if it is time. After the last step of an epoch `on_epoch` does it, when the epoch is recorded."""
        if self._every is not None and loop.step % self._every == 0 and not loop.epoch_ended:
            self.save(loop)

    def on_epoch_end(self, loop: TrainLoop) -> None:
        """Save."""
        self.save(loop)

    def on_train_end(self, loop: TrainLoop) -> None:
        """Save what came after the last save."""
        if loop.step:
            self.save(loop)

    def teardown(self) -> None:
        """Close what reads and writes arrays."""
        if self._orbax is not None:
            self._orbax.close()
            self._orbax = None


def _first(act: Callable[[], Any]) -> Any:
    """What the first process does, and all get to know."""
    return run_on_process_0(act, jax.process_index() == 0, lambda message: exchange(jax.devices(), message))


def _stateful(iterator: Any) -> DataIterator:
    if not isinstance(iterator, DataIterator):
        raise UsageError(
            "a checkpoint needs an iterator with a state",
            given=type(iterator).__name__,
            fix="train.batches or data_iterator",
        )
    return iterator


def _leaves(state: Any) -> dict[str, Any]:
    """The arrays of a state, by path."""
    pairs = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in pairs if is_array(leaf)}


def _places(state: Any, saved: dict[str, Any]) -> dict[str, int]:
    """The numbers of the leaves that were saved. A Python number may have become an array since it was new."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    found = {jax.tree_util.keystr(path): (number, leaf) for number, (path, leaf) in enumerate(leaves)}
    mine = {name for name, (_, leaf) in found.items() if is_array(leaf)}
    able = mine | {name for name, (_, leaf) in found.items() if isinstance(leaf, NUMBERS)}
    wrong = sorted((mine - set(saved)) | (set(saved) - able))
    wrong += [name for name in sorted(mine & set(saved)) if saved[name] != _kind(found[name][1])]
    if wrong:
        name = wrong[0]
        raise StateError(
            "the checkpoint is of another state",
            given=f"{name or 'the state'}: {saved.get(name, 'nothing')} in the checkpoint",
            expected=f"{_kind(found[name][1]) if name in mine else 'nothing'} here",
            fix="start with the model and optimiser that were saved, or in another folder",
        )
    return {name: found[name][0] for name in saved}


def _kind(leaf: Any) -> list[Any]:
    dtype = leaf.dtype if isinstance(leaf, jax.Array) else jax.dtypes.canonicalize_dtype(leaf.dtype)
    return [list(leaf.shape), str(dtype)]


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _plain(leaf: Any) -> jax.Array:
    """An array as Orbax takes it: a `jax.Array` of numbers."""
    if _is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def _like(leaf: Any, kind: list[Any]) -> jax.ShapeDtypeStruct:
    """What to read, and to where: where the state is that it replaces."""
    shape, dtype = tuple(kind[0]), kind[1]
    if _is_key(leaf):
        shape, dtype = jax.random.key_data(leaf).shape, np.uint32
    sharding = leaf.sharding if isinstance(leaf, jax.Array) else None
    if not isinstance(sharding, NamedSharding):
        sharding = replicated_sharding()
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype), sharding=sharding)


def _as_was(array: jax.Array, leaf: Any) -> Any:
    """What was read, as free of devices as what it replaces."""
    if _is_key(leaf):
        array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding):
        return put_on_devices(array, leaf.sharding, fresh=False)
    return array if jax.process_count() > 1 else unreplicate(array)
