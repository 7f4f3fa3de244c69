"""Dry runs: a program runs only until one of its iterators is asked for its first batch."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.core.dataclass import dataclass
from penstock.plan.placement import PlacementHint


class FirstBatchError(BaseException):
    """Raised in place of the first batch of a dry run, to end the program; not an Exception, so nothing catches it."""


@dataclass(frozen=True)
class DryRun:
    """An active dry run.

    Args:
        listener: Receives each new iterator.
        placement: Replaces the placement of the pipelines, unless it is None.
        ends: Receives an iterator that is asked for a batch, and returns True to end the program.
    """

    listener: Callable[[Any], None]
    placement: PlacementHint | None
    ends: Callable[[Any], bool]

    def batch_requested(self, iterator: Any) -> None:
        """Respond to the request of a batch.

        Raises:
            FirstBatchError: The program ends here.
        """
        if self.ends(iterator):
            raise FirstBatchError


_current: ContextVar[DryRun | None] = ContextVar("dry_run", default=None)


@contextmanager
def dry_run(
    listener: Callable[[Any], None],
    placement: PlacementHint | None = None,
    ends: Callable[[Any], bool] = lambda iterator: True,  # noqa: ARG005  # the default ends every program
) -> Generator[None]:
    """Pass every new iterator to `listener`, and end the program when an iterator is asked for a batch.

    Args:
        listener: Receives each new iterator. It may raise `FirstBatchError` to end the program there.
        placement: Replaces the placement of all pipelines, unless it is None.
        ends: Receives an iterator that is asked for a batch. If it returns False, the program gets the batch.

    Example:
        >>> import penstock
        >>> from penstock import DataIterator, fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3]))
        >>> iterators = []
        >>> with dry_run(iterators.append):
        ...     next(DataIterator(pipeline, ["x"]))
        >>> iterators
        [DataIterator(pipeline: x int32[2]; epoch 0, batch 0)]
    """
    token = _current.set(DryRun(listener, placement, ends))
    try:
        yield
    except FirstBatchError:
        pass
    finally:
        _current.reset(token)


def active_dry_run() -> DryRun | None:
    """Return the active dry run, or None."""
    return _current.get()
