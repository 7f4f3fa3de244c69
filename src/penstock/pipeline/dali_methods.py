"""What a pipeline has besides `run` for programs that were written for DALI."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

from penstock.core.call_site import user_call_site, with_call_site
from penstock.core.unsupported import refuse_attributes
from penstock.errors import UsageError, error_text, short_repr
from penstock.graph.ir.node import Graph
from penstock.pipeline.serialization import from_json, to_json
from penstock.pipeline.tensor_list import TensorList

HINTS: Mapping[str, Any] = {
    "bytes_per_sample": 0,
    "concurrency": None,
    "default_cuda_stream_priority": 0,
    "enable_checkpointing": False,
    "enable_memory_stats": False,
    "exec_dynamic": True,
    "exec_separated": False,
    "is_restored_from_checkpoint": False,
    "max_streams": -1,
    "set_affinity": False,
    "stream_policy": None,
}
"""What the hints of DALI's Pipeline are where they are not given."""

_current: ContextVar[DaliMethods | None] = ContextVar("current_pipeline", default=None)


class DaliMethods:
    """The methods and properties of DALI's Pipeline that the remainder of penstock does without.

    Batches are scheduled and shared: `schedule_run` asks for one, `share_outputs` returns it, and `release_outputs`
    says that it was used, which nothing waits for here.
    """

    _hints: Mapping[str, Any] = {}
    _scheduled = 0
    max_batch_size: int
    num_threads: int
    device_id: int | None
    seed: int
    seed_is_given: bool
    prefetch_queue_depth: int
    exec_async: bool
    placement: Any

    def _next_batch(self) -> tuple[TensorList, ...]:
        raise NotImplementedError  # `run` may be a program's own, made of the methods below

    def build(self) -> None:
        """Plan the definition."""
        raise NotImplementedError

    def _definition(self) -> Graph:
        raise NotImplementedError

    @staticmethod
    def current() -> DaliMethods | None:
        """The pipeline whose definition is being traced, or None.

        >>> from penstock import Pipeline
        >>> with Pipeline(batch_size=2) as pipeline:
        ...     print(Pipeline.current() is pipeline)
        True
        """
        return _current.get()

    @contextmanager
    def _being_current(self) -> Generator[None]:
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @property
    def batch_size(self) -> int:
        """How many samples a batch has."""
        return self.max_batch_size

    @property
    def _max_batch_size(self) -> int:  # what classes derived from DALI's read, where `batch_size` is one of their own
        return self.max_batch_size

    @_max_batch_size.setter
    def _max_batch_size(self, size: int) -> None:
        if size != self.max_batch_size:
            given, fix = f"{size}, after {self.max_batch_size}", "batch_size=... where the pipeline is made"
            raise UsageError("a pipeline keeps its batch size", given=given, fix=fix, where=user_call_site())

    @property
    def exec_pipelined(self) -> bool:
        """Whether batches are prepared ahead."""
        return self.prefetch_queue_depth > 0

    @property
    def cpu_queue_size(self) -> int:
        """How many batches are prepared ahead."""
        return self.prefetch_queue_depth

    gpu_queue_size = cpu_queue_size

    def schedule_run(self) -> None:
        """Ask for one more batch.

        Raises:
            PenstockError: the definition or its first sample is not right.
        """
        self.build()
        self._scheduled += 1

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """The next of the batches that were asked for, an output each. It stays as it is for as long as it is held.

        `cuda_stream` is a hint of DALI's.

        Raises:
            StopIteration: none was asked for.
            SampleError: a sample of the batch is bad.
        """
        del cuda_stream
        if not self._scheduled:
            raise StopIteration
        self._scheduled -= 1
        return self._next_batch()

    def release_outputs(self) -> None:
        """Say that what `share_outputs` returned was used."""

    _run, _share_outputs, _release_outputs = schedule_run, share_outputs, release_outputs
    """The same, as iterators of programs' own call them that were written for the first releases of DALI."""

    def empty(self) -> bool:
        """Whether all batches that were asked for have been returned."""
        return not self._scheduled

    def start_py_workers(self) -> None:
        """Nothing here: DALI's processes must start before CUDA does, and ours start when they are needed."""

    def enable_api_check(self, enable: bool) -> None:
        """Nothing here: `run` may be mixed with `schedule_run` and `share_outputs`. `enable` is a hint of DALI's."""

    @contextmanager
    def _check_api_type_scope(self, _type: Any) -> Generator[bool]:  # iterators of programs' own enter it
        yield False

    @with_call_site
    def serialize(self, define_graph: None = None, filename: Any = None) -> bytes:
        """The definition as JSON: operators, arguments, paths of data sets, arrays; and the pipeline's own arguments.

        Args:
            define_graph: not offered.
            filename: a file that the text is written to, too.

        Raises:
            UsageError: an operator is given code, such as `python_function`.

        Example:
            >>> from penstock import Pipeline, fn
            >>> with Pipeline(batch_size=2) as pipeline:
            ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3]) * 2)
            >>> Pipeline.deserialize(pipeline.serialize()).run()[0].as_array().tolist()
            [2, 4]
        """
        if define_graph is not None:
            raise UsageError(
                "serialize takes no definition", fix="call set_outputs, or derive a class with define_graph"
            )
        names = ("num_threads", "device_id", "seed", "seed_is_given", "prefetch_queue_depth", "exec_async", "placement")
        text = to_json(
            self._definition(), {"batch_size": self.max_batch_size, **{name: getattr(self, name) for name in names}}
        )
        if filename is not None:
            try:
                Path(filename).write_bytes(text)
            except (OSError, TypeError, ValueError) as error:
                raise _no_file(filename, "written", error) from error
        return text

    @classmethod
    @with_call_site
    def deserialize(
        cls, serialized_pipeline: bytes | str | None = None, filename: Any = None, **arguments: Any
    ) -> Self:
        """The pipeline that was serialized. It runs no code but the operators of penstock and of installed packages.

        Args:
            serialized_pipeline: what `serialize` returned.
            filename: or the file that it wrote.
            **arguments: arguments of the pipeline that stand instead of those that were kept.

        Raises:
            UsageError: neither or both are given.
            StateError: the bytes are no serialized pipeline.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise UsageError("deserialize takes what serialize returned, or the name of a file that has it")
        try:
            text = Path(filename).read_bytes() if serialized_pipeline is None else serialized_pipeline
        except (OSError, TypeError, ValueError) as error:
            raise _no_file(filename, "read", error) from error
        options, name, define = from_json(text)
        seed_is_given = options.pop("seed_is_given", True)
        pipeline: Any = cls(**{**options, **arguments})
        if "seed" not in arguments:
            pipeline.seed_is_given = seed_is_given
        pipeline.name = name
        with pipeline:
            pipeline.set_outputs(*define())
        return pipeline

    @with_call_site
    def deserialize_and_build(self, serialized_pipeline: bytes | str) -> None:
        """Take the definition of the pipeline that was serialized, and plan it.

        The batch size and the seed are this one's own, where it was given them, and those that were kept, where not.

        Args:
            serialized_pipeline: what `serialize` returned.

        Raises:
            StateError: the bytes are no serialized pipeline.

        Example:
            >>> from penstock import Pipeline, fn
            >>> with Pipeline(batch_size=2) as pipeline:
            ...     pipeline.set_outputs(fn.readers.arrays([1, 2, 3]) * 2)
            >>> three = Pipeline(batch_size=3)
            >>> three.deserialize_and_build(pipeline.serialize())
            >>> three.run()[0].as_array().tolist()
            [2, 4, 6]
        """
        options, _, define = from_json(serialized_pipeline)
        pipeline: Any = self
        if not pipeline.seed_is_given:
            pipeline.seed, pipeline.seed_is_given = options["seed"], options.get("seed_is_given", True)
        if self.max_batch_size < 1:
            self.max_batch_size = options["batch_size"]
            pipeline.set_row_counts(self.max_batch_size, self.max_batch_size)
        with pipeline:
            pipeline.set_outputs(*define())
        self.build()


def _no_file(name: Any, done: str, error: OSError | TypeError | ValueError) -> UsageError:
    return UsageError(f"the file cannot be {done}: {error_text(error)}", given=short_repr(name))


def _hint(name: str, pipeline: DaliMethods) -> Any:
    return pipeline._hints.get(name, HINTS[name])  # noqa: SLF001  # a property of the class, written once for all hints


for _name in HINTS:
    setattr(DaliMethods, _name, property(functools.partial(_hint, _name)))
refuse_attributes(DaliMethods, "Pipeline")
