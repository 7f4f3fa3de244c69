"""What holds for every node: who may use its inputs, what it can work on, and that nothing flows back to the host."""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.graph.chain import ChainKernel
from penstock.graph.node import Node, Value
from penstock.graph.operator import BatchKernel, DeviceKernel, HostBatchKernel, SampleKernel


def check_reach(value: Value, guard: Value | None) -> None:
    """Check that a value is there in all rows in which it is used: that it was not made in another branch.

    Raises:
        DefinitionError: it was.
    """
    made = value.node.guard
    while made is not None and guard != made:
        if guard is None:
            raise DefinitionError(
                f"{value} was made in a branch of a condition, and rows that do not take the branch have no such value",
                given=f"made at {value.node.where}",
                fix="assign it to a variable in each branch, and use the variable after the condition",
            )
        guard = guard.node.guard


def check_kernel(node: Node) -> None:
    """Check that an operator which is computed in chains alone has an input with axes.

    Raises:
        DefinitionError: it has none.
    """
    if not isinstance(node.operator, ChainKernel) or isinstance(node.operator, BatchKernel | SampleKernel):
        return
    if not node.inputs[0].spec.shape:
        raise DefinitionError(
            f"fn.{node.kind} works on values with axes",
            given=f"{node.inputs[0]}: {node.inputs[0].spec}",
            expected="at least one axis",
            fix="fn.reshape(value, shape=[1])",
        )


def check_direction(node: Node) -> None:
    """Check that nothing flows back from the device program to the host.

    Raises:
        DefinitionError: an input of a host's operator is made there.
    """
    hosted = isinstance(node.operator, HostBatchKernel)
    if not node.device_bound or (isinstance(node.operator, BatchKernel | ChainKernel | DeviceKernel) and not hosted):
        return
    made = next(value for value in node.sources if value.node.device_bound)
    raise DefinitionError(
        f"fn.{node.kind} works on the host, and its input is made in the device program: nothing flows back",
        given=f"{made}: {made.spec}",
        fix="use it before the JAX function, or do its work in a JAX function",
    )
