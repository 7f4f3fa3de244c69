"""Weights of a checkpoint without its training."""

from os import PathLike
from typing import Annotated, Any, Literal

import jax

from penstock.core import optional_import
from penstock.errors import UsageError
from penstock.graph import Range, check_annotations
from penstock.train.checkpoint_arrays import read_arrays
from penstock.train.checkpoint_files import CheckpointFiles
from penstock.train.first_process import on_process_0
from penstock.train.shared_variables import check_not_shared
from penstock.train.tree_partition import NUMBERS, is_array


@check_annotations
def restore_weights(
    directory: str | PathLike[str], target: Any, *, step: Annotated[int, Range(0)] | Literal["best"] | None = None
) -> Any:
    """Return a tree with the arrays of a checkpoint of `Checkpoint`, without the iterator and the history.

    Arrays are matched by their paths: the names of attributes, keys and positions. The target has the structure of the
    saved state or a part of it, for example `(model, None)` for the model of a pair of model and optimizer, or
    `{"params": params}` for the parameters of Flax's `TrainState`.

    Args:
        directory: Directory of the training. It is only read.
        target: Tree whose arrays are replaced. The new arrays get their placement; other leaves stay unchanged.
        step: Number of a step, "best" for the best checkpoint by the `monitor` of `Checkpoint`, or None for the latest
            one. If the latest one is damaged, a warning names it and the previous one is used.

    Returns:
        A tree with the structure of the target.

    Raises:
        MissingExtraError: Orbax is not installed.
        StateError: The checkpoint does not exist or is damaged; an array of the target is not in it or has another
            shape or dtype, such as a layer for another number of classes.
        UsageError: The target does not have arrays, or has a variable of NNX twice; or `directory` is the URL of an
            object store.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from penstock import train
        >>> step = train.data_parallel(lambda state, batch: {"w": state["w"] + 1.0, "velocity": state["velocity"]})
        >>> state = {"w": np.zeros(2, np.float32), "velocity": np.zeros(2, np.float32)}
        >>> folder = tempfile.mkdtemp()
        >>> _ = train.fit(step, state, train.batches(np.ones(8), 8), epochs=3, callbacks=[train.Checkpoint(folder)])
        >>> train.restore_weights(folder, {"w": np.zeros(2, np.float32)})
        {'w': Array([3., 3.], dtype=float32)}
        >>> train.restore_weights(folder, {"w": np.zeros(5, np.float32)})
        Traceback (most recent call last):
        penstock.errors.StateError: the checkpoint is of another state
          given:    w: float32[2] in the checkpoint
          expected: float32[5] here
        ...
    """
    ocp = optional_import.import_extra("orbax.checkpoint", "train", "train.restore_weights")
    leaves = jax.tree.leaves(target)
    if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        raise UsageError(
            "the target has shapes in place of arrays", fix="a tree of arrays, such as an initialized model"
        )
    if not any(is_array(leaf) or isinstance(leaf, NUMBERS) for leaf in leaves):
        raise UsageError(
            "the target does not have arrays to restore",
            given=jax.tree.structure(target),
            fix="the saved state or a part of it, such as (model, None)",
        )
    check_not_shared(target)
    files = CheckpointFiles(directory)
    chosen = on_process_0(lambda: files.intact_step(step))
    return read_arrays(ocp, files.folder / str(chosen) / "state", files.metadata(chosen), target, partial=True)
