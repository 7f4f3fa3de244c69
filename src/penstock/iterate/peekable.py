"""Iterators that can return the next batch without taking it."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import CancelledError, Future
from typing import Any

import jax

from penstock.engine.executable import lead_reader
from penstock.errors import ContextError, UsageError
from penstock.graph import check_annotations
from penstock.iterate.iterator import Batch, DataIterator
from penstock.sources.order.schedule import BatchStep, Schedule
from penstock.sources.stream import EndOfStreamError
from penstock.types import LastBatchPolicy


class PeekableDataIterator(DataIterator):
    """A `DataIterator` with `peek`: the same arguments, the same batches.

    Several threads may use one iterator; each batch is taken by one of them. Peeking does not change the saved state.
    All batches have the shapes and dtypes of `element_spec`: a sample of another shape is an error that names it, and a
    shorter last batch is refused.

    Raises:
        UsageError: `LastBatchPolicy.PARTIAL` would make the last batch shorter, or as for `DataIterator`.

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

    # A weak reference, because a future holds its iterator: otherwise they would form a cycle.
    _pending: weakref.ref[BatchFuture] | None = None

    def _check_schedule(self, schedule: Schedule) -> None:
        if schedule.policy is LastBatchPolicy.PARTIAL and schedule.remainder != schedule.stride:
            raise UsageError(
                "a peekable iterator promises one shape for all batches, and PARTIAL makes the last one shorter",
                given=f"{schedule.remainder} rows in the last batch",
                expected=f"{schedule.batch_size} rows",
                fix="LastBatchPolicy.PAD, which adds a mask, FILL or DROP",
            )

    @property
    def is_nonpadding(self) -> jax.Array:
        """Mask of the rows of the last batch that was taken which are samples of the epoch, not padding.

        Returns:
            bool, laid out like the rows of the batch. `LastBatchPolicy.PAD` puts the same mask into the batch.

        Raises:
            ContextError: No batch has been taken from this epoch.
            UsageError: No reader determines the end of the epoch.
        """
        with self._lock:
            lead = lead_reader(self._readings(self._order_seed))
            if lead is None or not lead.is_leader:
                raise UsageError("is_nonpadding needs a reader that says how long an epoch is", fix="reader_name=...")
            step, stride = self._cursor.step, self._schedule.stride
            if step.row < stride:
                raise ContextError("no batch has been taken from this epoch", fix="call next first")
            last = BatchStep(step.epoch, step.row - stride, step.consumed, self.batch_size)
            layout = self._executable.layout
            return layout.put_batch({None: lead.coordinates(last, layout.local_rows(self.batch_size)).real})[None]

    def peek(self) -> Batch:
        """Return the batch that `next` will return.

        Raises:
            StopIteration: The epoch has ended.
            SampleError: A sample of the batch is bad.
        """
        with self._lock:
            try:
                if not self.at_end:
                    return self._form(self._peek())
            except EndOfStreamError:
                pass
            raise StopIteration

    def peek_async(self) -> BatchFuture:
        """Begin to prepare the batch that `next` will return, without waiting.

        Host work runs on the iterator's threads, or in this thread if it is too small to hand over. Device work is
        dispatched in the thread that calls `result()` of the future, `next` or `peek`.

        Returns:
            A future of the batch, which also stays valid after the batch was taken. At the end of the epoch its result
            raises StopIteration. It is cancelled if `set_state` or `next_epoch` moves away before the batch exists.
        """
        with self._lock:
            future = self._current_future()
            if future is None:
                future = BatchFuture(self, self._cursor.step)
                if self.at_end:
                    future.set_exception(StopIteration())
                    return future
                self._pending = weakref.ref(future)
                if self._cursor.outputs is None:
                    self._begin(future)
                else:
                    # The batch was peeked already, so there is no host work to wait for.
                    future.arrays = self._cursor.outputs
                    future.set_result(None)
            return future

    def _current_future(self) -> BatchFuture | None:
        """Return the future of the next batch, if somebody holds one."""
        future = None if self._pending is None else self._pending()
        return future if future is not None and self._is_next(future.step) else None

    def _is_next(self, step: BatchStep) -> bool:
        # Identity: `set_state` to an equal step makes the batch again, as another object.
        return step is self._cursor.step

    def _begin(self, future: BatchFuture) -> None:
        try:
            future.complete_after(self._cursor.begin())
        except EndOfStreamError:
            future.set_exception(StopIteration())
        except Exception:  # noqa: BLE001  # the consumer gets the same error when it asks for the batch
            future.complete_after(())

    def _peek(self) -> list[jax.Array]:
        arrays = super()._peek()
        if future := self._current_future():
            future.arrays = arrays
        return arrays

    def _resolve(self, future: BatchFuture) -> Batch:
        """Return the batch of a future, computing it if it is the next one."""
        with self._lock:
            if future is self._current_future():
                try:
                    self._peek()
                except EndOfStreamError:
                    raise StopIteration from None
            if future.arrays is None:
                raise CancelledError
            return self._form(future.arrays)


class BatchFuture(Future[Any]):
    """Future of a batch. It is done when the host's part of the batch is done.

    `result` and `exception` dispatch the device's part in the thread that calls them: programs must be dispatched in
    the order in which the consumer asks. A callback runs on a thread of the iterator and must not ask for batches.

    Args:
        iterator: Iterator that computes the batch.
        step: Step of the batch.

    Attributes:
        arrays: Arrays of the batch; None until the iterator has computed it.
    """

    def __init__(self, iterator: PeekableDataIterator, step: BatchStep) -> None:
        super().__init__()
        self.step = step
        self._iterator = iterator
        self.arrays: list[jax.Array] | None = None
        self._callback_thread: int | None = None
        # `Future.cancel` has no effect on a running future: its holder must not cancel a batch that `next` will take.
        self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Batch:
        """Return the batch.

        Args:
            timeout: Seconds to wait for the host's part; None waits without a limit.

        Raises:
            StopIteration: The epoch has ended.
            SampleError: A sample of the batch is bad.
            TimeoutError: The host's part takes longer than `timeout`.
            CancelledError: The iterator was moved before the batch was computed.
            ContextError: The caller is a callback.
        """
        if self._callback_thread == threading.get_ident():
            raise ContextError(
                "a callback of peek_async runs on a thread that prepares batches and must not dispatch programs",
                fix="wake the training thread in the callback, and ask for the result there",
            )
        super().result(timeout)
        return self._iterator._resolve(self)  # noqa: SLF001  # the two classes form one unit

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception that `result` raises, or None."""
        try:
            self.result(timeout)
        except (CancelledError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001  # the result of this method
            return error
        return None

    def cancelled(self) -> bool:
        """Return True if the iterator was moved before the batch was computed."""
        return self.arrays is None and not self._iterator._is_next(self.step)  # noqa: SLF001  # as above

    def complete_after(self, chunks: tuple[Future[Any], ...]) -> None:
        """Complete this future when all chunks are done. `result` raises their errors."""
        if chunks:
            first, *rest = chunks
            # The callback holds the chunks that follow but not its own future, which would be a cycle.
            first.add_done_callback(lambda _: self.complete_after(tuple(rest)))
            return
        # `set_result` calls the callbacks in this thread, where `result` would dispatch out of order.
        self._callback_thread = threading.get_ident()
        self.set_result(None)
        self._callback_thread = None


@check_annotations
def get_spec_for_array(array: jax.Array) -> jax.ShapeDtypeStruct:
    """Return shape, dtype and sharding of an array.

    >>> get_spec_for_array(jax.numpy.zeros(3)).shape
    (3,)
    """
    return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.sharding)
