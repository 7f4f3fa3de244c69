"""Selection of a function per sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.graph.conditionals.branch_results import merge_branches
from penstock.graph.conditionals.control_flow import branch_mask, under_guard
from penstock.graph.tracing.trace import DataNode, current_trace


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode, *args: Any, **kwargs: Any) -> Any:
    """Call for each sample one of several functions.

    Each function is traced once, and computes the samples that chose it and no others.

    Args:
        ops: the functions.
        selected_op_idx: a node with the number of a function for each sample. One that does not exist counts as the
            last.
        args: what the functions get.
        kwargs: likewise.

    Returns:
        What the functions give, which must agree in dtype, layout and number of axes.

    Raises:
        DefinitionError: they do not agree.

    Example:
        >>> from penstock import Pipeline, fn
        >>> with Pipeline(batch_size=3) as pipeline:
        ...     numbers = fn.readers.arrays([0, 1, 2])
        ...     pipeline.set_outputs(select([lambda x: x * 10, lambda x: -x], numbers, numbers))
        >>> pipeline.run()[0].as_array().tolist()
        [0, -1, -2]
    """
    if len(ops) == 1:
        return ops[0](*args, **kwargs)
    outer, last = current_trace().branch, len(ops) - 1
    chosen = [selected_op_idx == number for number in range(last)] + [selected_op_idx >= last]
    guards = [branch_mask(condition, outer, wanted=True) for condition in chosen]
    values: list[Any] = []
    for op, guard in zip(ops, guards, strict=True):
        with under_guard(guard):
            values.append(op(*args, **kwargs))
    return merge_branches(guards[:-1], values, "the augmentation")
