"""State of stateful operators: snapshots of the last steps."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.engine.device.device_program import State, stateful
from penstock.errors import StateError
from penstock.graph import DeviceKernel
from penstock.plan.plan import Plan
from penstock.sources.order.schedule import BatchStep

# Snapshots to keep: before the batch computed last, which may wait in an iterator's `peek`, and after it.
_MAX_SNAPSHOTS = 2


class OperatorState:
    """States of stateful operators by step. Snapshots are the arrays themselves, since no program donates them.

    Args:
        plan: The plan.
        place: Puts a state that the host holds on the devices.
    """

    def __init__(self, plan: Plan, place: Callable[[Sequence[Sequence[Any]]], State]) -> None:
        self._nodes = stateful(plan)
        self._place = place
        self._snapshots: dict[BatchStep, State] = {}

    def before(self, step: BatchStep) -> State:
        """Return the state before the batch of a step.

        Raises:
            StateError: The state is unknown, because the preceding batch was not the last one computed.
        """
        if step not in self._snapshots and not any((step.epoch, step.row, *step.consumed)):
            self.resume(step, None)
        if step not in self._snapshots:
            node = self._nodes[0]
            raise StateError(
                f"{node} is stateful, and its state at this batch depends on all batches before it",
                given=f"epoch {step.epoch}, row {step.row}",
                fix="restore a state of get_state() or checkpoints() at this batch, including its entry 'operators'",
                where=node.where,
            )
        return self._snapshots[step]

    def save_after(self, following: BatchStep, state: State) -> None:
        """Save the state after a batch, as the state before the following step."""
        self._snapshots[following] = state
        while len(self._snapshots) > _MAX_SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]

    def carry_over(self, step: BatchStep, following: BatchStep) -> None:
        """Save the state before a step also as that before another one, because no batch comes between them."""
        if step in self._snapshots:
            self.save_after(following, self._snapshots[step])

    def resume(self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, allow_reset: bool = False) -> None:
        """Restore the state at a step. After an error, everything is as it was.

        Args:
            step: The step.
            state: The state saved there; None for the initial state.
            allow_reset: True to use the initial state if `state` is missing or does not fit.

        Raises:
            StateError: The saved state belongs to other operators.
        """
        arrays = self.arrays_of(step, state, allow_reset=allow_reset)
        self._snapshots = {} if arrays is None else {step: self._place(arrays)}

    def arrays_of(
        self, step: BatchStep, state: Sequence[Sequence[Any]] | None, *, allow_reset: bool
    ) -> Sequence[Sequence[Any]] | None:
        """Return the arrays that `resume` restores with these arguments; None if the state at the step is unknown.

        Raises:
            StateError: The saved state belongs to other operators.
        """
        initial = [node.operator.initial_state for node in self._nodes if isinstance(node.operator, DeviceKernel)]
        if state is None and not allow_reset and any((step.epoch, step.row, *step.consumed)):
            return None  # `before` raises when a batch is requested; without one, the state is not needed
        arrays = initial if state is None else [[np.asarray(leaf) for leaf in leaves] for leaves in state]
        kinds, expected = (
            [[(leaf.dtype, leaf.shape) for leaf in leaves] for leaves in nodes] for nodes in (arrays, initial)
        )
        if kinds != expected:
            if not allow_reset:
                raise StateError("the saved state belongs to other operators", given=kinds, expected=expected)
            arrays = initial
        return arrays
