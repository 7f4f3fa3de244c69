"""The state that stateful operators carry from batch to batch, and the snapshots of it that are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.engine.device.device_program import State, stateful
from penstock.errors import StateError
from penstock.graph.ir.operator import DeviceKernel
from penstock.plan.plan import Plan
from penstock.sources.order.schedule import BatchStep

_KEPT = 2
"""Snapshots: before the batch that was made last, which may wait in an iterator, and after it."""


class OperatorState:
    """Which state belongs to which step. A snapshot is the arrays themselves: nothing overwrites them.

    Args:
        plan: the plan.
        place: puts a state that the host holds on the devices.
    """

    def __init__(self, plan: Plan, place: Callable[[Sequence[Sequence[Any]]], State]) -> None:
        self._nodes = stateful(plan)
        self._place = place
        self._snapshots: dict[BatchStep, State] = {}

    def before(self, step: BatchStep) -> State:
        """The state before the batch of a step.

        Raises:
            StateError: it is not known, because the batches before have not just been made.
        """
        if step not in self._snapshots and not any((step.epoch, step.row, *step.consumed)):
            self.resume(step, None)
        if step not in self._snapshots:
            node = self._nodes[0]
            raise StateError(
                f"{node} carries a state, and its state at this batch comes from all batches before it",
                given=f"epoch {step.epoch}, row {step.row}",
                fix="restore what get_state() or checkpoints() returned there, with its entry 'operators'",
                where=node.where,
            )
        return self._snapshots[step]

    def save_after(self, following: BatchStep, state: State) -> None:
        """Keep the state after a batch, which is the one before `following`."""
        self._snapshots[following] = state
        while len(self._snapshots) > _KEPT:
            del self._snapshots[next(iter(self._snapshots))]

    def resume(self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, anew: bool = False) -> None:
        """Go to a step with the state that was saved there; None is the state before the first batch.

        Args:
            step: where.
            state: what was saved there.
            anew: whether the state before the first batch takes the place of one that is missing or does not fit.

        Raises:
            StateError: the saved state belongs to other operators.
        """
        self._snapshots.clear()
        initial = [node.operator.initial_state for node in self._nodes if isinstance(node.operator, DeviceKernel)]
        if state is None and not anew and any((step.epoch, step.row, *step.consumed)):
            return  # `at` says what is missing, when a batch is asked for
        given = initial if state is None else [[np.asarray(leaf) for leaf in leaves] for leaves in state]
        kinds, expected = (
            [[(leaf.dtype, leaf.shape) for leaf in leaves] for leaves in each] for each in (given, initial)
        )
        if kinds != expected:
            if not anew:
                raise StateError("the saved state belongs to other operators", given=kinds, expected=expected)
            given = initial
        self._snapshots[step] = self._place(given)
