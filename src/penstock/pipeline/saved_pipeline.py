"""Methods of `Pipeline` that save the definition or the position, and that read them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from penstock.core import with_call_site
from penstock.core.atomic_files import write_atomically
from penstock.errors import UsageError, error_text, short_repr
from penstock.pipeline.dali_methods import DaliMethods
from penstock.pipeline.run_state import encode_checkpoint
from penstock.pipeline.serialization import from_json, to_json
from penstock.pipeline.session import PipelineSession
from penstock.sources.storage.local_bytes import read_file


class SavedPipeline(DaliMethods):
    """Mixin with `serialize`, which saves the definition as JSON, and `checkpoint`, which saves the position."""

    # The state with which `run` or an iterator begins; None for the first batch.
    restored_state: Mapping[str, Any] | None

    def _start(self) -> PipelineSession:
        """Return the run, planned if it was not yet."""
        raise NotImplementedError

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """True if the pipeline was made with a checkpoint."""
        return self.restored_state is not None

    @with_call_site
    def checkpoint(self, filename: Any = None) -> bytes:
        """Return the position of `run` as JSON, for ``Pipeline(checkpoint=...)`` with the same definition and data.

        It counts the batches that `run` returned. An iterator over the pipeline has its own position, see
        `DataIterator.checkpoints`.

        Args:
            filename: File to which the JSON is also written, atomically.

        Raises:
            UsageError: The file cannot be written.

        Example:
            >>> from penstock import fn, pipeline_def
            >>> @pipeline_def(batch_size=2)
            ... def numbers():
            ...     return fn.readers.arrays([1, 2, 3], random_shuffle=True)
            >>> pipeline = numbers()
            >>> first = pipeline.run()
            >>> restored = numbers(checkpoint=pipeline.checkpoint())
            >>> restored.run()[0].as_array().tolist() == pipeline.run()[0].as_array().tolist()
            True
        """
        text = encode_checkpoint(self._start().state())
        if filename is not None:
            _write(filename, text)
        return text

    @with_call_site
    def serialize(self, define_graph: None = None, filename: Any = None) -> bytes:
        """Return the definition as JSON: operators, arguments, paths of data sets, arrays, options of the pipeline.

        Args:
            define_graph: Not supported.
            filename: File to which the JSON is also written, atomically.

        Raises:
            UsageError: An argument of an operator is code, as in `python_function`.

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
        # Not `graph`, which requires the kind of each fed input: a definition can be serialized before anything was
        # fed.
        text = to_json(
            self._recorded(), {"batch_size": self.max_batch_size, **{name: getattr(self, name) for name in names}}
        )
        if filename is not None:
            _write(filename, text)
        return text

    @classmethod
    @with_call_site
    def deserialize(
        cls, serialized_pipeline: bytes | str | None = None, filename: Any = None, **arguments: Any
    ) -> Self:
        """Return the pipeline that was serialized. Runs no code but the operators of installed packages.

        Args:
            serialized_pipeline: Result of `serialize`.
            filename: File that `serialize` wrote, instead of `serialized_pipeline`.
            **arguments: Options of the pipeline that replace the serialized ones.

        Raises:
            UsageError: Neither or both are given.
            StateError: The bytes are not a serialized pipeline.
        """
        if (serialized_pipeline is None) == (filename is None):
            raise UsageError("deserialize takes the result of serialize, or the name of a file that contains it")
        try:
            text = read_file(os.fspath(filename)).tobytes() if serialized_pipeline is None else serialized_pipeline
        except (OSError, TypeError, ValueError) as error:
            raise _file_error(filename, "read", error) from error
        options, name, define = from_json(text)
        # A drawn seed is serialized as well. Without this flag it would count as the user's and order the readers,
        # which otherwise use seed 0.
        seed_is_given = options.pop("seed_is_given", True)
        pipeline: Any = cls(**{**options, **arguments})
        if "seed" not in arguments:
            pipeline.seed_is_given = seed_is_given
        pipeline.name = name
        pipeline.define(define)
        return pipeline

    @with_call_site
    def deserialize_and_build(self, serialized_pipeline: bytes | str) -> None:
        """Take over the definition of a serialized pipeline, and plan it.

        The batch size and the seed come from the serialized pipeline, unless this pipeline was made with them.

        Args:
            serialized_pipeline: Result of `serialize`.

        Raises:
            StateError: The bytes are not a serialized pipeline.

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
            # The trace got its rows from the missing batch size in `__init__`, so they are set again before a node is
            # recorded.
            self.max_batch_size = options["batch_size"]
            pipeline.set_block(self.max_batch_size, self.max_batch_size)
        pipeline.define(define)
        self.build()


def _write(filename: Any, content: bytes) -> None:
    try:
        # The previous file stays whole if the disk is full or the process is killed. `resolve` keeps symbolic links.
        write_atomically(Path(filename).resolve(), [content], mode=0o666)
    except (OSError, TypeError, ValueError) as error:
        raise _file_error(filename, "written", error) from error


def _file_error(name: Any, action: str, error: OSError | TypeError | ValueError) -> UsageError:
    return UsageError(f"the file cannot be {action}: {error_text(error)}", given=short_repr(name))
