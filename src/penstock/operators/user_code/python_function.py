"""python_function, dl_tensor_python_function: a user's own function for arrays, on the host, by sample or by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, cast

import numpy as np

from penstock.core.columns import Array, Column
from penstock.engine.host.batch_buffers import BatchBuffers
from penstock.errors import ArgumentTypeError, SampleError, short_repr
from penstock.graph.arguments.argument_marks import PerformanceHint, Range
from penstock.graph.ir.operator import BatchContext, SampleContext, SampleKernel, WholeBatchKernel
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode, as_value, defining_trace
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.numpy_function import NumpyFunction, as_array, kinds_of, layouts_of


@dataclass(frozen=True)
class PythonFunction(NumpyFunction, SampleKernel):
    """A function of one sample."""

    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """Its outputs."""
        return [as_array(output) for output in self.outputs(self.code(*samples))]

    def sample(self, context: SampleContext, *inputs: Any) -> Any:
        """One sample. The function gets copies: it may change them."""
        outputs = self.attempt([np.array(sample) for sample in inputs])
        self.check(outputs)
        return tuple(outputs)


@dataclass(frozen=True)
class BatchFunction(NumpyFunction, WholeBatchKernel):
    """A function of lists of samples.

    Args:
        rows: how many samples a batch has.
    """

    rows: int

    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """Its outputs for the first sample of a batch of equal ones."""
        return [column[0] for column in self._call([[sample.copy() for _ in range(self.rows)] for sample in samples])]

    def whole_batch(self, context: BatchContext, *inputs: Column) -> Any:
        """The samples of the outputs. The function gets copies: it may change them."""
        columns = self._call(list(map(self._copies, inputs)))
        for sample in zip(*columns, strict=True) if self.kinds else ():
            self.check(sample)
        return tuple(columns)

    @cached_property
    def _memory(self) -> BatchBuffers:
        return BatchBuffers(keep=4)

    def _copies(self, column: Column) -> list[Array]:
        """A copy of each sample. Samples of one shape share memory, used again when the function has let go of it."""
        if not isinstance(column, np.ndarray):
            return [np.array(sample) for sample in column]
        copied = self._memory.empty(column.shape, column.dtype)
        copied[...] = column
        return [copied[row, ...] for row in range(len(copied))]

    def _call(self, inputs: Sequence[list[Array]]) -> list[list[Array]]:
        result = self.code(*inputs)
        alone = self.num_outputs == 1 and not (
            isinstance(result, tuple) and [type(each) for each in cast(tuple[Any, ...], result)] in ([list], [tuple])
        )
        outputs = self.outputs((result,) if alone else result, (tuple, list))
        columns = [list(map(as_array, column)) for column in outputs]
        rows = len(inputs[0]) if inputs else self.rows
        for column in columns:
            if len(column) != rows:
                raise SampleError(
                    f"{self.code} returns another number of samples than it was given",
                    given=len(column),
                    expected=f"{rows}, an array for each sample",
                )
        return columns


# As in DALI, Python functions run even if no output needs them: users call them for their side effects.
@operator("python_function", defaults={"preserve": True})
def python_function(
    *inputs: DataNode,
    function: Callable[..., Any],
    num_outputs: Annotated[int, Range(0, 1000)] = 1,
    output_layouts: str | Sequence[str] | None = None,
    batch_processing: bool = False,
    dtype: Any = None,
    ndim: Rank | Sequence[Rank] | None = None,
) -> Any:
    """Call a Python function with each sample, or with all samples of a batch, on the host.

    It runs on the pipeline's threads, several samples at a time. The dtype and rank of its outputs must be known before
    there are data. Unless `dtype` and `ndim` give them, the function is called while the definition is traced: with the
    first sample if an input has unknown extents, otherwise with zeros, and with the first sample if it fails on zeros.

    Args:
        inputs: one node per argument of the function.
        function: takes a NumPy array per input, and returns an array or a tuple of arrays.
        num_outputs: how many arrays it returns; 0 for None.
        output_layouts: the layout of the outputs: one for all, or a list with those of the first outputs. An output
            without one has no layout: the function may have moved the axes.
        batch_processing: whether the function takes a list of arrays per input, with an array for each sample of the
            batch, and returns a list of as many arrays, or a tuple of such lists. What it gives for a sample may
            then depend on the batch that the sample is in, so a batch cannot be shared by several processes.
        dtype: the element type of the outputs, one for all or a list with one per output.
        ndim: their number of axes, likewise.

    Returns:
        A node; a list of nodes, where `num_outputs` is not 1.

    Raises:
        DefinitionError: the function fails on the first sample.

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
    made = _made("python_function", function, num_outputs, output_layouts, batch_processing, dtype, ndim)
    return _applied(made, inputs)


@operator("dl_tensor_python_function", defaults={"preserve": True})
def dl_tensor_python_function(
    *inputs: DataNode,
    function: Callable[..., Any],
    num_outputs: Annotated[int, Range(0, 1000)] = 1,
    output_layouts: str | Sequence[str] | None = None,
    batch_processing: bool = True,
    synchronize_stream: PerformanceHint[bool] = True,
    dtype: Any = None,
    ndim: Rank | Sequence[Rank] | None = None,
) -> Any:
    """Call a function of another library with all samples of a batch, or with each, on the host.

    Like `fn.python_function`, but for what is handed over: the function gets objects that every library takes which
    knows DLPack, such as `torch.from_dlpack` and `numpy.from_dlpack`, and returns tensors in host memory, or their
    DLPack capsules.

    Args:
        inputs: one node per argument of the function.
        function: takes a list of tensors per input, with a tensor for each sample, and returns such a list or a tuple
            of them; without `batch_processing` a tensor instead of each list.
        num_outputs: how many tensors it returns; 0 for None.
        output_layouts: as for `fn.python_function`.
        batch_processing: whether it is called with the batch. True is what DALI does, whose manual says False.
        synchronize_stream: a hint of DALI's.
        dtype: the element type of the outputs, one for all or a list with one per output.
        ndim: their number of axes, likewise.

    Returns:
        A node; a list of nodes, where `num_outputs` is not 1.

    Raises:
        DefinitionError: the function fails on the first sample.

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
    made = _made("dl_tensor_python_function", function, num_outputs, output_layouts, batch_processing, dtype, ndim)
    return _applied(made, inputs)


def _made(
    kind: str,
    function: Callable[..., Any],
    num_outputs: int,
    layouts: str | Sequence[str] | None,
    by_batch: bool,
    dtype: Any,
    ndim: int | Sequence[int] | None,
) -> NumpyFunction:
    if not callable(function):
        raise ArgumentTypeError(f"fn.{kind} takes a function", given=short_repr(function))
    kinds = kinds_of(kind, num_outputs, dtype, ndim)
    what = (kind, FunctionIdentity(function), num_outputs, layouts_of(kind, num_outputs, layouts), kinds)
    return BatchFunction(*what, rows=defining_trace().batch) if by_batch else PythonFunction(*what)


def _applied(made: NumpyFunction, inputs: Sequence[DataNode]) -> Any:
    nodes = apply_many(made.settled(list(map(as_value, inputs))), *inputs)
    return nodes[0] if made.num_outputs == 1 else nodes
