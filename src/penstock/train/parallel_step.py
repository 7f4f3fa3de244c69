"""Data-parallel compilation of a step that was written for one device."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from penstock.core import with_call_site
from penstock.errors import UsageError
from penstock.graph import check_annotations
from penstock.train.replication import (
    auto,
    auto_context,
    batch_sharding,
    is_sharding,
    on_auto_axes,
    put_on_devices,
    replicated_sharding,
    with_weak_type_of,
)
from penstock.train.shared_variables import check_not_shared
from penstock.train.tree_partition import NUMBERS, PartitionedTree, is_array, returned, static_fields_compared

Step = Callable[[Any, Any], Any]


@check_annotations
def data_parallel(
    step: Step,
    sharding: NamedSharding | None = None,
    *,
    state_sharding: Any = None,
    axis_name: str | tuple[str, ...] | None = None,
    donate: bool = True,
) -> Step:
    """Compile a step for all devices: each one computes its rows of the batch, and all hold the new state.

    The step is a function ``step(state, batch) -> state`` or ``(state, metrics)``, written for one device. Means over
    the batch are means over the global batch, so gradients equal those of one device, up to rounding. It is compiled by
    `jax.jit` with shardings for its inputs and outputs; the state is placed at the first call:

    * A state that is not on the devices is copied to them; your copy stays valid. A state that is (an output of the
      step or of `replicate`) is donated: its memory is reused for the new state, and it can no longer be read.
    * Static leaves (the functions of an Equinox model) are not inputs of the program. Python numbers that the step
      changes, such as Flax's `TrainState.step`, become arrays; otherwise each step would compile another program.
    * The step is compiled once. A step that changes a dtype or shape of its state is refused.

    Args:
        step: Function of a state (any pytree) and a batch (any pytree of arrays with a leading axis of rows).
        sharding: Sharding of batches, which splits their first axis; by default `batch_sharding()`, over all devices.
            NumPy batches are placed accordingly; a batch with another sharding is refused. If the mesh has Explicit
            axes, as from `jax.make_mesh`, the step and the state use the same devices with Auto axes.
        state_sharding: Sharding of the state; by default a whole copy on each device of `sharding`. For a sharded
            model, a tree of shardings with the structure of the state or a prefix of it.
        axis_name: Name of the mesh axis that splits the batch, or the names if there are several, for a step with its
            own collectives, as for `jax.pmap` (`jax.lax.pmean(gradients, axis_name)`). The step must also combine its
            metrics. It runs under `jax.shard_map` with `check_vma=False`, because autodiff would otherwise sum the
            gradients over the devices first.
        donate: True reuses the memory of the old state.

    Returns:
        A function of a state and a batch with the outputs of `step`. Do not wrap it in another `jax.jit`.

    Raises:
        UsageError: At a call, the new state differs from the old one in structure, shape or dtype, the devices do not
            divide the batch, or a variable of NNX is in the state twice.

    Example:
        >>> import jax.numpy as jnp
        >>> def loss(weights, batch):
        ...     return jnp.mean((batch["x"] @ weights - batch["y"]) ** 2)
        >>> @data_parallel
        ... def step(weights, batch):
        ...     value, gradient = jax.value_and_grad(loss)(weights, batch)
        ...     return weights - 0.1 * gradient, value
        >>> weights = np.zeros(2, np.float32)
        >>> batch = {"x": np.ones((16, 2), np.float32), "y": np.ones(16, np.float32)}
        >>> weights, value = step(weights, batch)
        >>> weights.tolist(), float(value), len(weights.devices())
        ([0.20000000298023224, 0.20000000298023224], 1.0, 8)
    """
    rows = auto(batch_sharding() if sharding is None else sharding)
    whole = replicated_sharding(rows.mesh)
    state_sharding = whole if state_sharding is None else jax.tree.map(auto, state_sharding, is_leaf=is_sharding)
    inner = step if axis_name is None else _per_device(step, rows, axis_name)
    programs: dict[Any, Callable[..., Any]] = {}

    @with_call_site
    @functools.wraps(step)
    def parallel(state: Any, batch: Any) -> Any:
        batch = jax.tree.map(on_auto_axes, batch)  # the state is placed at the first call
        with static_fields_compared(), auto_context(rows):
            return advanced(state, batch)

    def advanced(state: Any, batch: Any) -> Any:
        _check_rows(batch, rows)
        parts = PartitionedTree.partition(state)
        # A known key means that the counters are arrays already: the state is an output of the step.
        if parts.key not in programs:
            check_not_shared(state)
            parts = PartitionedTree.partition(_with_counters(inner, state, batch))
        wanted = _shardings(parts, state_sharding)
        if not parts.has_shardings(wanted):
            parts = parts.replaced(put_on_devices(list(parts.arrays), list(wanted), fresh=donate))
        program = programs.get(parts.key)
        if program is None:
            program = programs[parts.key] = jax.jit(
                _program(inner),
                in_shardings=(parts.replaced(wanted), rows),
                out_shardings=(parts.replaced(wanted), whole),
                donate_argnums=(0,) if donate else (),
            )
        try:
            new, metrics = program(parts, batch)
        # JAX refuses a batch with another sharding. Explain that error in the user's terms.
        except ValueError as error:
            _check_placement(batch, rows, error)
            raise
        return new.combine() if metrics is None else (new.combine(), metrics.combine())

    return parallel


def _program(step: Step) -> Callable[[PartitionedTree, Any], tuple[PartitionedTree, PartitionedTree | None]]:
    """Return the step as a function of partitioned trees."""

    @functools.wraps(step)
    def program(parts: PartitionedTree, batch: Any) -> tuple[PartitionedTree, PartitionedTree | None]:
        state = parts.combine()
        new, metrics = returned(jax.tree.structure(state), step(state, batch))
        return _like(state, new), None if metrics is None else PartitionedTree.partition(metrics)

    return program


def _per_device(step: Step, rows: NamedSharding, axis_name: str | tuple[str, ...]) -> Step:
    """Return a step with its own collectives as a step over global arrays."""
    names, split = ({part} if isinstance(part, str) else set(part or ()) for part in (axis_name, rows.spec[0]))
    # Over fewer axes, the devices would go on with different states; over others, sums would count rows several times.
    if names != split:
        raise UsageError(
            "axis_name is not the axis of the mesh that splits the batch",
            given=axis_name,
            expected=rows.spec[0],
            fix="all axes that split the batch, as a tuple if there are several",
        )

    @functools.wraps(step)
    def combined(state: Any, batch: Any) -> Any:
        parts, fixed = PartitionedTree.partition(state), []

        def alone(arrays: tuple[Any, ...], batch: Any) -> Any:
            # `shard_map` returns arrays only; the static leaves leave the trace through `fixed`.
            output = PartitionedTree.partition(step(parts.replaced(arrays).combine(), batch))
            fixed.append(output)
            return output.arrays

        # with check_vma, autodiff would sum the gradients of replicated parameters before the step averages them
        whole = PartitionSpec()
        mapped = jax.shard_map(alone, mesh=rows.mesh, in_specs=(whole, rows.spec), out_specs=whole, check_vma=False)
        arrays = mapped(parts.arrays, batch)
        return fixed[-1].replaced(arrays).combine()

    return combined


def _shardings(parts: PartitionedTree, requested: Any) -> tuple[NamedSharding, ...]:
    """Return the sharding of each array of a state."""
    if isinstance(requested, NamedSharding):
        return (requested,) * len(parts.arrays)
    spread = jax.tree.broadcast(requested, parts.combine(), is_leaf=is_sharding)
    pairs = zip(jax.tree.leaves(spread, is_leaf=is_sharding), parts.rest, strict=True)
    return tuple([sharding for sharding, (fixed, _) in pairs if not fixed])


def _check_rows(batch: Any, rows: NamedSharding) -> None:
    for leaf in jax.tree.leaves(batch):
        shape = np.shape(leaf)
        try:
            rows.shard_shape(shape)
        except (ValueError, IndexError):
            raise UsageError(
                "the devices cannot share the rows of the batch evenly",
                given=f"an array of shape {shape}",
                expected=f"a first axis for {rows.spec} on {dict(rows.mesh.shape)}",
                fix="another batch size; for the last batch of an epoch, LastBatchPolicy.DROP or PAD",
            ) from None


def _check_placement(batch: Any, rows: NamedSharding, error: ValueError) -> None:
    """Raise an error if a batch has another sharding than the step."""
    for leaf in jax.tree.leaves(batch):
        if isinstance(leaf, jax.Array) and not leaf.sharding.is_equivalent_to(rows, leaf.ndim):
            raise UsageError(
                "the batch has another sharding than the step",
                given=leaf.sharding,
                expected=rows,
                fix="data_parallel(step, sharding=...), with the sharding of the iterator",
            ) from error


def _with_counters(step: Step, state: Any, batch: Any) -> Any:
    """Return the state with the Python numbers that the step changes as arrays. Traces the step to find them."""
    leaves, structure = jax.tree.flatten(state)
    numbers = [number for number, leaf in enumerate(leaves) if isinstance(leaf, NUMBERS)]
    if not numbers:
        return state

    def outputs(parts: PartitionedTree, batch: Any) -> PartitionedTree:
        return PartitionedTree.partition(returned(structure, step(parts.combine(), batch))[0])

    after = jax.tree.leaves(jax.eval_shape(outputs, PartitionedTree.partition(state), batch).combine())
    for number in numbers:
        if type(after[number]) is not type(leaves[number]) or after[number] != leaves[number]:
            values = np.asarray(leaves[number])
            leaves[number] = values.astype(jax.dtypes.canonicalize_dtype(values.dtype))
    return jax.tree.unflatten(structure, leaves)


def _like(state: Any, new: Any) -> PartitionedTree:
    """Return the new state, checked against the old one: a difference would compile the next step again."""
    paths = jax.tree_util.tree_leaves_with_path(state)
    leaves, structure = jax.tree.flatten(new)
    for number, ((path, old), leaf) in enumerate(zip(paths, leaves, strict=True)):
        # Static leaves are part of the key of the compiled program.
        if not is_array(old):
            if old is not leaf and old != leaf:
                raise _changed(path, repr(old), repr(leaf))
            continue
        array = jnp.asarray(leaf)
        if array.weak_type:  # a weak type is part of JAX's cache key, so it stays that of the old array
            array = jax.lax.convert_element_type(array, array.dtype)
        if (array.shape, array.dtype) != (old.shape, old.dtype):
            raise _changed(path, f"{old.dtype}{list(old.shape)}", f"{array.dtype}{list(array.shape)}")
        leaves[number] = with_weak_type_of(old, array)
    return PartitionedTree.partition(jax.tree.unflatten(structure, leaves))


def _changed(path: Any, old: str, new: str) -> UsageError:
    return UsageError(
        "the step returns a state of another kind, so that it would be compiled again for the next batch",
        given=f"{new} at {jax.tree_util.keystr(path) or 'the state'}",
        expected=f"{old}, as before the step",
        fix="convert it, for example with .astype",
    )
