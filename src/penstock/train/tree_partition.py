"""Partition of trees into arrays, which JAX traces, and static leaves.

Equinox models contain functions, Flax's `TrainState` an optimizer. `PartitionedTree` separates the arrays, which go
through `jax.jit`, from the other leaves, which become part of the key of the compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from penstock.errors import UsageError

NUMBERS = (bool, int, float, complex)


def is_array(leaf: Any) -> bool:
    """Return True for an array of JAX or NumPy, False for Python numbers, functions and other leaves.

    >>> is_array(np.zeros(2)), is_array(2.0)
    (True, False)
    """
    return isinstance(leaf, jax.Array | np.ndarray | np.generic)


def map_arrays(function: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Return the tree with `function` applied to its arrays; other leaves stay unchanged.

    >>> map_arrays(lambda array: array + 1, {"a": np.float32(1), "name": "b"})
    {'a': np.float32(2.0), 'name': 'b'}
    """
    return jax.tree.map(lambda leaf, *more: function(leaf, *more) if is_array(leaf) else leaf, tree, *rest)


@contextmanager
def static_fields_compared() -> Generator[None]:
    """Explain the error of JAX for an array in a static field, which it can only compare with itself.

    Raises:
        UsageError: A tree has an array in a static field, and is compared with one that has another array there.
    """
    try:
        yield
    except ValueError as error:
        if "metadata fields of pytree" not in str(error):
            raise
        raise UsageError(
            "a static field of the state contains an array, and JAX cannot compare arrays to find the compiled program",
            expected="numbers, strings, tuples or functions",
            fix="make it a leaf (no static=True or pytree_node=False; a child in tree_flatten), or a tuple",
        ) from error


@jax.tree_util.register_pytree_node_class
class PartitionedTree:
    """Tree split into arrays, which JAX traces, and the rest, which JAX compares.

    Args:
        arrays: Array leaves, in order.
        structure: Structure of the whole tree.
        rest: Pair per leaf of the whole tree: (False, None) for an array, otherwise (True, leaf).
    """

    def __init__(self, arrays: Sequence[Any], structure: Any, rest: tuple[tuple[bool, Any], ...]) -> None:
        self.arrays, self.structure, self.rest = tuple(arrays), structure, rest

    @classmethod
    def partition(cls, tree: Any) -> PartitionedTree:
        """Split a tree.

        Raises:
            UsageError: A static leaf is not hashable.
        """
        leaves, structure = jax.tree.flatten(tree)
        rest = tuple([(False, None) if is_array(leaf) else (True, leaf) for leaf in leaves])
        # JAX hashes and compares this key at each call to find the compiled program.
        try:
            hash((structure, rest))
        except TypeError as error:
            raise UsageError(
                "non-array leaves of the state become a part of the compiled program, so they must be hashable",
                given=str(error),
                fix="make it an array, a number, a string, a tuple or a function",
            ) from None
        return cls([leaf for leaf in leaves if is_array(leaf)], structure, rest)

    def combine(self) -> Any:
        """Return the whole tree."""
        arrays = iter(self.arrays)
        return jax.tree.unflatten(self.structure, [leaf if fixed else next(arrays) for fixed, leaf in self.rest])

    @property
    def key(self) -> Any:
        """Key of the compiled program: the structure and the static leaves."""
        return self.structure, self.rest

    def replaced(self, arrays: Sequence[Any]) -> PartitionedTree:
        """Return a copy with other values in place of the arrays."""
        return PartitionedTree(arrays, self.structure, self.rest)

    def has_shardings(self, wanted: Sequence[Any]) -> bool:
        """Return True if the arrays have these shardings."""
        pairs = zip(self.arrays, wanted, strict=True)
        return all(isinstance(array, jax.Array) and array.sharding == sharding for array, sharding in pairs)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Return the arrays and the key, for JAX."""
        return self.arrays, self.key

    @classmethod
    def tree_unflatten(cls, aux: Any, arrays: Sequence[Any]) -> PartitionedTree:
        """Return the tree for a key and arrays, for JAX. The inverse of `tree_flatten`."""
        return cls(arrays, *aux)


def returned(structure: Any, output: Any) -> tuple[Any, Any]:
    """Return the state and the metrics of a step's output. The metrics are None if the step returns only the state.

    Args:
        structure: Tree structure of the state that the step received.
        output: Output of the step.

    Raises:
        UsageError: The output is neither the state nor ``(state, metrics)``; a static field of it contains an array.

    >>> returned(jax.tree.structure({"w": 0}), ({"w": 1}, {"loss": 2.0}))
    ({'w': 1}, {'loss': 2.0})
    >>> returned(jax.tree.structure({"w": 0}), {"w": 1})
    ({'w': 1}, None)
    """
    with static_fields_compared():
        # First, because a state may itself be a pair.
        if jax.tree.structure(output) == structure:
            return output, None
        if isinstance(output, tuple) and len(output) == 2 and jax.tree.structure(output[0]) == structure:
            return output
    raise UsageError(
        "a step returns the new state, or a pair of the new state and metrics; the state keeps its structure",
        given=jax.tree.structure(output),
        expected=f"{structure}, or a pair with it first",
    )
