"""Execution while a definition runs: eager computation in debug mode, and worker processes for users' sources."""

from typing import Any, Protocol

from penstock.core.dataclass import dataclass
from penstock.graph.ir.node import Node, Value


class EagerExecutor(Protocol):
    """Computes each node when it is recorded."""

    def compute(self, node: Node) -> None:
        """Compute the values of a node."""
        ...

    def get(self, value: Value) -> Any:
        """Return the batch of a value as a tensor list."""
        ...

    def text(self, value: Value) -> str:
        """Return the batch of a value as text."""
        ...

    def fill(self, name: str, stream: Any) -> None:
        """Move the batches that were fed before the definition ran into the queue of an input."""
        ...

    def batch(self, thing: Any) -> Any | None:
        """Return a node for a batch that the user made; None for other objects."""
        ...


@dataclass(frozen=True)
class WorkerOptions:
    """Options of the processes that call users' sources.

    Args:
        workers: Number of processes; 0 calls sources in this process.
        pickler: Serializer of the sources; see `py_callback_pickler` of `penstock.Pipeline`.
    """

    workers: int = 0
    pickler: Any = None
