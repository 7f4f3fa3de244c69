"""Selection of a function per sample."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.graph import DataNode, current_trace
from penstock.graph.conditionals.branch_results import merge_branches
from penstock.graph.conditionals.control_flow import branch_mask, trace_branch


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode, *args: Any, **kwargs: Any) -> Any:
    """Call one of several functions for each sample.

    Each function is traced once and computes only the samples that selected it.

    Args:
        ops: Functions of nodes.
        selected_op_idx: Node with the index of a function per sample. An index past the end selects the last one.
        args: Positional arguments of the functions.
        kwargs: Keyword arguments of the functions.

    Returns:
        The outputs of the functions, which must agree in dtype, layout and number of axes.

    Raises:
        DefinitionError: The outputs do not agree.

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
    # Guards include the condition of an enclosing branch: a sample outside it computes none of the functions.
    guards = [branch_mask(condition, outer, wanted=True) for condition in chosen]
    values = [trace_branch(guard, partial(op, *args, **kwargs)) for op, guard in zip(ops, guards, strict=True)]
    return merge_branches(guards[:-1], values, "the augmentation")
