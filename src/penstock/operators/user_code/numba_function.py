"""numba_function: a user's own loops, compiled by numba, on the host, by sample or by batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core.columns import Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import PerformanceHint
from penstock.graph.ir.operator import BatchContext, HostBatchKernel, Operator, WholeBatchKernel
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import common_arguments, operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import Rank
from penstock.operators.user_code.function_identity import FunctionIdentity, FunctionSnapshot
from penstock.operators.user_code.numba_batch_loop import Run, Setup, Shapes, run_loop, setup_loop
from penstock.operators.user_code.numpy_function import Kinds
from penstock.types import as_dtype

_KIND = "numba_function"
_NEEDED = ("C_CONTIGUOUS", "ALIGNED", "WRITEABLE")


@dataclass(frozen=True)
class _NumbaFunction(Operator):
    """A function that fills its outputs.

    Args:
        run: the function.
        setup: what writes the shapes of the outputs; None where they are the inputs'.
        outputs: per output its dtype and rank.
        inputs: what the user says of the inputs.
    """

    run: FunctionIdentity
    setup: FunctionIdentity | None
    outputs: Kinds
    inputs: Kinds

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """What the user says; where there is no setup function, in the inputs' shapes."""
        given = tuple((spec.dtype, len(spec.shape)) for spec in inputs)
        if given != self.inputs:
            raise DefinitionError(
                f"fn.{_KIND}: the inputs are of other kinds than in_types and ins_ndim say",
                given=", ".join(map(str, inputs)),
                expected=", ".join(f"{dtype} with {ndim} axes" for dtype, ndim in self.inputs),
            )
        specs = self._specs(inputs)
        _ = self._loops  # what numba cannot compile is said now, not by the first batch
        return specs

    def _specs(self, inputs: Sequence[Spec]) -> tuple[Spec, ...]:
        if self.setup is not None:
            return tuple([Spec(dtype, (None,) * ndim) for dtype, ndim in self.outputs])
        for number, (_, ndim) in enumerate(self.outputs):
            if number >= len(inputs) or len(inputs[number].shape) != ndim:
                raise DefinitionError(
                    f"fn.{_KIND}: without setup_fn an output has the shape of the input of the same number",
                    given=f"output {number} with {ndim} axes",
                    fix="setup_fn=..., a function that writes the shapes of the outputs",
                )
        return tuple([Spec(dtype, inputs[n].shape) for n, (dtype, _) in enumerate(self.outputs)])

    @functools.cached_property
    def _loops(self) -> tuple[Run, Setup | None]:
        """What computes a batch, compiled once: for the shapes of the outputs, and for the outputs."""
        seen = tuple([(dtype, max(ndim, 1)) for dtype, ndim in self.inputs])  # a number is seen as an array of one
        run = self._compiled(self.run, run_loop, self.outputs, seen)
        counts = len(self.outputs), len(self.inputs)
        return run, None if self.setup is None else self._compiled(self.setup, setup_loop, *counts)

    def _compiled(self, code: FunctionIdentity, make: Callable[..., Any], *kinds: Any) -> Any:
        try:
            return make(FunctionSnapshot(code.function), *kinds, by_batch=isinstance(self, WholeBatchKernel))
        except Exception as error:
            raise DefinitionError(
                f"fn.{_KIND}: numba cannot compile {code}: {type(error).__name__}: {error}",
                fix="what numba knows of Python and NumPy, in nopython mode; other functions can run in "
                "fn.python_function",
            ) from error

    def computed(self, context: BatchContext, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The outputs for all samples: an array, where they have one shape."""
        run, setup = self._loops
        ins = [_ready(column, dtype) for column, (dtype, _) in zip(columns, self.inputs, strict=True)]
        given = [_shapes(column) for column in ins]
        wanted = given if setup is None else [np.zeros((context.rows, ndim), np.int64) for _, ndim in self.outputs]
        if setup is not None:
            setup(wanted, given)
        outs: list[Column] = []
        for shapes, (dtype, _) in zip(wanted, self.outputs, strict=False):
            shape, out = tuple(shapes[0].tolist()), None if outs else context.out
            if not (shapes == shape).all():
                outs.append([np.empty(each, dtype) for each in shapes.tolist()])
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
    """A function of one sample."""

    accepts_ragged: ClassVar[bool] = True

    def batch(self, context: BatchContext, *inputs: Column) -> Any:
        """The samples' outputs."""
        return self.computed(context, inputs)


@dataclass(frozen=True)
class NumbaBatchFunction(_NumbaFunction, WholeBatchKernel):
    """A function of all samples."""

    def whole_batch(self, context: BatchContext, *inputs: Column) -> Any:
        """The outputs of all samples."""
        return self.computed(context, inputs)


def _ready(column: Column, dtype: np.dtype[Any]) -> Column:
    """A column as machine code takes it, whose samples are contiguous and may be written."""
    if isinstance(column, np.ndarray):
        return np.require(column, dtype, _NEEDED)
    return [each if each.flags.carray and each.dtype == dtype else np.require(each, dtype, _NEEDED) for each in column]


def _shapes(column: Column) -> Shapes:
    """The shape of each sample."""
    if isinstance(column, np.ndarray):
        return np.full((len(column), column.ndim - 1), column.shape[1:], np.int64)
    return np.array([each.shape for each in column], np.int64)


@operator(_KIND)
def numba_function(
    *inputs: DataNode,
    run_fn: Callable[..., Any],
    out_types: Any,
    in_types: Any,
    outs_ndim: Rank | Sequence[Rank],
    ins_ndim: Rank | Sequence[Rank],
    setup_fn: Callable[..., Any] | None = None,
    batch_processing: bool = False,
    blocks: PerformanceHint[Any] = None,
    threads_per_block: PerformanceHint[Any] = None,
) -> Any:
    """Compile a function by numba, and call it with each sample, or with all samples of a batch, on the host.

    It runs without Python's lock, on several threads.

    Args:
        inputs: one node per input, up to 6.
        run_fn: takes an array per output, which it fills, then one per input. It can be compiled in nopython mode.
        out_types: the element type of each output, one or a list.
        in_types: of each input.
        outs_ndim: the number of axes of each output, one or a list.
        ins_ndim: of each input.
        setup_fn: takes the shapes of the outputs, which it writes, and of the inputs: for each output, or input, a
            matrix with a row per sample, of as many samples as it is given. None: an output has the shape of the input
            of the same number.
        batch_processing: whether `run_fn` takes a list of arrays per output and input, with an array for each sample
            of the batch. What it gives for a sample may then depend on the batch that the sample is in.
        blocks: a hint of DALI's for GPUs.
        threads_per_block: likewise.

    Returns:
        A node, or a list of several.

    Raises:
        DefinitionError: the inputs are of other kinds, a shape is not known, or numba cannot compile a function.

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
            f"fn.{_KIND} runs on the host", given='device="gpu"', fix="fn.jax_function, which runs on devices"
        )
    kind = NumbaBatchFunction if batch_processing else NumbaFunction
    made = kind(
        FunctionIdentity(run_fn),
        None if setup_fn is None else FunctionIdentity(setup_fn),
        _kinds("out_types", out_types, "outs_ndim", outs_ndim),
        _kinds("in_types", in_types, "ins_ndim", ins_ndim),
    )
    nodes = apply_many(made, *inputs)
    return nodes[0] if len(nodes) == 1 else nodes


def _kinds(types: str, dtypes: Any, ndim: str, ranks: int | Sequence[int]) -> Kinds:
    listed = list(cast(Sequence[Any], dtypes)) if isinstance(dtypes, list | tuple) else [dtypes]
    each = [ranks] if isinstance(ranks, int) else list(ranks)
    if len(listed) != len(each):
        raise DefinitionError(
            f"fn.{_KIND}: {types} and {ndim} have as many entries", given=f"{len(listed)} and {len(each)}"
        )
    return tuple([(as_dtype(dtype), rank) for dtype, rank in zip(listed, each, strict=True)])
