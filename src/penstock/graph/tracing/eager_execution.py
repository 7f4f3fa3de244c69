"""What runs while a definition does: what computes its nodes in debug mode, and who calls users' sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from penstock.graph.ir.node import Node, Value


class EagerExecutor(Protocol):
    """What computes each node as it is recorded."""

    def compute(self, node: Node) -> None:
        """Compute the values of a node."""
        ...

    def get(self, value: Value) -> Any:
        """What was computed of a value, as a tensor list."""
        ...

    def text(self, value: Value) -> str:
        """What was computed of a value, to be printed."""
        ...

    def fill(self, name: str, stream: Any) -> None:
        """Give an input what it was fed before the definition ran."""
        ...

    def batch(self, thing: Any) -> Any | None:
        """A node for a batch that the user made; None for what is no batch."""
        ...


@dataclass(frozen=True)
class WorkerOptions:
    """The processes that call users' sources which ask for it.

    Args:
        workers: how many; 0: this process does.
        pickler: what sends the sources there, as `penstock.Pipeline` takes it.
    """

    workers: int = 0
    pickler: Any = None
