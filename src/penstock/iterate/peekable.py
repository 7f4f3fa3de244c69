"""Iterators that let one look at the next batch without taking it."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import CancelledError, Future
from typing import Any

import jax

from penstock.engine.executable import lead_reader
from penstock.errors import ContextError, UsageError
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.iterate.iterator import Batch, DataIterator
from penstock.sources.order.schedule import BatchStep
from penstock.sources.stream import EndOfStreamError
from penstock.types import LastBatchPolicy


class PeekableDataIterator(DataIterator):
    """A `DataIterator` with `peek`: the same arguments, the same batches.

    Several threads may use one: each batch is taken by one of them. A peeked batch has not been taken, so the state is
    that before it, and can be saved and restored at any time. All batches have the shapes and dtypes of `element_spec`:
    a sample of another shape is an error that names it, and a PARTIAL last batch with fewer rows is refused.

    Raises:
        UsageError: also where PARTIAL would make the last batch shorter.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3, 4], name="numbers"))
        >>> iterator = PeekableDataIterator(pipeline, ["x"], reader_name="numbers")
        >>> iterator.element_spec
        {'x': ShapeDtypeStruct(shape=(2,), dtype=int32)}
        >>> coming = iterator.peek_async()
        >>> iterator.peek()["x"].tolist(), next(iterator)["x"].tolist(), next(iterator)["x"].tolist()
        ([1, 2], [1, 2], [3, 4])
        >>> coming.result()["x"].tolist()
        [1, 2]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pending: weakref.ref[BatchFuture] | None = None  # a future holds its iterator: held here, it were a cycle
        super().__init__(*args, **kwargs)
        schedule = self._schedule
        if schedule.policy is LastBatchPolicy.PARTIAL and schedule.remainder != schedule.stride:
            raise UsageError(
                "a peekable iterator promises one shape for all batches, and PARTIAL makes the last one shorter",
                given=f"{schedule.remainder} rows in the last batch",
                expected=f"{schedule.batch_size} rows",
                fix="LastBatchPolicy.PAD, which adds a mask, FILL or DROP",
            )

    @property
    def is_nonpadding(self) -> jax.Array:
        """Which rows of the batch that was taken last are samples of their own, and do not only fill it up.

        Returns:
            bool, laid out as the rows of the batch. `LastBatchPolicy.PAD` puts the same into the batch.

        Raises:
            ContextError: no batch has been taken from this epoch.
            UsageError: no reader says where the epoch ends.
        """
        with self._lock:
            lead = lead_reader(self._readings(self._order_seed))
            if lead is None or not lead.is_leader:
                raise UsageError("is_nonpadding needs a reader that says how long an epoch is", fix="reader_name=...")
            place, stride = self._next, self._schedule.stride
            if place.row < stride:
                raise ContextError("no batch has been taken from this epoch", fix="call next first")
            last = BatchStep(place.epoch, place.row - stride, place.consumed, self.batch_size)
            layout = self._planned.layout
            return layout.put_batch({None: lead.coordinates(last, layout.local_rows(self.batch_size)).real})[None]

    def peek(self) -> Batch:
        """The batch that `next` will give.

        Raises:
            StopIteration: the epoch has ended.
            SampleError: a sample of the batch is bad.
        """
        with self._lock:
            try:
                if not self.at_end:
                    return self._form(self._here())
            except EndOfStreamError:
                pass
            raise StopIteration

    def peek_async(self) -> BatchFuture:
        """Begin to prepare the batch that `next` will give, and return at once.

        The host's part is computed on the iterator's threads (here, where that is less work than telling them). The
        devices' part is dispatched by `result()` of what is returned, or by `next` or `peek`, on the thread that calls.

        Returns:
            A future whose result is that batch, also after it has been taken. At the end of the epoch its result raises
            StopIteration. It is cancelled when `set_state` or `next_epoch` leaves the place before the batch was made.
        """
        with self._lock:
            coming = self._coming
            if coming is None:
                coming = BatchFuture(self)
                if self.at_end:
                    coming.set_exception(StopIteration())
                    return coming
                self._pending = weakref.ref(coming)
                if self._held is None:
                    self._prepare(coming)
                else:
                    coming.deliver(self._held)
                    coming.set_result(None)
            return coming

    @property
    def _coming(self) -> BatchFuture | None:
        """The future of the batch that is next, if somebody holds one."""
        return None if self._pending is None else self._pending()

    def _prepare(self, coming: BatchFuture) -> None:
        try:
            coming.complete_after(self._run.begin(self._next))
        except Exception:  # noqa: BLE001  # asking for the batch raises it again, where it belongs
            coming.complete_after(())

    def _here(self) -> list[jax.Array]:
        arrays = super()._here()
        if coming := self._coming:
            coming.deliver(arrays)
        return arrays

    def _go_to(self, step: BatchStep) -> None:
        super()._go_to(step)
        if coming := self._coming:
            coming.abandon()
        self._pending = None

    def _form_coming(self, coming: BatchFuture) -> Batch:
        """The batch of a future: made now, if that is still to be done."""
        with self._lock:
            if coming is self._coming:
                try:
                    self._here()
                except EndOfStreamError:
                    raise StopIteration from None
            return self._form(coming.arrays())


class BatchFuture(Future[Any]):
    """A batch that is being prepared. It is done when the host's part is.

    `result` and `exception` put the batch on the devices, from the thread that calls them: programs are dispatched in
    the order in which the consumer asks. A callback runs on a thread of the iterator's, and must not ask for batches.

    Args:
        iterator: whose batch it is.
    """

    def __init__(self, iterator: PeekableDataIterator) -> None:
        super().__init__()
        self._iterator = iterator
        self._arrays: list[jax.Array] | None = None
        self._left = False
        self._announcer: int | None = None
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Any:
        """The batch.

        Args:
            timeout: how many seconds to wait for the host's part at most; None waits for ever.

        Raises:
            StopIteration: there is none, the epoch has ended.
            SampleError: a sample of it is bad.
            TimeoutError: it takes longer.
            CancelledError: the iterator was reset, restored or closed before the batch was made.
            ContextError: the caller is a callback.
        """
        if self._announcer == threading.get_ident():
            raise ContextError(
                "a callback of peek_async runs on a thread that prepares batches, which dispatches nothing",
                fix="let the callback wake the thread that trains, and ask for the result there",
            )
        super().result(timeout)
        return self._iterator._form_coming(self)  # noqa: SLF001  # the two are one thing

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What `result` raises, or None."""
        try:
            self.result(timeout)
        except (CancelledError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # it is what was asked for
            return error
        return None

    def cancelled(self) -> bool:
        """Whether the iterator was reset, restored or closed before the batch was made."""
        return self._left and self._arrays is None

    def complete_after(self, chunks: tuple[Future[Any], ...]) -> None:
        """Be done when these are. What they raise, `result` raises."""
        if chunks:
            first, *rest = chunks
            first.add_done_callback(
                lambda _: self.complete_after(tuple(rest))
            )  # which holds what follows, and not itself
            return
        self._announcer = threading.get_ident()
        self.set_result(None)
        self._announcer = None

    def deliver(self, arrays: list[jax.Array]) -> None:
        """Take the arrays of the batch."""
        self._arrays = arrays

    def abandon(self) -> None:
        """Nobody will make the batch any more."""
        self._left = True

    def arrays(self) -> list[jax.Array]:
        """The arrays of the batch.

        Raises:
            CancelledError: the iterator was reset, restored or closed before the batch was made.
        """
        if self._arrays is None:
            raise CancelledError
        return self._arrays


@check_annotations
def get_spec_for_array(array: jax.Array) -> jax.ShapeDtypeStruct:
    """Shape, dtype and sharding of an array.

    >>> get_spec_for_array(jax.numpy.zeros(3)).shape
    (3,)
    """
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
