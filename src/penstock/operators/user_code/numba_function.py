"""numba_function: loops of the user that numba compiles, on the host, per sample or per batch."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import numpy as np

from penstock.core import Column, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    DataNode,
    DType,
    HostBatchKernel,
    Operator,
    PerformanceHint,
    WholeBatchKernel,
    apply_many,
    common_arguments,
    operator,
)
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity, FunctionSnapshot
from penstock.operators.user_code.numba_batch_loop import Run, Setup, Shapes, run_loop, setup_loop
from penstock.operators.user_code.numpy_function import Kinds
from penstock.types import as_dtype

_KIND = "numba_function"
# The compiled loop computes addresses from extents alone. Writable, because numba lets a function write through `flat`
# and `nditer` even into read-only arrays, and a write into the memory of a mapped file would end the process.
_NEEDED = ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE")


@dataclass(frozen=True)
class _NumbaFunction(Operator):
    """A compiled function that fills its outputs.

    Args:
        run: The function.
        setup: Function that writes the shapes of the outputs; None gives them the shapes of the inputs.
        outputs: Dtype and rank of each output.
        inputs: Dtype and rank of each input, as the user declares them.
    """

    reproducible: ClassVar[Literal["always", "in a run", "never"]] = "in a run"
    run: FunctionIdentity
    setup: FunctionIdentity | None
    outputs: Kinds
    inputs: Kinds

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """Return the declared specs, with the shapes of the inputs unless there is a setup function."""
        kinds = tuple((spec.dtype, len(spec.shape)) for spec in inputs)
        if kinds != self.inputs:
            raise DefinitionError(
                "the inputs must have the dtypes and ranks of in_types and ins_ndim",
                given=", ".join(map(str, inputs)),
                expected=", ".join(f"{dtype} with {ndim} axes" for dtype, ndim in self.inputs),
            )
        specs = self._specs(inputs)
        _ = self._loops  # compile while tracing, so that errors of numba show here and not in the first batch
        return specs

    def _specs(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        if self.setup is not None:
            return tuple([Spec(dtype, (None,) * ndim) for dtype, ndim in self.outputs])
        for number, (_, ndim) in enumerate(self.outputs):
            if number >= len(inputs) or len(inputs[number].shape) != ndim:
                raise DefinitionError(
                    "without setup_fn an output has the shape of the input of the same number",
                    given=f"output {number} with {ndim} axes",
                    fix="setup_fn=..., a function that writes the shapes of the outputs",
                )
        return tuple([Spec(dtype, inputs[n].shape) for n, (dtype, _) in enumerate(self.outputs)])

    @functools.cached_property
    def _loops(self) -> tuple[Run, Setup | None]:
        """Compiled loops of a batch: for the outputs, and for their shapes."""
        # As in DALI, the function receives a scalar input as an array of one element.
        inputs = tuple([(dtype, max(ndim, 1)) for dtype, ndim in self.inputs])
        run = self._compile(self.run, run_loop, self.outputs, inputs)
        counts = len(self.outputs), len(self.inputs)
        return run, None if self.setup is None else self._compile(self.setup, setup_loop, *counts)

    def _compile(self, code: FunctionIdentity, make: Callable[..., Any], *kinds: Any) -> Any:
        try:
            return make(FunctionSnapshot(code.function), *kinds, by_batch=isinstance(self, WholeBatchKernel))
        except Exception as error:
            raise DefinitionError(
                f"numba cannot compile {code}: {type(error).__name__}: {error}",
                fix="use the Python and NumPy that numba supports in nopython mode; other functions can run in "
                "fn.python_function",
            ) from error

    def compute(self, context: BatchContext, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Compute the outputs of all samples: an array per output, or a list of arrays if shapes differ."""
        run, setup = self._loops
        ins = [_ready(column, dtype) for column, (dtype, _) in zip(columns, self.inputs, strict=True)]
        in_shapes = [_shapes(column) for column in ins]
        out_shapes = in_shapes
        if setup is not None:
            out_shapes = [np.zeros((context.rows, ndim), np.int64) for _, ndim in self.outputs]
            setup(out_shapes, in_shapes)
        outs: list[Column] = []
        for shapes, (dtype, _) in zip(out_shapes, self.outputs, strict=False):
            # `context.out` is the memory of the batch for the first output. Writing there saves a copy.
            shape, out = tuple(shapes[0].tolist()), None if outs else context.out
            if not (shapes == shape).all():
                outs.append([np.empty(sizes, dtype) for sizes in shapes.tolist()])
            elif out is not None and out.flags.carray and (out.shape[1:], out.dtype) == (shape, dtype):
                outs.append(out)
            else:
                outs.append(np.empty((context.rows, *shape), dtype))
        run(
            outs, [column[:, None] if isinstance(column, np.ndarray) and column.ndim == 1 else column for column in ins]
        )
        return tuple(outs)


@dataclass(frozen=True)
class NumbaFunction(_NumbaFunction, HostBatchKernel):
    """A compiled function of one sample."""

    accepts_ragged: ClassVar[bool] = True

    def batch(self, context: BatchContext, *inputs: Column) -> Any:
        """Compute the outputs of a chunk of samples."""
        return self.compute(context, inputs)


@dataclass(frozen=True)
class NumbaBatchFunction(_NumbaFunction, WholeBatchKernel):
    """A compiled function of all samples of a batch."""

    def whole_batch(self, context: BatchContext, *inputs: Column) -> Any:
        """Compute the outputs of a whole batch."""
        return self.compute(context, inputs)


def _ready(column: Column, dtype: np.dtype[Any]) -> Column:
    """Return a column whose samples are contiguous, aligned and writable."""
    if isinstance(column, np.ndarray):
        return np.require(column, dtype, _NEEDED)
    # The test is far cheaper than np.require, and almost always true.
    return [x if x.flags.carray and x.dtype == dtype else np.require(x, dtype, _NEEDED) for x in column]


def _shapes(column: Column) -> Shapes:
    """Return the shapes of the samples, (rows, axes)."""
    if isinstance(column, np.ndarray):
        return np.full((len(column), column.ndim - 1), column.shape[1:], np.int64)
    return np.array([sample.shape for sample in column], np.int64)


@operator(_KIND)
def numba_function(
    *inputs: DataNode,
    run_fn: Callable[..., Any],
    out_types: DType | Sequence[DType],
    in_types: DType | Sequence[DType],
    outs_ndim: Rank | Sequence[Rank],
    ins_ndim: Rank | Sequence[Rank],
    setup_fn: Callable[..., Any] | None = None,
    batch_processing: bool = False,
    blocks: PerformanceHint[Any] = None,
    threads_per_block: PerformanceHint[Any] = None,
) -> Any:
    """Compile a function with numba, and call it with each sample, or with all samples of a batch, on the host.

    The function runs without the GIL, on several threads.

    Args:
        inputs: One node per input, up to 6.
        run_fn: Function of an array per output, which it fills, then one per input. It must compile in nopython mode.
        out_types: Element type of each output, one or a list.
        in_types: Element type of each input, one or a list.
        outs_ndim: Number of axes of each output, one or a list.
        ins_ndim: Number of axes of each input, one or a list.
        setup_fn: Function of the output shapes, which it writes, and of the input shapes: two tuples with an int64
            matrix per output or input, which has a row per sample. None: an output has the shape of the input of the
            same index.
        batch_processing: If True, `run_fn` takes a list of arrays per output and input, with an array for each sample
            of the batch. Results may then depend on the other samples of the batch.
        blocks: DALI's hint for GPUs; it has no effect.
        threads_per_block: DALI's hint for GPUs; it has no effect.

    Returns:
        A node, or a list of nodes if there are several outputs.

    Raises:
        DefinitionError: The inputs have other dtypes or ranks, a shape is not known, or numba cannot compile a
            function.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> def twice(out0, in0):
        ...     for n in range(len(in0)):
        ...         out0[n] = 2 * in0[n]
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     x = fn.readers.arrays(np.float32([[3, 1, 2], [6, 5, 4]]))
        ...     pipeline.set_outputs(fn.numba_function(
        ...         x, run_fn=twice, out_types=types.FLOAT, in_types=types.FLOAT, outs_ndim=1, ins_ndim=1))
        >>> pipeline.run()[0].as_array().tolist()
        [[6.0, 2.0, 4.0], [12.0, 10.0, 8.0]]
    """
    del blocks, threads_per_block
    if common_arguments().get("device") == "gpu":
        raise DefinitionError(
            "it runs on the host only", given='device="gpu"', fix="fn.jax_function, which runs on devices"
        )
    kind = NumbaBatchFunction if batch_processing else NumbaFunction
    function = kind(
        FunctionIdentity(run_fn),
        None if setup_fn is None else FunctionIdentity(setup_fn),
        _kinds("out_types", out_types, "outs_ndim", outs_ndim),
        _kinds("in_types", in_types, "ins_ndim", ins_ndim),
    )
    nodes = apply_many(function, *inputs)
    return nodes[0] if len(nodes) == 1 else nodes


def _kinds(types: str, dtypes: Any, ndim: str, ranks: int | Sequence[int]) -> Kinds:
    dtypes = list(cast(Sequence[Any], dtypes)) if isinstance(dtypes, list | tuple) else [dtypes]
    ranks = [ranks] if isinstance(ranks, int) else list(ranks)
    if len(dtypes) != len(ranks):
        raise DefinitionError(f"{types} and {ndim} must have as many entries", given=f"{len(dtypes)} and {len(ranks)}")
    return tuple(zip(map(as_dtype, dtypes), ranks, strict=True))
