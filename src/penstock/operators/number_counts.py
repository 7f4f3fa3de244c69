"""How many numbers an argument has: one for all axes or channels, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode


def number_count(value: Any) -> int | None:
    """Return the number of numbers in a constant, or in each sample of a node or a spec; None if it is unknown."""
    spec = value.spec if isinstance(value, DataNode) else value
    return (*spec.shape, 1)[0] if isinstance(spec, Spec) else int(np.size(spec))


def check_number_count(name: str, value: Any, count: int, item: str = "axis") -> None:
    """Check that an argument has one number, or one per item.

    Args:
        name: Name of the argument.
        value: A number, a list of numbers, a node or its spec.
        count: Number of items.
        item: The items in words, for messages.

    Raises:
        DefinitionError: It has another number of numbers.
    """
    own = number_count(value)
    if own not in (None, 1, count):
        raise DefinitionError(
            f"{name} needs one number, or one per {item}", given=f"{own} numbers", expected=f"1 or {count}"
        )


def as_floats(numbers: Any) -> tuple[float, ...]:
    """Return one or more numbers as a tuple, which is hashable, for fields of operators."""
    return tuple(np.atleast_1d(np.asarray(numbers, np.float64)).tolist())
