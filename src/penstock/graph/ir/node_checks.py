"""What holds for every node: who may use its inputs, what it can work on, and that nothing flows back to the host."""

from __future__ import annotations

import functools
import os

from penstock.errors import DefinitionError
from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import BatchKernel, DeviceKernel, HostBatchKernel, SampleKernel


def check_branch_scope(value: Value, guard: Value | None) -> None:
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


def check_fusible_input(node: Node) -> None:
    """Check that an operator which is computed in chains alone has an input with axes.

    Raises:
        DefinitionError: it has none.
    """
    if not isinstance(node.operator, FusibleOperator) or isinstance(node.operator, BatchKernel | SampleKernel):
        return
    if not node.inputs[0].spec.shape:
        raise DefinitionError(
            f"fn.{node.kind} works on values with axes",
            given=f"{node.inputs[0]}: {node.inputs[0].spec}",
            expected="at least one axis",
            fix="fn.reshape(value, shape=[1])",
        )


def check_no_device_to_host(node: Node) -> None:
    """Check that nothing flows back from the device program to the host.

    Raises:
        DefinitionError: an input of a host's operator is made there.
    """
    hosted = isinstance(node.operator, HostBatchKernel)
    if not node.device_only or (isinstance(node.operator, BatchKernel | FusibleOperator | DeviceKernel) and not hosted):
        return
    made = next(value for value in node.sources if value.node.device_only)
    raise DefinitionError(
        f"fn.{node.kind} works on the host, and its input is made in the device program: nothing flows back",
        given=f"{made}: {made.spec}",
        fix="use it before the JAX function, or do its work in a JAX function",
    )


_BATCHES = 4
"""At least this many are alive at once: one that is used, one that is next, and two that are prepared."""

_BITS = 4
"""Bytes of a row's random bits, each 32 of them."""


def check_memory(node: Node, rows: int) -> None:
    """Check that what a node makes can fit into memory at all: the batches that are in the making at once.

    Args:
        node: whose samples have a known shape, or draw random bits.
        rows: of a batch.

    Raises:
        DefinitionError: they are larger than the whole memory of the machine.
    """
    sample = sum(spec.nbytes for spec in node.specs if spec.dense) + _BITS * node.operator.random_bits
    if _BATCHES * sample * rows > machine_memory():
        shapes = ", ".join(str(spec) for spec in node.specs)
        raise DefinitionError(
            f"fn.{node.kind}: its results do not fit into memory",
            given=f"{_BATCHES} batches of {rows} samples, {shapes}: {_BATCHES * sample * rows / 2**30:,.0f} GiB",
            expected=f"less than the {machine_memory() / 2**30:,.0f} GiB that this machine has",
            fix="smaller sizes, or a smaller batch_size",
        )


@functools.cache
def machine_memory() -> int:
    """The bytes of physical memory; without limit where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows, or a system without these names
        return 2**63
