"""`Pipeline` and `pipeline_def` of rocAL's `amd.rocal.pipeline`."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

import jax

from penstock import fn as core
from penstock import pipeline as core_pipeline
from penstock.core import user_call_site, with_call_site
from penstock.errors import ContextError, UnknownNameError, UsageError, short_repr
from penstock.graph import DataNode, check_annotations
from penstock.iterate import DataIterator
from penstock.pipeline.pipeline_decorator import definition_name, split_arguments
from penstock.rocal import types
from penstock.types import INT32, LastBatchPolicy

# Name of the pipeline's only reader. The iterator counts epochs by it.
READER = "reader"

# Methods of rocAL's Pipeline that are not supported, by the alternative.
_REFUSED = {
    "the iterator's get_state(), a few numbers, is the checkpoint": "checkpoint",
    "arrays come from run() or the iterator, and numpy.asarray or DLPack copies them": "copyToExternalTensor",
    "boxes are not offered yet": (
        "copy_encoded_boxes_and_lables get_bounding_box_cords get_bounding_box_count get_bounding_box_labels "
        "get_encoded_boxes_and_lables get_matched_indices"
    ),
    "pass the number, or a node of fn.random": "create_float_param create_int_param get_float_value get_int_value",
    "call the definition again; the iterator's set_state() continues the stream": "deserialize",
    "members of archives are not offered yet": "get_ascii_datas",
    "there is no native pipeline": "get_handle",
    "the iterator's order is a function of the seed; see penstock.sources.order.sample_order": "get_image_id",
    "an error names the file of its sample": "get_image_name get_image_name_length",
    "samples of a batch have one size": "get_img_sizes get_roi_img_sizes",
    "is_nonpadding of a peekable iterator": "get_last_batch_padded_size",
    "masks are not offered yet": "get_mask_coordinates get_mask_count",
    "call the definition again; the iterator's get_state() is what has to be kept": "serialize",
    "make another pipeline; batches are a function of the definition": "update_float_param update_int_param",
}
REFUSED = {name: alternative for alternative, names in _REFUSED.items() for name in names.split()}


@dataclass
class ReaderOutputs:
    """Properties of a pipeline's reader.

    Args:
        labels: Class number of each sample; None for a reader without labels.
        policy: Treatment of an incomplete last batch.
    """

    labels: DataNode | None
    policy: LastBatchPolicy


class Pipeline:
    """Pipeline for one device, with rocAL's arguments.

    Args:
        batch_size: Samples per batch of this pipeline.
        num_threads: Threads for host work; 0 uses the default of penstock.
        device_id: Index of the local device, for a list of pipelines without a sharding.
        seed: Seed of random numbers and shuffles. With -1, random numbers use a random seed and shuffles use 0. A list
            uses the seed of its first pipeline.
        exec_pipelined: True prefetches batches.
        prefetch_queue_depth: Number of batches to prefetch.
        exec_async: True runs host work on threads.
        rocal_cpu: True keeps operators on the host where possible; otherwise the planner chooses.
        bytes_per_sample, max_streams, default_cuda_stream_priority, output_memory_type: Hints without effect.
        tensor_layout, tensor_dtype, reverse_channels, mean, std: No effect on arrays for JAX, as in rocAL. The
            operators set layout, dtype and normalization.

    Raises:
        UsageError: The batch size or the number of threads is out of range.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from penstock.rocal import fn, types
        >>> root = Path(tempfile.mkdtemp())
        >>> _ = (root / "test_batch.bin").write_bytes((bytes([7]) + bytes(3072)) + (bytes([9]) + bytes(3072)))
        >>> pipeline = Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images = fn.readers.cifar10(file_root=root, filename_prefix="test_batch")
        ...     pipeline.set_outputs(fn.crop_mirror_normalize(images, output_dtype=types.FLOAT))
        >>> images, = pipeline.run()
        >>> images.shape, pipeline.get_image_labels().tolist()
        ((2, 3, 32, 32), [7, 9])
    """

    @check_annotations
    def __init__(
        self,
        batch_size: int = -1,
        num_threads: int = 0,
        device_id: int = 0,
        seed: int = 1,
        exec_pipelined: bool = True,
        prefetch_queue_depth: int = 2,
        exec_async: bool = True,
        bytes_per_sample: int = 0,
        rocal_cpu: bool = False,
        max_streams: int = -1,
        default_cuda_stream_priority: int = 0,
        tensor_layout: types.TensorLayout = types.NCHW,
        reverse_channels: bool = False,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        tensor_dtype: types.TensorDataType = types.FLOAT,
        output_memory_type: types.MemoryType | None = None,
    ) -> None:
        self.core = core_pipeline.Pipeline(
            batch_size=batch_size,
            # rocAL's default is 0, DALI's and penstock's is -1.
            num_threads=num_threads or -1,
            device_id=device_id,
            seed=seed,
            exec_pipelined=exec_pipelined,
            prefetch_queue_depth=prefetch_queue_depth,
            exec_async=exec_async,
            # The values of the members are penstock's placements, "host" and "auto".
            placement=(types.CPU if rocal_cpu else types.GPU).value,
        )
        self.reading: ReaderOutputs | None = None
        self.num_classes = 0
        self._iterator: DataIterator | None = None
        self._batch: list[jax.Array] = []
        self._taken = 0  # batches of this epoch

    def __enter__(self) -> Self:
        self.core.__enter__()
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _entered.set(_entered.get()[:-1])
        self.core.__exit__(kind, error, at)

    def __getattr__(self, name: str) -> NoReturn:
        if name in REFUSED:
            # Also an AttributeError, so `hasattr` returns False.
            raise UnknownNameError(f"rocAL's Pipeline.{name} is not offered", fix=REFUSED[name], where=user_call_site())
        raise AttributeError(f"a Pipeline has no attribute {name!r}")

    @with_call_site
    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs of the pipeline. The labels of the reader, if any, are added as the last output."""
        nodes = [node for output in outputs for node in (output if isinstance(output, list | tuple) else [output])]
        # The label nodes need a current pipeline, also if the caller has left its `with` block.
        with self:
            self.core.set_outputs(*nodes, *self._labels())

    def _labels(self) -> list[DataNode]:
        if self.reading is None or self.reading.labels is None:
            return []
        if self.num_classes:
            return [core.one_hot(self.reading.labels, num_classes=self.num_classes, dtype=INT32)]
        # Readers return labels of shape (1,), as in DALI. A batch of rocAL's labels has the shape (batch_size,).
        return [core.reshape(self.reading.labels, shape=[])]

    @with_call_site
    def build(self) -> None:
        """Plan and compile the pipeline.

        Raises:
            PenstockError: The definition is invalid, or its first sample cannot be read.
        """
        self.core.build()

    @with_call_site
    def run(self) -> list[jax.Array]:
        """Return the next batch as a list with one array per output, without the labels.

        Raises:
            StopIteration: The epoch has ended. `rocal_reset_loaders` starts the next one.
        """
        self._batch = list(next(self._epochs()).values())
        self._taken += 1
        return self.get_output_tensors()

    def _epochs(self) -> DataIterator:
        # Created at the first use, because `set_seed` may still change the seed.
        if self._iterator is None:
            self._iterator = DataIterator(**iterator_arguments(self))
        return self._iterator

    def rocal_run(self) -> int:
        """Run the next batch. Return 0, or 1 at the end of the epoch."""
        try:
            self.run()
        except StopIteration:
            return 1
        return 0

    def get_output_tensors(self) -> list[jax.Array]:
        """Return the outputs of the last batch."""
        return self._batch[: len(self._batch) - len(self._labels_made)]

    @property
    def _labels_made(self) -> list[jax.Array]:
        return self._batch[-1:] if self.reading is not None and self.reading.labels is not None else []

    @with_call_site
    def get_image_labels(self) -> jax.Array:
        """Return the labels of the last batch, int32 of shape (batch_size,); with `fn.one_hot`, (batch_size, classes).

        Raises:
            ContextError: The pipeline did not run yet, or its reader does not have labels.
        """
        if not self._labels_made:
            raise ContextError("there are no labels", fix="use a reader with labels, and call run first")
        return self._labels_made[0]

    get_one_hot_encoded_labels = get_image_labels

    def rocal_reset_loaders(self) -> None:
        """Start the next epoch."""
        if self._iterator is not None:
            self._iterator.next_epoch()
            self._taken = 0

    @with_call_site
    def get_remaining_images(self) -> int:
        """Return the number of samples that `run` will still deliver in this epoch, including padding."""
        return (len(self._epochs()) - self._taken) * self.core.max_batch_size

    def is_empty(self) -> bool:
        """Return True if the epoch has ended."""
        return self.get_remaining_images() == 0

    def rocal_release(self) -> None:
        """Stop the threads of the pipeline and its iterator."""
        self.core.close()
        if self._iterator is not None:
            self._iterator.close()

    @check_annotations
    def set_seed(self, seed: int = 0) -> None:
        """Set the seed. Call it before the first batch."""
        self.core.seed, self.core.seed_is_given = seed, True

    def timing_info(self) -> Mapping[str, Any]:
        """Return the statistics of the iterator by stage, empty before the first batch."""
        return {} if self._iterator is None else self._iterator.stats()


# Pipelines whose `with` blocks are open in this thread, innermost last. A stack, so that pipelines can be nested.
_entered: ContextVar[tuple[Pipeline, ...]] = ContextVar("entered_pipelines", default=())


def current_pipeline() -> Pipeline:
    """Return the pipeline whose definition is being traced.

    Raises:
        ContextError: No pipeline is being traced.
    """
    if not (entered := _entered.get()):
        raise ContextError("fn was called outside a pipeline", fix="call it inside `with pipeline:`")
    return entered[-1]


def iterator_arguments(pipelines: Pipeline | Sequence[Pipeline]) -> dict[str, Any]:
    """Return the arguments of `DataIterator` for pipelines.

    Raises:
        UsageError: An item is not a rocAL pipeline, or the pipelines differ in their last-batch policies.
    """
    group = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines)
    if not group or not all(isinstance(pipeline, Pipeline) for pipeline in group):
        raise UsageError("one pipeline or a list of them is needed", given=short_repr(pipelines))
    readings = [pipeline.reading for pipeline in group]
    # One iterator reads for all pipelines of the list, so it has one policy. rocAL's default is FILL.
    policies = {LastBatchPolicy.FILL if reading is None else reading.policy for reading in readings}
    if len(policies) > 1:
        raise UsageError("the pipelines treat the last batch differently", given=", ".join(p.name for p in policies))
    return {
        "pipelines": [pipeline.core for pipeline in group],
        # The names are never seen: rocAL's iterators return lists.
        "output_map": [str(number) for number in range(group[0].core.num_outputs)],
        "reader_name": None if readings[0] is None else READER,
        "last_batch_policy": policies.pop(),
    }


def pipeline_def(fn: Callable[..., Any] | None = None, **pipeline_arguments: Any) -> Any:
    """Convert a function that defines a graph to a function that returns a `Pipeline`.

    Args:
        fn: Definition, which calls operators and returns a node or a tuple of nodes.
        **pipeline_arguments: Defaults for arguments of `Pipeline`. A call can override them.

    Returns:
        A function that takes the arguments of the definition and of `Pipeline`, and returns the pipeline.

    Example:
        >>> from penstock.rocal import fn
        >>> @pipeline_def(batch_size=2, seed=-1)
        ... def draws():
        ...     return fn.random.uniform(range=[0.0, 1.0])
        >>> draws().run()[0].shape
        (2,)
    """
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_arguments)
    definition = fn
    options = frozenset(inspect.signature(Pipeline).parameters)

    @functools.wraps(definition)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        _, ours, theirs = split_arguments(definition, pipeline_arguments, kwargs, options)
        pipeline = Pipeline(**theirs)
        # Plans and errors name the user's function.
        pipeline.core.name = definition_name(definition)
        with pipeline:
            pipeline.set_outputs(definition(*args, **ours))
        return pipeline

    return make
