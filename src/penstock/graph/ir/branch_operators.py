"""The operators behind conditions: which rows take a branch, and what each row has after the branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.spec import Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator


@dataclass(frozen=True)
class BranchMask(Operator, BatchKernel):
    """Which rows take a branch.

    Args:
        wanted: the truth of the condition for which they do.
    """

    wanted: bool

    def infer(self, condition: Spec, *outer: Spec) -> Spec:
        """One truth value."""
        return Spec(np.dtype(np.bool_), ())

    def batch(self, context: BatchContext, condition: Any, *outer: Any) -> Any:
        """Whether the condition is as wanted, in rows that take the outer branch, too."""
        true = condition if condition.dtype.kind == "b" else condition != context.xp.zeros((), condition.dtype)
        taken = true if self.wanted else ~true
        return taken & outer[0] if outer else taken


@dataclass(frozen=True)
class BranchSelect(Operator, BatchKernel):
    """Per row one of several values: of the first branch that it takes, or the last.

    On the host it is computed from branches that hold their own rows only (`penstock.engine.host.stages.branch_stage`).

    Args:
        branches: how many guards there are. The inputs are the guards, then one value more than there are guards.
    """

    branches: int

    def infer(self, *inputs: Spec) -> Spec:
        """What all values have in common; an extent in which they differ is open.

        Raises:
            DefinitionError: they differ in dtype, layout or number of axes.
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
                        fix="make them alike in each branch, as by fn.cast or fn.reshape",
                    )
        extents = zip(*[value.shape for value in values], strict=True)
        shape = tuple(each[0] if len(set(each)) == 1 else None for each in extents)
        limits = [value.storage_shape for value in values]
        most = [None if None in each else max(each) for each in zip(*[b for b in limits if b], strict=True)]
        bounds = bounds_or_none(most) if None in shape and None not in limits else ()
        return Spec(first.dtype, shape, first.layout, bounds=bounds)

    def batch(self, context: BatchContext, *inputs: Any) -> Any:
        """The choice, where every value has an entry for each row."""
        guards, values = inputs[: self.branches], inputs[self.branches :]
        result = values[-1]
        for guard, value in zip(reversed(guards), reversed(values[:-1]), strict=True):
            result = context.xp.where(guard.reshape(-1, *(1,) * (value.ndim - 1)), value, result)
        return result
