"""Placement of states and batches: meshes, replication and its inverse."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.engine.transfer.batch_layout import with_auto_axes, with_sharding
from penstock.engine.transfer.global_arrays import global_array
from penstock.errors import UsageError, short_repr
from penstock.graph import check_annotations
from penstock.train.shared_variables import check_not_shared
from penstock.train.tree_partition import NUMBERS, is_array, map_arrays

# Axis name of `data_mesh`.
BATCH = "batch"


@check_annotations
def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:  # pyright: ignore[reportInvalidTypeForm]  # untyped in JAX
    """Return a mesh with one axis, "batch", over all devices of all processes.

    The axis is Auto: XLA chooses the sharding of intermediate results, as programs with Flax and Equinox expect.
    (`jax.make_mesh` returns Explicit axes.)

    Args:
        devices: Devices in this order; by default `jax.devices()`.

    Raises:
        UsageError: `devices` is empty or contains a device twice.

    Example:
        >>> dict(data_mesh().shape)
        {'batch': 8}
    """
    devices = jax.devices() if devices is None else list(devices)
    if not devices or len(set(devices)) < len(devices):
        raise UsageError("a mesh has at least one device, and none twice", given=devices, fix="jax.devices()")
    return Mesh(np.array(devices), (BATCH,), axis_types=(AxisType.Auto,))


@check_annotations
def batch_sharding(mesh: Mesh | None = None) -> NamedSharding:
    """Return the sharding that splits the rows of a batch over the devices.

    Args:
        mesh: Mesh whose first axis splits the batch; by default `data_mesh()`.

    Example:
        >>> batch_sharding().shard_shape((64, 28, 28))
        (8, 28, 28)
    """
    mesh = data_mesh() if mesh is None else mesh
    return NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))


@check_annotations
def replicated_sharding(mesh: Mesh | AbstractMesh | None = None) -> NamedSharding:
    """Return the sharding with a whole copy on each device.

    Args:
        mesh: Devices; by default `data_mesh()`.

    Example:
        >>> replicated_sharding().shard_shape((64, 28))
        (64, 28)
    """
    return NamedSharding(data_mesh() if mesh is None else mesh, PartitionSpec())


@check_annotations
def replicate(tree: Any, sharding: Any = None) -> Any:
    """Copy a tree to every device, without sharing memory.

    A step can donate the copy and leave the original intact. (`jax.device_put` may share memory, and donating its
    result deletes the original.)

    Args:
        tree: Any pytree. Arrays of JAX and NumPy are copied; other leaves (functions, Python numbers) stay unchanged.
        sharding: Sharding of the copies; by default `replicated_sharding()`. A tree of shardings may have the structure
            of `tree` or a prefix of it.

    Returns:
        A tree of the same structure with `jax.Array`s in that sharding.

    Raises:
        UsageError: A sharding does not divide an array, or a variable of NNX is in the tree twice.

    Example:
        >>> state = replicate({"weights": np.ones(3, np.float32), "activation": np.tanh})
        >>> state["weights"].sharding.is_fully_replicated, len(state["weights"].devices()), state["activation"]
        (True, 8, <ufunc 'tanh'>)
    """
    check_not_shared(tree)
    return put_on_devices(tree, replicated_sharding() if sharding is None else sharding, fresh=True)


@check_annotations
def unreplicate(tree: Any) -> Any:
    """Return a tree with each array whole, on the default device, without a mesh. The inverse of `replicate`.

    Args:
        tree: Tree of arrays, replicated or sharded over a mesh; other leaves stay unchanged.

    Example:
        >>> unreplicate(replicate({"weights": np.ones(3, np.float32)}))["weights"].devices()
        {CpuDevice(id=0)}
    """

    def back(leaf: Any) -> jax.Array:
        check_numeric(leaf)
        if is_key(leaf):
            return _on_key_data(back, leaf)
        if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
            leaf = multihost_utils.process_allgather(leaf, tiled=True)
        copy = np.array(leaf)  # np.array copies, so that a donated original cannot change it
        return with_weak_type_of(leaf, jax.device_put(copy))

    return map_arrays(back, tree)


@check_annotations
def replicate_for_pmap(tree: Any, devices: Sequence[jax.Device] | None = None) -> Any:  # pyright: ignore[reportInvalidTypeForm]  # untyped in JAX
    """Copy a tree to every device in the layout of `jax.pmap`: arrays get a leading axis of devices.

    Args:
        tree: Any pytree. `jax.pmap` maps over every leaf, so Python numbers become arrays; functions stay unchanged.
        devices: Local devices; by default `jax.local_devices()`.

    Returns:
        A tree of the same structure, its arrays of shape ``(devices, ...)``, on a mesh with the axis "batch": a program
        of `jax.pmap` with ``axis_name="batch"`` gives such arrays back, and is compiled once; with another name, twice.

    Example:
        >>> replicate_for_pmap({"weights": np.ones(3, np.float32)})["weights"].shape
        (8, 3)
    """
    devices = jax.local_devices() if devices is None else devices
    try:
        tree = jax.tree.map(lambda leaf: jax.device_put(leaf) if isinstance(leaf, NUMBERS) else leaf, tree)
    except OverflowError as error:
        raise UsageError(f"a number of the tree does not fit into an array: {error}", given=short_repr(tree)) from None
    copies = replicate(tree, replicated_sharding(data_mesh(devices)))
    return map_arrays(_stacked(tuple(devices)), copies)


@check_annotations
def unreplicate_from_pmap(tree: Any) -> Any:
    """Return the first device's copy from the layout of `jax.pmap`, on the default device.

    Raises:
        UsageError: An array does not have a leading axis of devices.

    Example:
        >>> unreplicate_from_pmap(replicate_for_pmap({"weights": np.ones(3, np.float32)}))["weights"].shape
        (3,)
    """

    def first(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or not leaf.ndim:
            raise UsageError("arrays of `stack` have a leading axis of devices", given=short_repr(leaf))
        # The copies are equal, and the first local one needs no communication.
        return leaf.addressable_data(0)[0]

    return unreplicate(map_arrays(first, tree))


# Cached, because a new `jax.jit` object would compile again at each call.
@lru_cache(maxsize=16)
def _stacked(devices: tuple[Any, ...]) -> Any:
    sharding = batch_sharding(data_mesh(devices))
    return jax.jit(lambda leaf: jnp.broadcast_to(leaf, (len(devices), *leaf.shape)), out_shardings=sharding)


def put_on_devices(tree: Any, shardings: Any, *, fresh: bool) -> Any:
    """Place the arrays of a tree.

    Args:
        tree: Any pytree.
        shardings: Sharding of all arrays, or a tree of shardings with the structure of `tree` or a prefix of it.
        fresh: True guarantees that the result does not share memory with `tree`.
    """
    try:
        wanted = jax.tree.broadcast(shardings, tree, is_leaf=is_sharding)
    except ValueError as error:
        raise UsageError(f"the tree of shardings does not begin as the tree does: {error}") from None
    leaves, structure = jax.tree.flatten(tree)
    targets = jax.tree.leaves(wanted, is_leaf=is_sharding)
    if len(targets) != len(leaves) or not all(map(is_sharding, targets)):
        raise UsageError(
            "each array has a sharding", given=short_repr(shardings), expected="a NamedSharding, or a tree of them"
        )
    numbers = [number for number, leaf in enumerate(leaves) if is_array(leaf)]
    for number in numbers:
        check_numeric(leaves[number])
        _check_shares(leaves[number], targets[number])
    put = [_put(leaves[number], targets[number]) for number in numbers]
    if fresh:
        put = _copier(tuple([targets[number] for number in numbers]))(put)
    for number, array in zip(numbers, put, strict=True):
        leaves[number] = array
    return jax.tree.unflatten(structure, leaves)


def is_sharding(value: Any) -> bool:
    """Return True for a sharding, a leaf of trees of shardings."""
    return isinstance(value, NamedSharding)


def check_numeric(leaf: Any) -> None:
    """Check that JAX supports the dtype of an array."""
    if not isinstance(leaf, jax.Array) and leaf.dtype != np.bool_ and not jnp.issubdtype(leaf.dtype, jnp.number):
        raise UsageError(
            "JAX has no arrays of this kind",
            given=short_repr(leaf),
            expected="numbers or truth values",
            fix="keep it outside of the state, or make it a string or a tuple",
        )


def _check_shares(leaf: Any, sharding: NamedSharding) -> None:
    """Check that the sharding divides the axes of an array."""
    try:
        sharding.shard_shape(leaf.shape)
    except (ValueError, IndexError):
        raise UsageError(
            "the devices cannot share an array in this way",
            given=f"shape {tuple(leaf.shape)}, {sharding.spec} on {dict(sharding.mesh.shape)}",
            expected="axes that the devices divide; replicated_sharding() for whole copies",
        ) from None


def _put(leaf: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    # `device_put` can write to all devices of this process, or move an array that already spans processes.
    if sharding.is_fully_addressable or (isinstance(leaf, jax.Array) and not leaf.is_fully_addressable):
        return jax.device_put(leaf, sharding)
    if is_key(leaf):
        return _on_key_data(lambda data: _put(data, sharding), leaf)
    values = np.asarray(leaf)  # every process has the same; device_put would compare them on each call
    narrow = values.astype(jax.dtypes.canonicalize_dtype(values.dtype), copy=False)
    return with_weak_type_of(leaf, global_array(values.shape, sharding, narrow.__getitem__))


def is_key(leaf: Any) -> bool:
    """Return True for an array of typed random keys, for which NumPy does not have a dtype."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def with_weak_type_of(leaf: Any, array: jax.Array) -> jax.Array:
    """Return an array with a weak type if a leaf has one, as arrays made from Python numbers do.

    JAX converts such an array to the dtype of the other operand, so without it the results of a step get another dtype.
    """
    # Neither arrays of NumPy nor typed keys have the attribute.
    return _weak(array) if getattr(leaf, "weak_type", False) else array


# Compiled, so that the array may span processes, in which case it cannot be combined with one of this process.
@jax.jit
def _weak(array: jax.Array) -> jax.Array:
    weak = jnp.full(array.shape, np.zeros((), array.dtype).item())
    # `at[...].set` keeps the type of the array that it changes. Explicit axes require the sharding.
    return weak.at[...].set(array, out_sharding=jax.typeof(array).sharding) if weak.dtype == array.dtype else array


def _on_key_data(function: Callable[[Any], Any], keys: jax.Array) -> jax.Array:
    """Apply a function to the data of typed keys."""
    return jax.random.wrap_key_data(function(jax.random.key_data(keys)), impl=jax.random.key_impl(keys))


# Cached for the same reason as `_stacked`.
@lru_cache(maxsize=64)
def _copier(targets: tuple[NamedSharding, ...]) -> Any:
    """Return a compiled copy: outputs of a program do not share memory with its inputs."""
    return jax.jit(lambda arrays: [jnp.copy(array) for array in arrays], out_shardings=list(targets))


def auto(sharding: Any) -> Any:
    """Return the sharding with Auto axes, which let XLA choose the sharding of intermediate results."""
    if not isinstance(sharding, NamedSharding) or not _explicit(sharding.mesh):
        return sharding
    return NamedSharding(with_auto_axes(sharding.mesh), sharding.spec)


def on_auto_axes(leaf: Any) -> Any:
    """Return an array with the same buffers on Auto axes."""
    return with_sharding(leaf, auto(leaf.sharding)) if isinstance(leaf, jax.Array) else leaf


def auto_context(sharding: Any) -> AbstractContextManager[Any]:
    """Return a context with Auto axes, which hides a user's context with Explicit axes."""
    mesh: Any = sharding.mesh if isinstance(sharding, NamedSharding) else None
    return jax.set_mesh(mesh) if mesh and _explicit(jax.sharding.get_abstract_mesh()) else nullcontext()


def _explicit(mesh: Any) -> bool:
    return AxisType.Explicit in mesh.axis_types
