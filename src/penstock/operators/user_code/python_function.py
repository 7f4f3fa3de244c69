"""python_function and dl_tensor_python_function: Python functions of the user on the host, per sample or per batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Unpack, cast

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Array, Column
from penstock.engine.host.batch_buffers import BatchBuffers
from penstock.errors import SampleError
from penstock.graph import (
    BatchContext,
    Default,
    PerformanceHint,
    Range,
    SampleContext,
    SampleKernel,
    WholeBatchKernel,
    apply_many,
    operator,
)
from penstock.graph.tracing.trace import DataNode, as_value, defining_trace
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.numpy_function import NumpyFunction, as_array, kinds_of
from penstock.operators.user_code.outputs import list_outputs, per_output


@dataclass(frozen=True)
class PythonFunction(NumpyFunction, SampleKernel):
    """A function of one sample."""

    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """Call the function with one sample of each input."""
        return self._call(samples, None)

    def _call(self, samples: Sequence[Array], bits: Any) -> Sequence[Array]:
        result = self.code(*samples, **({"rng": self.generator(bits)} if self.takes_rng else {}))
        outputs = list_outputs(self.code, result, self.num_outputs, SampleError, tuple)
        return [as_array(self.code, output) for output in outputs]

    def sample(self, context: SampleContext, *inputs: Any) -> Any:
        """Call the function with copies of a sample: it may change its arguments."""
        outputs = self._call([np.array(sample) for sample in inputs], context.bits)
        self.check(outputs)
        return tuple([_kept(output, None if number else context.out) for number, output in enumerate(outputs)])


@dataclass(frozen=True)
class BatchFunction(NumpyFunction, WholeBatchKernel):
    """A function of lists of samples.

    Args:
        rows: Number of samples per batch.
    """

    rows: int

    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """Call the function with a batch of equal samples, and return the outputs of the first."""
        batch = [[sample.copy() for _ in range(self.rows)] for sample in samples]
        return [column[0] for column in self._call(batch, [None] * self.rows)]

    def whole_batch(self, context: BatchContext, *inputs: Column) -> Any:
        """Call the function with copies of all samples: it may change its arguments."""
        columns = self._call(list(map(self._copies, inputs)), context.bits)
        for sample in zip(*columns, strict=True) if self.kinds else ():
            self.check(sample)
        return tuple(
            [
                [_kept(sample, None if number else context.out) for sample in column]
                for number, column in enumerate(columns)
            ]
        )

    @cached_property
    def _memory(self) -> BatchBuffers:
        return BatchBuffers(keep=4)

    def _copies(self, column: Column) -> list[Array]:
        """Return a copy of each sample. Samples of one shape share a buffer."""
        if not isinstance(column, np.ndarray):
            return [np.array(sample) for sample in column]
        # One copy of a whole batch is much faster than one per sample, and so is memory that was used before. A buffer
        # is reused only after the function has dropped all arrays in it.
        copied = self._memory.empty(column.shape, column.dtype)
        copied[...] = column
        return [copied[row, ...] for row in range(len(copied))]

    def _call(self, inputs: Sequence[list[Array]], bits: Any) -> list[list[Array]]:
        result = self.code(*inputs, **({"rng": list(map(self.generator, bits))} if self.takes_rng else {}))
        # A single output may come as its list of samples, or as a tuple that holds this list.
        is_wrapped = isinstance(result, tuple) and list(map(type, cast(tuple[Any, ...], result))) in ([list], [tuple])
        is_bare = self.num_outputs == 1 and not is_wrapped
        outputs = list_outputs(self.code, (result,) if is_bare else result, self.num_outputs, SampleError)
        columns = [[as_array(self.code, sample) for sample in column] for column in outputs]
        rows = len(inputs[0]) if inputs else self.rows
        for column in columns:
            if len(column) != rows:
                raise SampleError(
                    f"{self.code} must return as many samples as it receives",
                    given=len(column),
                    expected=f"{rows}, an array for each sample",
                )
        return columns


def _kept(output: Array, out: Array | None) -> Array:
    """Return an output that stays the same when the function writes to its memory again."""
    # The caller copies a dense output into `out` at once. It refers to any other output until the batch is delivered.
    return output.copy() if out is None else output


class FunctionArguments(TypedDict, total=False):
    """Outputs of a Python function.

    Args:
        num_outputs: Number of arrays that it returns; 0 for None.
        output_layouts: Layout of all outputs, or a list with those of the first outputs.
        dtype: Element type of the outputs, one for all or a list.
        ndim: Number of axes of the outputs, one for all or a list.
    """

    num_outputs: Annotated[int, Range(0, 1000), Default(1)]
    # By default an output has no layout, because the function may have moved the axes.
    output_layouts: Annotated[str | Sequence[str] | None, Default(None)]
    dtype: Annotated[Any, Default(None)]
    ndim: Annotated[Rank | Sequence[Rank] | None, Default(None)]


# As in DALI, Python functions run even if no output needs them: users call them for their side effects.
@operator("python_function", defaults={"preserve": True})
def python_function(
    *inputs: DataNode,
    function: Callable[..., Any],
    batch_processing: bool = False,
    **arguments: Unpack[FunctionArguments],
) -> Any:
    """Call a Python function with each sample, or with all samples of a batch, on the host.

    The function runs on the threads of the pipeline, for several samples at a time. The dtype and rank of its outputs
    must be known before there are data. Unless you give `dtype` and `ndim`, the function is called while the definition
    is traced: with the first sample if an input has unknown extents, otherwise with zeros, and with the first sample if
    it fails on zeros.

    If the function requires a further argument named `rng`, it gets a `numpy.random.Generator` that depends only on the
    seed, the epoch and the position of the sample; a list of them, one per sample, with `batch_processing`.

    Args:
        inputs: One node per argument of the function, except `rng`.
        function: Function of a NumPy array per input that returns an array or a tuple of arrays.
        batch_processing: If True, the function takes a list of arrays per input, with an array for each sample of the
            batch, and returns a list of as many arrays, or a tuple of such lists. Results may then depend on the other
            samples, so a batch cannot be divided between processes.
        **arguments: See `FunctionArguments`.

    Returns:
        A node, or a list of nodes unless `num_outputs` is 1.

    Raises:
        DefinitionError: The function fails on the first sample.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     x = fn.readers.arrays(np.float32([[3, 1, 2], [6, 5, 4]]))
        ...     swap = lambda samples: samples[::-1]
        ...     ordered = fn.python_function(x, function=np.sort)
        ...     pipeline.set_outputs(ordered, fn.python_function(ordered, function=swap, batch_processing=True))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[4.0, 5.0, 6.0], [1.0, 2.0, 3.0]]]
    """
    return _call(inputs, function, batch_processing, **arguments)


@operator("dl_tensor_python_function", defaults={"preserve": True})
def dl_tensor_python_function(
    *inputs: DataNode,
    function: Callable[..., Any],
    batch_processing: bool = True,
    synchronize_stream: PerformanceHint[bool] = True,
    **arguments: Unpack[FunctionArguments],
) -> Any:
    """Call a function of another library with all samples of a batch, or with each sample, on the host.

    Like `fn.python_function`, but with DLPack tensors: the function receives objects that every library with DLPack
    support takes, such as `torch.from_dlpack` and `numpy.from_dlpack`, and returns tensors in host memory or their
    DLPack capsules.

    Args:
        inputs: One node per argument of the function.
        function: Function of a list of tensors per input, with a tensor for each sample, that returns such a list or a
            tuple of them; without `batch_processing`, a tensor in place of each list.
        batch_processing: If True, the function receives whole batches. The default is DALI's actual one; its
            documentation says False.
        synchronize_stream: DALI's hint; it has no effect.
        **arguments: See `FunctionArguments`.

    Returns:
        A node, or a list of nodes unless `num_outputs` is 1.

    Raises:
        DefinitionError: The function fails on the first sample.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> def twice(tensors):
        ...     return [np.from_dlpack(tensor) * 2 for tensor in tensors]
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     x = fn.readers.arrays(np.float32([[3, 1, 2], [6, 5, 4]]))
        ...     pipeline.set_outputs(fn.dl_tensor_python_function(x, function=twice))
        >>> pipeline.run()[0].as_array().tolist()
        [[6.0, 2.0, 4.0], [12.0, 10.0, 8.0]]
    """
    del synchronize_stream
    return _call(inputs, function, batch_processing, **arguments)


def _call(
    inputs: Sequence[DataNode],
    function: Callable[..., Any],
    by_batch: bool,
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    dtype: Any = None,
    ndim: int | Sequence[int] | None = None,
) -> Any:
    layouts = [layout or "" for layout in per_output("output_layouts", output_layouts, num_outputs, partial=True)]
    code = FunctionIdentity(function)
    takes_rng = code.takes_rng(len(inputs))
    fields = code, num_outputs, tuple(layouts), kinds_of(num_outputs, dtype, ndim), takes_rng
    kernel = BatchFunction(*fields, rows=defining_trace().batch) if by_batch else PythonFunction(*fields)
    nodes = apply_many(kernel.resolve_kinds(list(map(as_value, inputs))), *inputs)
    return nodes[0] if num_outputs == 1 else nodes
