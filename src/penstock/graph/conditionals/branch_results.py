"""Joining the results of branches: nodes row by row, containers entry by entry."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from penstock.core import Array, user_call_site
from penstock.core.constant import snapshot
from penstock.errors import DefinitionError, PenstockError, short_repr
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import NodeHandle
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import OperatorFunction
from penstock.graph.tracing.trace import DataNode
from penstock.types import Constant


def merge_branches(guards: Sequence[NodeHandle], values: Sequence[Any], what: str) -> Any:
    """Return one value for the rows of all branches.

    A value that is the same in all branches is kept. Nodes and numbers become a node; tuples, lists and dictionaries of
    the same form are joined entry by entry.

    Args:
        guards: Guards of all branches but the last.
        values: Value of each branch.
        what: Name of the values in messages.

    Raises:
        DefinitionError: The values are of kinds that cannot be joined, or nodes that differ in dtype, layout or rank.
    """
    first = values[0]
    # Also keeps objects that cannot be compared, such as functions and modules.
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
            names = cast(Mapping[Any, Any], first)
            return {
                name: merge_branches(guards, [value[name] for value in values], f"{what}[{name!r}]") for name in names
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


def detach_changes(original: Any, content: Any, value: Any) -> Any:
    """Return the value that a name has after a branch, as a copy if the branch changed an array or list in place.

    The array or list gets back its content before the branch, because the other branch begins with that.

    Args:
        original: Value of the name before the branch.
        content: `snapshot` of it.
        value: Value of the name after the branch.
    """
    if value is not original or not isinstance(original, list | np.ndarray) or _unchanged(content, value):
        return value
    changed, entries = snapshot(value), ... if isinstance(value, np.ndarray) else slice(None)
    value[entries] = snapshot(content)
    return changed


def _unchanged(content: Any, value: Any) -> bool:
    if isinstance(content, np.ndarray):
        array = cast(Array, content)
        return value.shape == array.shape and value.tobytes() == array.tobytes()
    if isinstance(content, list | tuple) and type(value) is type(cast(Any, content)):
        before, after = cast(Sequence[Any], content), cast(Sequence[Any], value)
        return len(before) == len(after) and all(map(_unchanged, before, after))
    return value is content


def select(guards: Sequence[NodeHandle], values: Sequence[Any]) -> DataNode:
    """Return a node with the value of the first branch that each row takes, or the last value if it takes none.

    Args:
        guards: Guards of all branches but the last.
        values: Nodes, or numbers that become constants.

    Raises:
        DefinitionError: The values differ in dtype, layout or number of axes.
    """
    return select_rows(*guards, *values)


def _make_select(*inputs: Any) -> DataNode:
    return apply(BranchSelect(len(inputs) // 2), *inputs)


select_rows: OperatorFunction[..., DataNode] = OperatorFunction("conditional.select", _make_select)


def _is_leaf(value: Any) -> bool:
    return isinstance(value, DataNode | Constant | bool | int | float | np.ndarray | np.generic)


def _form(value: Any) -> Any:
    """Return the type and keys or length of a container, which must agree; None for other values."""
    if isinstance(value, Mapping):
        return dict, frozenset(cast(Mapping[Any, Any], value))
    if isinstance(value, tuple | list):
        sequence = cast(Sequence[Any], value)
        return type(sequence), len(sequence)
    return None


def _equal(values: Sequence[Any]) -> bool:
    first = values[0]
    try:
        return all(type(value) is type(first) and bool(np.all(value == first)) for value in values[1:])
    # Arrays of shapes that do not broadcast, or objects that refuse the comparison, are not equal.
    except (ValueError, TypeError):
        return False
