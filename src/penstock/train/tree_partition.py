"""Trees that hold other things than arrays: what is traced, and what stays as it is.

Equinox models carry functions, Flax's `TrainState` an optimizer. `PartitionedTree` takes a tree apart, so that its
arrays can go through `jax.jit` and the rest become a part of the program's key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from penstock.errors import UsageError

NUMBERS = (bool, int, float, complex)


def is_array(leaf: Any) -> bool:
    """Whether a leaf is data: an array of JAX or NumPy. Python's numbers, functions and the like are not.

    >>> is_array(np.zeros(2)), is_array(2.0)
    (True, False)
    """
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def map_arrays(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with `function` applied to its arrays; other leaves are left alone.

    >>> map_arrays(lambda array: array + 1, {"a": np.float32(1), "name": "b"})
    {'a': np.float32(2.0), 'name': 'b'}
    """
    return jax.tree.map(lambda leaf, *more: function(leaf, *more) if is_array(leaf) else leaf, tree, *rest)


@jax.tree_util.register_pytree_node_class
class PartitionedTree:
    """A tree, taken apart into arrays, which JAX sees, and the rest, which JAX compares.

    Args:
        arrays: the leaves that are arrays, in order.
        structure: the structure of the whole tree.
        rest: per leaf of the whole tree a pair: False and nothing for an array, else True and the leaf.
    """

    def __init__(self, arrays: Sequence[Any], structure: Any, rest: tuple[tuple[bool, Any], ...]) -> None:
        self.arrays, self.structure, self.rest = tuple(arrays), structure, rest

    @classmethod
    def partition(cls, tree: Any) -> PartitionedTree:
        """Take a tree apart.

        Raises:
            UsageError: a leaf that is no array cannot be compared.
        """
        leaves, structure = jax.tree.flatten(tree)
        rest = tuple([(False, None) if is_array(leaf) else (True, leaf) for leaf in leaves])
        try:
            hash((structure, rest))
        except TypeError as error:
            raise UsageError(
                "what is no array in the state becomes a part of the compiled program, so it must be hashable",
                given=str(error),
                fix="make it an array, a number, a string, a tuple or a function",
            ) from None
        return cls([leaf for leaf in leaves if is_array(leaf)], structure, rest)

    def combine(self) -> Any:
        """The tree, put together again."""
        arrays = iter(self.arrays)
        return jax.tree.unflatten(self.structure, [leaf if fixed else next(arrays) for fixed, leaf in self.rest])

    @property
    def key(self) -> Any:
        """What is compared: the structure, and the leaves that are no arrays."""
        return self.structure, self.rest

    def replaced(self, arrays: Sequence[Any]) -> PartitionedTree:
        """The same with something else for each array."""
        return PartitionedTree(arrays, self.structure, self.rest)

    def has_shardings(self, wanted: Sequence[Any]) -> bool:
        """Whether the arrays have these shardings."""
        pairs = zip(self.arrays, wanted, strict=True)
        return all(isinstance(array, jax.Array) and array.sharding == sharding for array, sharding in pairs)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """For JAX: arrays, and what is compared."""
        return self.arrays, self.key

    @classmethod
    def tree_unflatten(cls, aux: Any, arrays: Sequence[Any]) -> PartitionedTree:
        """For JAX: the inverse."""
        return cls(arrays, *aux)


def returned(structure: Any, output: Any) -> tuple[Any, Any]:
    """State and metrics that a step returned: ``(state, metrics)``, or the state alone; then the metrics are None.

    Args:
        structure: of the state that went in.
        output: what came out.

    Raises:
        UsageError: it is neither.

    >>> returned(jax.tree.structure({"w": 0}), ({"w": 1}, {"loss": 2.0}))
    ({'w': 1}, {'loss': 2.0})
    >>> returned(jax.tree.structure({"w": 0}), {"w": 1})
    ({'w': 1}, None)
    """
    if jax.tree.structure(output) == structure:
        return output, None
    if isinstance(output, tuple) and len(output) == 2 and jax.tree.structure(output[0]) == structure:
        return output
    raise UsageError(
        "a step returns the new state, or a pair of the new state and metrics; the state keeps its structure",
        given=jax.tree.structure(output),
        expected=f"{structure}, or a pair with it first",
    )
