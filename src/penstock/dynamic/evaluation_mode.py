"""Evaluation modes of dynamic mode, which are hints: every call computes at once."""

from __future__ import annotations

from contextvars import ContextVar
from enum import Enum


class EvalMode(Enum):
    """DALI's evaluation modes. Results do not depend on them.

    In every mode a call computes before it returns, so that its errors appear at its line. A mode is a context
    manager, which nests and belongs to the thread.

    >>> with EvalMode.deferred:
    ...     EvalMode.current().name
    'deferred'
    """

    deferred = "deferred"
    eager = "eager"
    default = eager  # an alias in DALI too
    sync_cpu = "sync_cpu"
    sync_full = "sync_full"

    @staticmethod
    def current() -> EvalMode:
        """Return the mode of this thread."""
        modes = _modes.get()
        return modes[-1] if modes else EvalMode.eager

    def __enter__(self) -> None:
        _modes.set((*_modes.get(), self))

    def __exit__(self, *_error: object) -> None:
        _modes.set(_modes.get()[:-1])


_modes: ContextVar[tuple[EvalMode, ...]] = ContextVar("evaluation_modes", default=())
