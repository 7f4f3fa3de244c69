"""Running a program only as far as its plans."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from penstock.plan.placement import PlacementHint


@dataclass(frozen=True)
class DryRun:
    """A dry run that is on.

    Args:
        listener: is called with the text of each plan.
        placement: stands for what the pipelines ask for; None leaves that.
    """

    listener: Callable[[str], None]
    placement: PlacementHint | None


_current: ContextVar[DryRun | None] = ContextVar("dry_run", default=None)


class FirstBatchError(BaseException):
    """Raised in place of the first batch of a dry run, to end the program; not an Exception, so nothing catches it."""


@contextmanager
def dry_run(listener: Callable[[str], None], placement: PlacementHint | None = None) -> Generator[None]:
    """Give the plan of every iterator that is made to `listener`, and end the program where it asks for a batch.

    Args:
        listener: is called with the text of each plan.
        placement: plan as if all pipelines asked for this placement.

    Example:
        >>> import penstock
        >>> from penstock import DataIterator, fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3]))
        >>> plans = []
        >>> with dry_run(plans.append):
        ...     next(DataIterator(pipeline, ["x"]))
        >>> len(plans)
        1
    """
    token = _current.set(DryRun(listener, placement))
    try:
        yield
    except FirstBatchError:
        pass
    finally:
        _current.reset(token)


def active_dry_run() -> DryRun | None:
    """The dry run that is on, if one is."""
    return _current.get()
