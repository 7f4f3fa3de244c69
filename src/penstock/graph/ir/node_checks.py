"""Checks of every node: scope of branches, inputs with axes, no flow from device to host, memory."""

import functools
import os

from penstock.errors import DefinitionError
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import BatchKernel, DeviceKernel, HostBatchKernel, SampleKernel


def check_branch_scope(value: Value, guard: Value | None) -> None:
    """Check that a value exists in all rows that use it.

    Raises:
        DefinitionError: The value was made in another branch.
    """
    branch = value.node.guard
    while branch is not None and guard != branch:
        if guard is None:
            raise DefinitionError(
                f"{value} was made in a branch of a condition, and rows that do not take the branch have no such value",
                given=f"made at {value.node.where}",
                fix="assign it to a variable in each branch, and use the variable after the condition",
            )
        # A branch may use the values of all branches around it.
        guard = guard.node.guard


def check_fusible_input(node: Node) -> None:
    """Check that the input of an operator that is always fused has axes.

    Raises:
        DefinitionError: The input does not have axes.
    """
    if not isinstance(node.operator, FusibleOperator) or isinstance(node.operator, BatchKernel | SampleKernel):
        return
    if not node.inputs[0].spec.shape:
        raise DefinitionError(
            "the input must have axes",
            given=f"{node.inputs[0]}: {node.inputs[0].spec}",
            expected="at least one axis",
            fix="fn.reshape(value, shape=[1])",
        )


def check_no_device_to_host(node: Node) -> None:
    """Check that nothing flows from the device program back to the host.

    Raises:
        DefinitionError: The device program computes an input of a host operator.
    """
    hosted = isinstance(node.operator, HostBatchKernel)
    if not node.device_only or (isinstance(node.operator, BatchKernel | FusibleOperator | DeviceKernel) and not hosted):
        return
    source = next(value for value in node.sources if value.node.device_only)
    raise DefinitionError(
        "an operator of the host cannot use a value of the device program",
        given=f"{source}: {source.spec}",
        fix="use it before the JAX function, or do its work in a JAX function",
    )


# Batches that are alive at once, at least: the one in use, the next one, and two in preparation.
_BATCHES = 4

_WORD_BYTES = 4  # bytes of a random word


def check_memory(node: Node, rows: int) -> None:
    """Check that the batches of a node that exist at once can fit into memory at all.

    Args:
        node: Node whose samples have a known shape or draw random bits.
        rows: Rows of a batch.

    Raises:
        DefinitionError: They are larger than the memory of the machine.
    """
    # Checked while tracing, since a batch is allocated later, on another thread, where the user's line is unknown.
    sample = sum(spec.nbytes for spec in node.specs if spec.dense) + _WORD_BYTES * node.operator.random_bits
    if _BATCHES * sample * rows > machine_memory():
        shapes = ", ".join(str(spec) for spec in node.specs)
        raise DefinitionError(
            "the results do not fit into memory",
            given=f"{_BATCHES} batches of {rows} samples, {shapes}: {_BATCHES * sample * rows / 2**30:,.0f} GiB",
            expected=f"less than the {machine_memory() / 2**30:,.0f} GiB that this machine has",
            fix="smaller sizes, or a smaller batch_size",
        )


@functools.cache
def machine_memory() -> int:
    """Return the bytes of physical memory, or 2**63 if the system does not report them."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows, or a system without these names
        return 2**63
