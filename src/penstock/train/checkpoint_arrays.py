"""Arrays of checkpoints: named by their paths in the state, written and read by Orbax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from penstock.errors import StateError, UsageError
from penstock.train.replication import (
    check_numeric,
    is_key,
    put_on_devices,
    replicated_sharding,
    unreplicate,
    with_weak_type_of,
)
from penstock.train.tree_partition import NUMBERS, is_array

# Path of a leaf in a tree: names of attributes, keys and positions, as text.
LeafPath = tuple[str, ...]

# Name of a state that is a single array. Orbax saves trees only.
_WHOLE = "state"


class SavedArray(NamedTuple):
    """Array of a checkpoint.

    Args:
        shape: Shape in the state.
        dtype: Name of the dtype in the state.
        place: Path in Orbax's tree.
    """

    shape: list[int]
    dtype: str
    place: LeafPath

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


def describe_arrays(state: Any) -> list[Any]:
    """Return path, shape and dtype of each array as JSON values, for the metadata of a checkpoint.

    Raises:
        UsageError: JAX does not support the dtype of an array.
    """
    return [[list(path), *_kind(leaf)] for path, leaf in _leaves(state, path_names) if is_array(leaf)]


def array_tree(state: Any) -> dict[str, Any]:
    """Return the arrays of a state that have elements, as nested dictionaries of numeric `jax.Array`s.

    The keys are the names on the path, so that a program without the classes of the state can read them.

    Raises:
        UsageError: Two arrays get the same name in Orbax's files, which join the names on a path by dots.

    >>> array_tree({"layers": [np.float32(1)], "name": "net"})
    {'layers': {'0': Array(1., dtype=float32)}}
    """
    # Orbax cannot save arrays without elements. Their shapes are in the metadata.
    arrays = {_place(path): _plain(leaf) for path, leaf in _leaves(state, path_names) if is_array(leaf) and leaf.size}
    names: dict[str, LeafPath] = {}
    for path in arrays:
        if (other := names.setdefault(".".join(path), path)) != path:
            raise UsageError("two arrays of the state have the same name", given=[other, path], fix="keys without dots")
    return _nested(arrays)


def saved_arrays(metadata: Mapping[str, Any]) -> tuple[dict[LeafPath, SavedArray], Callable[[Any], LeafPath]]:
    """Return the arrays of a checkpoint by path, and the function that names the leaves of a tree in this way."""
    if "arrays" in metadata:
        arrays = ((tuple(path), shape, dtype) for path, shape, dtype in metadata["arrays"])
        return {path: SavedArray(shape, dtype, _place(path)) for path, shape, dtype in arrays}, path_names
    # Checkpoints of Penstock 0.1 number the arrays in Orbax's tree, and have JAX's text of the path in the metadata.
    numbered = enumerate(metadata["leaves"].items())
    arrays = {(name,): SavedArray(*kind, place=(str(number),)) for number, (name, kind) in numbered}
    return arrays, lambda path: (jax.tree_util.keystr(path),)


def path_names(path: Any) -> LeafPath:
    """Return the names on a path of JAX.

    >>> path_names(jax.tree_util.tree_leaves_with_path({"layers": [1.0]})[0][0])
    ('layers', '0')
    """
    return tuple(jax.tree_util.keystr((entry,), simple=True) for entry in path)


def read_arrays(ocp: Any, folder: Path, metadata: Mapping[str, Any], state: Any, *, partial: bool = False) -> Any:
    """Return a state with the arrays of a checkpoint.

    Args:
        ocp: The module `orbax.checkpoint`.
        folder: Directory that Orbax has written.
        metadata: Metadata of the checkpoint.
        state: Tree whose arrays are replaced. The new ones get their placement.
        partial: True if the checkpoint may have more arrays than the state.

    Raises:
        StateError: The checkpoint does not have an array of the state, or has one of another shape or dtype.
    """
    saved, names = saved_arrays(metadata)
    leaves, structure = jax.tree.flatten(state)
    # Matched by path, not by position: an error names the leaf that differs.
    positions = _match(state, saved, names, partial=partial)
    positions = {path: position for path, position in positions.items() if 0 not in saved[path].shape}
    targets = {saved[path].place: _target(leaves[position], saved[path]) for path, position in positions.items()}
    tree = _nested(targets)
    args = ocp.args.PyTreeRestore(
        item=tree, restore_args=ocp.checkpoint_utils.construct_restore_args(tree), partial_restore=partial
    )
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(folder, args=args)
    for path, position in positions.items():
        leaves[position] = _with_placement_of(_at(restored, saved[path].place), leaves[position])
    return jax.tree.unflatten(structure, leaves)


def _match(
    state: Any, saved: Mapping[LeafPath, SavedArray], names: Callable[[Any], LeafPath], *, partial: bool
) -> dict[LeafPath, int]:
    """Return the positions of the leaves to replace."""
    current = {path: (number, leaf) for number, (path, leaf) in enumerate(_leaves(state, names))}
    arrays = {path: SavedArray(*_kind(leaf), path) for path, (_, leaf) in current.items() if is_array(leaf)}
    # A saved array may replace a Python number (a step counter becomes an array), but an array of this state must be in
    # the checkpoint.
    numbers = {path for path, (_, leaf) in current.items() if isinstance(leaf, NUMBERS)}
    wrong = sorted(arrays.keys() - saved.keys())
    if not partial:
        wrong += sorted(saved.keys() - arrays.keys() - numbers)
    wrong += sorted(path for path in arrays.keys() & saved.keys() if arrays[path][:2] != saved[path][:2])
    if wrong:
        path = wrong[0]
        raise StateError(
            "the checkpoint is of another state",
            given=f"{'/'.join(path) or 'the state'}: {saved.get(path, 'nothing')} in the checkpoint"
            + _hint(path, saved),
            expected=f"{arrays.get(path, 'nothing')} here",
            fix="the structure of the saved state, such as (model, None) for the first part of a pair; leave out what "
            "differs"
            if partial
            else "start with the model and optimizer of the checkpoint, or use another directory",
        )
    return {path: current[path][0] for path in saved if path in current}


def _hint(path: LeafPath, saved: Mapping[LeafPath, SavedArray]) -> str:
    """Return where a checkpoint has the path below other names, if it does."""
    if path in saved or not path:
        return ""
    below = ["/".join(other) for other in saved if other[-len(path) :] == path]
    return f", but {below[0]}" if below else ""


def _leaves(state: Any, names: Callable[[Any], LeafPath]) -> list[tuple[LeafPath, Any]]:
    return [(names(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)]


def _place(path: LeafPath) -> LeafPath:
    return path or (_WHOLE,)


def _nested(arrays: Mapping[LeafPath, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, array in arrays.items():
        node = tree
        for name in path[:-1]:
            node = node.setdefault(name, {})
        node[path[-1]] = array
    return tree


def _at(tree: Any, path: LeafPath) -> Any:
    for name in path:
        tree = tree[name]
    return tree


def _kind(leaf: Any) -> tuple[list[int], str]:
    check_numeric(leaf)
    # NumPy arrays become `jax.Array`s in a save, and 64-bit types may become 32-bit.
    dtype = leaf.dtype if isinstance(leaf, jax.Array) else jax.dtypes.canonicalize_dtype(leaf.dtype)
    return list(leaf.shape), str(dtype)


def _plain(leaf: Any) -> jax.Array:
    """Return a leaf as a numeric `jax.Array`. Typed keys are saved as their data."""
    if is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def _target(leaf: Any, saved: SavedArray) -> jax.ShapeDtypeStruct:
    """Return the shape, dtype and sharding to restore: those of the leaf that it replaces."""
    shape, dtype = tuple(saved.shape), saved.dtype
    if is_key(leaf):
        shape, dtype = jax.random.key_data(leaf).shape, np.uint32
    sharding = leaf.sharding if isinstance(leaf, jax.Array) else None
    if not isinstance(sharding, NamedSharding):
        sharding = replicated_sharding()
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype), sharding=sharding)


def _with_placement_of(array: jax.Array, leaf: Any) -> Any:
    """Return a restored array with the key type, weak type and placement of the leaf that it replaces."""
    if is_key(leaf):
        array = jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))
    array = with_weak_type_of(leaf, array)
    if isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding):
        return put_on_devices(array, leaf.sharding, fresh=False)
    # `data_parallel` places a state without a mesh at its first call. With several processes, it stays replicated.
    return array if jax.process_count() > 1 else unreplicate(array)
