"""Python numbers of checkpoints, such as the counter of a step that is not compiled as a whole."""

from collections.abc import Sequence
from typing import Any

import jax

from penstock.train.checkpoint_arrays import LeafPath, path_names
from penstock.train.tree_partition import NUMBERS


def describe_numbers(state: Any) -> list[tuple[LeafPath, str, str]]:
    """Return path, type and value of each Python number, for the metadata of a checkpoint.

    >>> describe_numbers({"count": 3, "phase": 2j, "name": "net"})
    [(('count',), 'int', '3'), (('phase',), 'complex', '2j')]
    """
    # The value is text, because JSON has neither complex numbers nor infinity.
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return [(path_names(path), type(leaf).__name__, str(leaf)) for path, leaf in leaves if type(leaf) in NUMBERS]


def with_numbers(state: Any, saved: Sequence[Any]) -> Any:
    """Return a state with the numbers of a checkpoint in place of its Python numbers.

    >>> with_numbers({"count": 0, "rate": 0.5}, [[["count"], "int", "3"]])
    {'count': 3, 'rate': 0.5}
    """
    kinds = {kind.__name__: kind for kind in NUMBERS} | {"bool": "True".__eq__}
    numbers = {tuple(path): kinds[kind](text) for path, kind, text in saved}

    def replaced(path: Any, leaf: Any) -> Any:
        return numbers.get(path_names(path), leaf) if type(leaf) in NUMBERS else leaf

    return jax.tree_util.tree_map_with_path(replaced, state) if numbers else state
