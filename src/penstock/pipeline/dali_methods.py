"""Methods of DALI's `Pipeline` that penstock itself does not need."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.core import user_call_site
from penstock.core.unsupported import refuse_attributes
from penstock.core.user_callbacks import tracing_variable
from penstock.errors import UsageError
from penstock.graph import DataNode, Graph, Reader, check_annotations
from penstock.pipeline.session import PipelineSession
from penstock.pipeline.tensor_list import TensorList

# DALI's defaults of the options that have no effect here. Programs read them as attributes.
HINTS: Mapping[str, Any] = {
    "bytes_per_sample": 0,
    "concurrency": None,
    "default_cuda_stream_priority": 0,
    "enable_checkpointing": False,
    "enable_memory_stats": False,
    "exec_dynamic": True,
    "exec_separated": False,
    "experimental_exec_dynamic": None,
    "max_streams": -1,
    "set_affinity": False,
    "stream_policy": None,
}

_current: ContextVar[DaliMethods | None] = tracing_variable("current_pipeline")


class DaliMethods:
    """Mixin with methods and properties of DALI's Pipeline that penstock itself does not need.

    Batches are scheduled and shared: `schedule_run` requests a batch, `share_outputs` returns it, and `release_outputs`
    releases it, which has no effect here.
    """

    _hints: Mapping[str, Any] = {}
    _scheduled = 0
    _session: PipelineSession | None
    max_batch_size: int
    prefetch_queue_depth: int

    def _next_batch(self) -> tuple[TensorList, ...]:
        raise NotImplementedError  # not `run`, which a program may have overridden by the methods below

    def _feed(self, name: str | None, data: Any, layout: str | None = None) -> None:
        raise NotImplementedError

    def build(self) -> None:
        """Plan the definition."""
        raise NotImplementedError

    def _recorded(self) -> Graph:
        """Return the graph, in which inputs may still have an assumed kind."""
        raise NotImplementedError

    @property
    def graph(self) -> Graph:
        """The graph of the definition."""
        raise NotImplementedError

    @staticmethod
    def current() -> DaliMethods | None:
        """Return the pipeline whose definition is being traced, or None.

        >>> from penstock import Pipeline
        >>> with Pipeline(batch_size=2) as pipeline:
        ...     print(Pipeline.current() is pipeline)
        True
        """
        return _current.get()

    @contextmanager
    def _as_current(self) -> Generator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch."""
        return self.max_batch_size

    # Classes derived from DALI's Pipeline read this name when they define a `batch_size` themselves.
    @property
    def _max_batch_size(self) -> int:
        return self.max_batch_size

    @_max_batch_size.setter
    def _max_batch_size(self, size: int) -> None:
        if size != self.max_batch_size:
            raise UsageError(
                "the batch size of a pipeline cannot change",
                given=f"{size}, after {self.max_batch_size}",
                fix="batch_size=... where the pipeline is made",
                where=user_call_site(),
            )

    @property
    def exec_pipelined(self) -> bool:
        """True if batches are prepared ahead."""
        return self.prefetch_queue_depth > 0

    @property
    def cpu_queue_size(self) -> int:
        """Number of batches prepared ahead."""
        return self.prefetch_queue_depth

    # DALI has a queue per device. Here one queue of whole batches runs ahead, so both names read its size.
    gpu_queue_size = cpu_queue_size

    @property
    def num_outputs(self) -> int:
        """Number of outputs of a batch."""
        return len(self.graph.outputs)

    def output_dtype(self) -> list[Any]:
        """Return the dtype of each output."""
        return [value.spec.dtype for value in self.graph.outputs]

    def output_ndim(self) -> list[int]:
        """Return the number of axes of a sample of each output."""
        return [len(value.spec.shape) for value in self.graph.outputs]

    @check_annotations
    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Append a batch to the queue of an `fn.external_source` without a source.

        Args:
            data_node: The node, or its name.
            data: Array with a leading axis of samples, or list of samples; copied.
            layout: Layout of a sample.
            cuda_stream: Ignored; an option of DALI.
            use_copy_kernel: Ignored; an option of DALI.

        Raises:
            UsageError: There is no such node, or it has a source.
            SourceError: The batch has another kind than the node.
        """
        del cuda_stream, use_copy_kernel
        self._feed(data_node.stream_name if isinstance(data_node, DataNode) else data_node, data, layout)

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Return the next batch, like `run`. It counts as a batch of `schedule_run`. `cuda_stream` is ignored."""
        del cuda_stream
        return self._requested_batch()

    def schedule_run(self) -> None:
        """Request one more batch.

        Raises:
            PenstockError: The definition or its first sample is invalid.
        """
        self.build()
        self._scheduled += 1

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Return the next requested batch, one entry per output. It stays valid as long as you hold it.

        `cuda_stream` is ignored.

        Raises:
            StopIteration: No batch was requested, or an external source has ended.
            SampleError: A sample of the batch is bad.
        """
        del cuda_stream
        if not self._scheduled:
            raise StopIteration
        return self._requested_batch()

    # Not `outputs`, which a derived class may have overridden by `share_outputs`.
    def _requested_batch(self) -> tuple[TensorList, ...]:
        try:
            batch = self._next_batch()
        except StopIteration:
            self._scheduled = 0  # as in DALI, requests past the end of the data do not count
            raise
        # After the batch: one that fails stays requested, so that the next call tries again.
        self._scheduled = max(self._scheduled - 1, 0)
        return batch

    def release_outputs(self) -> None:
        """Release the batch of `share_outputs`. Has no effect here: batches are not recycled."""

    # Iterators that programs wrote for the first releases of DALI call these names.
    _run, _share_outputs, _release_outputs = schedule_run, share_outputs, release_outputs

    def empty(self) -> bool:
        """Return True if all requested batches have been returned. Requests past the end of a source do not count."""
        if self._scheduled and self._session is not None and self._session.ends_here():
            self._scheduled = 0
        return not self._scheduled

    def start_py_workers(self) -> None:
        """Do nothing. In DALI worker processes must start before CUDA; here they start when they are needed."""

    def enable_api_check(self, enable: bool) -> None:
        """Do nothing: `run` may be mixed with `schedule_run` and `share_outputs`. `enable` is ignored."""

    # Iterators that programs wrote for DALI enter this context.
    @contextmanager
    def _check_api_type_scope(self, _type: Any) -> Generator[bool]:
        yield False

    @check_annotations
    def reader_meta(self, name: str | None = None) -> dict[str, Any]:
        """Return the metadata of a reader, or of all readers by name.

        Returns:
            epoch_size, epoch_size_padded, number_of_shards, shard_id, pad_last_batch and stick_to_shard. Without `name`
            a dict of such dicts, in which readers without a name are numbered.

        Raises:
            UnknownReaderError: No reader has this name.
        """
        readers = {
            node.name or f"__{node.kind.rpartition('.')[2].capitalize()}_{number}": node.operator
            for number, node in enumerate(self.graph.readers)
        }
        metas = {label: reader.meta for label, reader in readers.items() if isinstance(reader, Reader)}
        if name is None:
            return metas
        # For an unknown name, `Graph.reader` raises the error that lists the readers.
        return metas[name] if name in metas else metas[self.graph.reader(name).name]

    @check_annotations
    def epoch_size(self, name: str | None = None) -> Any:
        """Return the number of samples in an epoch of a reader; without `name` a dict for all readers."""
        if name is None:
            return {name: meta["epoch_size_padded"] for name, meta in self.reader_meta().items()}
        return self.reader_meta(name)["epoch_size_padded"]

    def executor_statistics(self) -> dict[str, Any]:
        """Return the calls, samples, wall and CPU time of each stage so far. The entries differ from DALI's."""
        return {} if self._session is None else dict(self._session.cursor.run.meter.snapshot().stages)


def _hint(name: str, pipeline: DaliMethods) -> Any:
    return pipeline._hints.get(name, HINTS[name])  # noqa: SLF001  # written once for the properties of all hints


for _name in HINTS:
    setattr(DaliMethods, _name, property(functools.partial(_hint, _name)))
refuse_attributes(DaliMethods, "Pipeline")
