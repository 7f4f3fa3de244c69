"""Dry runs: a program runs only until one of its iterators is asked for its first batch."""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

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
        ends: Receives an iterator that is asked for a batch, and returns True to end the program. One thread at a time
            calls it.
        ended: Set when a thread of the program has ended it.
    """

    listener: Callable[[Any], None]
    placement: PlacementHint | None
    ends: Callable[[Any], bool]
    ended: threading.Event = field(default_factory=threading.Event)
    _lock: Any = field(default_factory=threading.RLock)

    def iterator_made(self, iterator: Any) -> None:
        """Pass a new iterator to the listener.

        Raises:
            FirstBatchError: The program ends here.
            SystemExit: This thread of the program ends here.
        """
        try:
            self.listener(iterator)
        except FirstBatchError:
            self._end()

    def batch_requested(self, iterator: Any) -> None:
        """Respond to the request of a batch.

        Raises:
            FirstBatchError: The program ends here.
            SystemExit: This thread of the program ends here.
        """
        with self._lock:
            ends = self.ends(iterator)
        if ends:
            self._end()

    def interrupt(self, number: int, frame: Any) -> None:
        """End the main thread, as the handler of SIGINT.

        Raises:
            FirstBatchError: Another thread has ended the program.
            KeyboardInterrupt: The user has interrupted it.
        """
        if self.ended.is_set():
            raise FirstBatchError
        signal.default_int_handler(number, frame)

    def _end(self) -> NoReturn:
        """End the program: the main thread, and the thread that asks for a batch."""
        main = threading.main_thread()
        if threading.current_thread() is main:
            raise FirstBatchError
        # The main thread may wait for this one, and save the weights afterwards. Only a signal ends its wait. A program
        # with a handler of its own gets no signal, because that handler may save, too.
        if not self.ended.is_set() and signal.getsignal(signal.SIGINT) == self.interrupt:
            self.ended.set()
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main.ident or 0, signal.SIGINT)
            else:  # Windows: the main thread runs the handler when its wait for this thread has ended
                signal.raise_signal(signal.SIGINT)
        # This ends a thread without a message.
        raise SystemExit


# Not a context variable, which the threads of a program would not inherit.
_current: DryRun | None = None


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
    global _current  # noqa: PLW0603  # one program runs at a time
    previous, _current = _current, DryRun(listener, placement, ends)
    try:
        with _handles_interrupts(_current):
            yield
    except (FirstBatchError, Exception) as error:
        if not _comes_from_the_end(error):
            raise
    finally:
        _current = previous


@contextmanager
def _handles_interrupts(dry: DryRun) -> Generator[None]:
    """Let threads of the program end the main thread, unless somebody else handles the signal."""
    # Only the main thread may set handlers.
    own, before = threading.current_thread() is threading.main_thread(), signal.getsignal(signal.SIGINT)
    # Shells let processes in the background ignore the signal.
    if not own or before not in (signal.default_int_handler, signal.SIG_IGN):
        yield
        return
    signal.signal(signal.SIGINT, dry.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _comes_from_the_end(error: BaseException | None) -> bool:
    """Return whether `FirstBatchError` ended the program, also if the cleanup of the program failed afterwards.

    Cleanup fails for a program that prints its last loss, and for `threading.Condition`, whose wait does not hold its
    lock at each moment in which the signal may end it.
    """
    while error is not None and not isinstance(error, FirstBatchError):
        error = error.__context__
    return error is not None


def active_dry_run() -> DryRun | None:
    """Return the active dry run, or None."""
    return _current
