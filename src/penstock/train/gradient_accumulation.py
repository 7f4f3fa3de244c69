"""Gradient accumulation: gradients of a large batch with the memory of a small one."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp

from penstock.errors import UsageError
from penstock.graph import Range, check_annotations
from penstock.train.shared_variables import check_not_shared
from penstock.train.tree_partition import PartitionedTree


@check_annotations
def accumulate_gradients(gradient: Callable[..., Any], accumulate: Annotated[int, Range(1)]) -> Callable[..., Any]:
    """Return a function that computes gradients part by part of a batch, and averages them.

    The result is that of the whole batch, up to rounding, if the loss is a mean over rows. The memory for activations
    is that of one part. The parts take alternate rows, so that each device computes a share of every part and no row
    moves between devices. Gradients of 16 bits are summed in float32.

    Args:
        gradient: Function ``gradient(model, batch, *args, **kwargs)``, such as ``jax.value_and_grad(loss)``,
            ``equinox.filter_value_and_grad(loss)`` or ``nnx.value_and_grad(loss, has_aux=True)``. It returns any tree
            of floating-point arrays: values, gradients, metrics.
        accumulate: Number of parts. It divides the rows of the batch; rows per part are a multiple of the number of
            devices, otherwise XLA moves rows.

    Returns:
        A function with the arguments and results of `gradient`. The running averages and random states of an NNX
        module advance from part to part, as in as many small batches. Other arguments are the same for each part; a
        random key per row can be a leaf of the batch.

    Raises:
        UsageError: At a call, `accumulate` does not divide the rows, a result is not floating-point, or a variable of
            NNX is in the model twice.

    Example:
        >>> import numpy as np
        >>> def loss(weights, batch):
        ...     return jnp.mean((batch["x"] @ weights - batch["y"]) ** 2)
        >>> gradient = jax.value_and_grad(loss)
        >>> batch = {"x": np.eye(4, dtype=np.float32), "y": np.float32([1, 2, 3, 4])}
        >>> weights = np.zeros(4, np.float32)
        >>> [value.tolist() for value in accumulate_gradients(gradient, accumulate=2)(weights, batch)]
        [7.5, [-0.5, -1.0, -1.5, -2.0]]
        >>> [value.tolist() for value in gradient(weights, batch)]
        [7.5, [-0.5, -1.0, -1.5, -2.0]]
    """

    @functools.wraps(gradient)
    def accumulated(model: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        check_not_shared(model)
        batches = jax.tree.map(lambda rows: _parts(rows, accumulate), batch)
        tree = PartitionedTree.partition(model)

        def compute(arrays: tuple[Any, ...], part: Any) -> tuple[tuple[Any, ...], Any, Any]:
            # NNX changes modules in place, so each part works on a copy, whose arrays the next part receives.
            copy = tree.replaced(arrays).combine()
            output = gradient(copy, part, *args, **kwargs)
            return PartitionedTree.partition(copy).arrays, output, copy

        first = jax.tree.map(lambda rows: rows[0], batches)
        outputs = jax.eval_shape(lambda arrays: compute(arrays, first)[1], tree.arrays)
        jax.tree_util.tree_map_with_path(_check_floating, outputs)
        zeros = jax.tree.map(lambda struct: jnp.zeros(struct.shape, _sum_dtype(struct)), outputs)

        def add(carry: tuple[tuple[Any, ...], Any], part: Any) -> tuple[tuple[tuple[Any, ...], Any], None]:
            arrays, output, _ = compute(carry[0], part)
            sums = jax.tree.map(lambda total, value: total + jnp.asarray(value, total.dtype), carry[1], output)
            return (arrays, sums), None

        (arrays, sums), _ = jax.lax.scan(add, (tree.arrays, zeros), batches)
        _update_modules(model, tree.replaced(arrays).combine())
        return jax.tree.map(lambda total, struct: (total / accumulate).astype(struct.dtype), sums, outputs)

    return accumulated


def _parts(rows: Any, count: int) -> Any:
    """Return an array of shape (count, rows / count, ...), whose part number i has the rows i, i + count, ..."""
    if rows.ndim < 1 or len(rows) % count:
        raise UsageError(
            "accumulate must divide the rows of a batch",
            given=f"accumulate={count}, a leaf of shape {rows.shape}",
            fix="a batch size that is a multiple of it",
        )
    # Rows of one device are adjacent, so parts of adjacent rows would be on one device each.
    return jnp.moveaxis(jnp.reshape(rows, (len(rows) // count, count, *rows.shape[1:])), 1, 0)


def _check_floating(path: Any, struct: Any) -> None:
    if not jnp.issubdtype(struct.dtype, jnp.inexact):
        raise UsageError(
            "results of parts are averaged, so they are floating-point",
            given=f"{struct.dtype} at {jax.tree_util.keystr(path) or 'the result'}",
            fix="a mean in place of a sum or count, for example (predictions == labels).mean()",
        )


def _sum_dtype(struct: Any) -> Any:
    """Return the dtype to sum in: a bfloat16 sum stops growing at 256 times its summands."""
    return jnp.float32 if jnp.finfo(struct.dtype).bits < 32 else struct.dtype


def _update_modules(model: Any, computed: Any) -> None:
    """Give the modules of NNX in a model the state that they have after the last part."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is None:  # so the model cannot contain modules
        return

    def is_module(leaf: Any) -> bool:
        return isinstance(leaf, nnx.Module)

    pairs = zip(jax.tree.leaves(model, is_leaf=is_module), jax.tree.leaves(computed, is_leaf=is_module), strict=True)
    for module, after in pairs:
        if is_module(module):
            nnx.update(module, nnx.state(after))
