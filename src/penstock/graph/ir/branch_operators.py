"""Operators behind `if`: masks of the rows that take a branch, and selection of each row's value afterwards."""

from typing import Any

import numpy as np

from penstock.core import Spec, bounds_or_none
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator


@dataclass(frozen=True)
class BranchMask(Operator, BatchKernel):
    """Mask of the rows that take a branch.

    Args:
        wanted: Truth of the condition for which they take it.
    """

    wanted: bool

    def infer(self, condition: Spec, *outer: Spec) -> Spec:
        """Return the spec of a boolean."""
        return Spec(np.dtype(np.bool_), ())

    def batch(self, context: BatchContext, condition: Any, *outer: Any) -> Any:
        """Return True for rows whose condition is as wanted and that take the outer branch as well."""
        true = condition if condition.dtype.kind == "b" else condition != context.xp.zeros((), condition.dtype)
        taken = true if self.wanted else ~true
        return taken & outer[0] if outer else taken


@dataclass(frozen=True)
class BranchSelect(Operator, BatchKernel):
    """Selection of a value per row: that of the first branch that the row takes, otherwise the last.

    On the host it is computed from branches that hold their own rows only (`penstock.engine.host.stages.branch_stage`).

    Args:
        branches: Number of guards. The inputs are the guards, then one value more than guards.
    """

    branches: int

    def infer(self, *inputs: Spec) -> Spec:
        """Return the spec that all values share; extents in which they differ are unknown.

        Raises:
            DefinitionError: The values differ in dtype, layout or number of axes.
        """
        values = inputs[self.branches :]
        first = values[0]
        for other in values[1:]:
            kinds = [
                ("dtype", first.dtype, other.dtype),
                ("number of axes", len(first.shape), len(other.shape)),
                ("layout", first.layout, other.layout),
            ]
            for what, one, another in kinds:
                if one != another:
                    raise DefinitionError(
                        f"the branches of a condition give values that differ in {what}",
                        given=f"{first} and {other}",
                        fix="convert them in each branch, for example with fn.cast or fn.reshape",
                    )
        # Rows of both branches share a batch, so an extent in which the branches differ makes it ragged.
        extents = zip(*[value.shape for value in values], strict=True)
        shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in extents)
        limits = [value.storage_shape for value in values]
        most = [None if None in sizes else max(sizes) for sizes in zip(*[b for b in limits if b], strict=True)]
        bounds = bounds_or_none(most) if None in shape and None not in limits else ()
        return Spec(first.dtype, shape, first.layout, bounds=bounds)

    def batch(self, context: BatchContext, *inputs: Any) -> Any:
        """Return the selected values. Every value has an entry for each row."""
        guards, values = inputs[: self.branches], inputs[self.branches :]
        result = values[-1]
        # Backward, so that the first branch that a row takes is written last and wins.
        for guard, value in zip(reversed(guards), reversed(values[:-1]), strict=True):
            result = context.xp.where(guard.reshape(-1, *(1,) * (value.ndim - 1)), value, result)
        return result
