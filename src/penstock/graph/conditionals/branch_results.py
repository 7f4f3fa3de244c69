"""What the branches of a condition leave becomes one thing: nodes row by row, containers entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from penstock.core.call_site import user_call_site
from penstock.errors import DefinitionError, PenstockError, short_repr
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import NodeHandle
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import wrap_operator
from penstock.graph.tracing.trace import DataNode
from penstock.types import Constant


def merge_branches(guards: Sequence[NodeHandle], values: Sequence[Any], what: str) -> Any:
    """One value for the rows of all branches.

    What is the same in all branches stays what it is. Nodes and numbers become a node; tuples, lists and dictionaries
    of the same form are joined entry by entry.

    Args:
        guards: of all branches but the last.
        values: what each branch leaves.
        what: the name of the values, for messages.

    Raises:
        DefinitionError: they are of kinds that cannot be joined, or nodes that differ in dtype, layout or rank.
    """
    first = values[0]
    if all(value is first for value in values):
        return first
    if all(map(_is_leaf, values)):
        if not any(isinstance(value, DataNode) for value in values) and _equal(values):
            return first
        try:
            return select(guards, values)
        except PenstockError as error:
            raise DefinitionError(
                f"the branches of a condition do not agree on {what}: {error.args[0]}", where=user_call_site()
            ) from error
    form = _form(first)
    if form is not None and all(_form(value) == form for value in values):
        if isinstance(first, Mapping):
            given = cast(Sequence[Mapping[Any, Any]], values)
            return {
                name: merge_branches(guards, [each[name] for each in given], f"{what}[{name!r}]") for name in given[0]
            }
        entries = [
            merge_branches(guards, entry, f"{what}[{number}]") for number, entry in enumerate(zip(*values, strict=True))
        ]
        if hasattr(first, "_fields"):  # a named tuple
            return type(first)(*entries)
        return type(first)(entries)
    if _equal(values):
        return first
    raise DefinitionError(
        f"the branches of a condition do not agree on {what}",
        given=" and ".join(map(short_repr, values)),
        expected="nodes and numbers, or tuples, lists and dictionaries of the same form in each branch",
        where=user_call_site(),
    )


def select(guards: Sequence[NodeHandle], values: Sequence[Any]) -> DataNode:
    """A node with, per row, the value of the first branch that the row takes; the last value where it takes none.

    Args:
        guards: of all branches but the last.
        values: nodes, or numbers that become constants.

    Raises:
        DefinitionError: the values differ in dtype, layout or number of axes.
    """
    return _select(*guards, *values)


def _make_select(*inputs: Any) -> DataNode:
    return apply(BranchSelect(len(inputs) // 2), *inputs)


_select: Callable[..., DataNode] = wrap_operator("conditional.select", _make_select)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, DataNode | Constant | bool | int | float | np.ndarray | np.generic)


def _form(value: Any) -> Any:
    """What containers that are joined have in common; None for other values."""
    if isinstance(value, Mapping):
        return dict, frozenset(cast(Mapping[Any, Any], value))
    if _is_sequence(value):
        return type(value), len(value)
    return None


def _is_sequence(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, tuple | list)


def _equal(values: Sequence[Any]) -> bool:
    first = values[0]
    try:
        return all(type(value) is type(first) and bool(np.all(value == first)) for value in values[1:])
    except (ValueError, TypeError):
        return False
