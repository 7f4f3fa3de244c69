"""Running a program only as far as its plans."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("plan_listener", default=None)


class FirstBatchError(BaseException):
    """Raised in place of the first batch of a dry run, to end the program; not an Exception, so nothing catches it."""


@contextmanager
def dry_run(listener: Callable[[str], None]) -> Generator[None]:
    """Give the plan of every iterator that is made to `listener`, and end the program where it asks for a batch.

    Args:
        listener: is called with the text of each plan.

    Example:
        >>> plans = []
        >>> with dry_run(plans.append):
        ...     pass
    """
    token = _listener.set(listener)
    try:
        yield
    except FirstBatchError:
        pass
    finally:
        _listener.reset(token)


def listening() -> Callable[[str], None] | None:
    """The listener of the dry run that is on, if one is."""
    return _listener.get()
