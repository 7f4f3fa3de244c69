"""What a batch of a node takes, against the memory that the machine has."""

from __future__ import annotations

import functools
import os

from penstock.errors import DefinitionError
from penstock.graph.node import Node

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
