"""python_function: a user's own function for NumPy, on the host, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Unpack, cast

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError
from penstock.graph.kinds import Range
from penstock.graph.operator import Common, Operator, SampleContext, SampleKernel
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply_many
from penstock.operators.axes import check_layout
from penstock.operators.user_code.code import UserCode
from penstock.types import as_dtype

_FILLERS = (96, 160)
"""Extents that stand for an unknown one while a function is tried: what differs between the two is unknown after it."""

_KIND = "python_function"


@dataclass(frozen=True)
class PythonFunction(Operator, SampleKernel):
    """A function from arrays to arrays, of one sample.

    Args:
        code: the function.
        num_outputs: how many arrays it returns.
        layouts: per output its layout, "" where it has none.
        kinds: per output its dtype and rank, where the user tells them; empty where the function is tried.
    """

    reads_content: ClassVar[bool] = True
    code: UserCode
    num_outputs: int
    layouts: tuple[str, ...]
    kinds: tuple[tuple[np.dtype[Any], int], ...]

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """What the function makes of zeros, unless the user says what it gives."""
        found = [(dtype, (None,) * ndim) for dtype, ndim in self.kinds] or self._tried(inputs)
        return tuple([self._spec(number, *what) for number, what in enumerate(found)])

    def _spec(self, number: int, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> Spec:
        bare = Spec(dtype, shape)
        return replace(
            bare, layout=check_layout(self.layouts[number], bare, len(shape), f"fn.{_KIND}, output {number}")
        )

    def _tried(self, inputs: Sequence[Spec]) -> list[tuple[np.dtype[Any], tuple[int | None, ...]]]:
        fillers = _FILLERS[: 1 if all(spec.dense for spec in inputs) else 2]
        results: list[list[Array]] = []
        for filler in fillers:
            zeros = [np.zeros([filler if n is None else n for n in spec.shape], spec.dtype) for spec in inputs]
            try:
                results.append(self._outputs(self.code(*zeros)))
            except Exception as error:
                raise DefinitionError(
                    f"fn.{_KIND}: {self.code} fails on zeros, so what it gives is not known: "
                    f"{type(error).__name__}: {error}",
                    given=", ".join(f"{zero.dtype}{list(zero.shape)}" for zero in zeros),
                    fix="say what it gives: dtype=, ndim=",
                ) from error
        found: list[tuple[np.dtype[Any], tuple[int | None, ...]]] = []
        for arrays in zip(*results, strict=True):
            sizes = zip(*(array.shape for array in arrays), strict=True)
            found.append((arrays[0].dtype, tuple(size[0] if len(set(size)) == 1 else None for size in sizes)))
        return found

    def _outputs(self, result: Any) -> list[Array]:
        if self.num_outputs == 0:
            return []
        outputs = list(cast(Sequence[Any], result)) if isinstance(result, tuple) else [result]
        if len(outputs) != self.num_outputs or any(output is None for output in outputs):
            raise SampleError(
                f"{self.code} returns another number of outputs than num_outputs says",
                given=f"{0 if result is None else len(outputs)} outputs",
                expected=f"{self.num_outputs}",
            )
        return [np.asarray(output) for output in outputs]

    def sample(self, context: SampleContext, *inputs: Any) -> Any:
        """One sample. The function gets copies: it may change them."""
        outputs = self._outputs(self.code(*(np.array(sample) for sample in inputs)))
        for output, (dtype, ndim) in zip(outputs, self.kinds, strict=False):
            if (output.dtype, output.ndim) != (dtype, ndim):
                raise SampleError(
                    f"{self.code} gives another dtype or rank than the definition says",
                    given=f"{output.dtype}{list(output.shape)}",
                    expected=f"{dtype} with {ndim} axes",
                )
        return tuple(outputs)


@operator("python_function")
def python_function(
    *inputs: DataNode,
    function: Callable[..., Any],
    num_outputs: Annotated[int, Range(0, 1000)] = 1,
    output_layouts: str | Sequence[str] | None = None,
    batch_processing: bool = False,
    dtype: Any = None,
    ndim: int | Sequence[int] | None = None,
    **common: Unpack[Common],
) -> Any:
    """Call a Python function with each sample, on the host.

    It runs on the pipeline's threads, several samples at a time. What it gives must be known before there are data:
    it is called with zeros while the definition is traced, unless `dtype` and `ndim` say it.

    Args:
        inputs: one node per argument of the function.
        function: takes a NumPy array per input, and returns an array or a tuple of arrays.
        num_outputs: how many arrays it returns; 0 for None.
        output_layouts: the layout of the outputs: one for all, or a list with those of the first outputs. An output
            without one has no layout: the function may have moved the axes.
        batch_processing: not offered; a function that needs the whole batch is one for `fn.jax_function`.
        dtype: the element type of the outputs, one for all or a list with one per output.
        ndim: their number of axes, likewise.
        **common: what every operator takes.

    Returns:
        A node per output: one, a tuple of several, or None.

    Raises:
        DefinitionError: the function fails on zeros.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     x = fn.readers.arrays(np.float32([[3, 1, 2], [6, 5, 4]]))
        ...     pipeline.set_outputs(fn.python_function(x, function=np.sort))
        >>> pipeline.run()[0].as_array().tolist()
        [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    """
    if not callable(function):
        raise ArgumentTypeError(f"fn.{_KIND} takes a function", given=repr(function))
    if batch_processing:
        raise DefinitionError(
            f"fn.{_KIND} works sample by sample: a host batch is computed in chunks",
            given="batch_processing=True",
            fix="a function for one sample, or fn.jax_function for one that needs the batch",
        )
    if (dtype is None) != (ndim is None):
        raise DefinitionError(f"fn.{_KIND}: dtype and ndim go together", given=f"dtype={dtype}, ndim={ndim}")
    kinds: tuple[tuple[np.dtype[Any], int], ...] = ()
    if dtype is not None:
        listed = cast(list[Any], dtype) if isinstance(dtype, list | tuple) else [dtype] * num_outputs
        dtypes = [as_dtype(each) for each in listed]
        ranks = list(cast(Sequence[int], ndim)) if isinstance(ndim, list | tuple) else [cast(int, ndim)] * num_outputs
        if len(dtypes) != num_outputs or len(ranks) != num_outputs:
            raise DefinitionError(f"fn.{_KIND}: dtype and ndim have one entry, or one per output")
        kinds = tuple(zip(dtypes, ranks, strict=True))
    given = [output_layouts] * num_outputs if isinstance(output_layouts, str) else list(output_layouts or ())
    if len(given) > num_outputs:
        raise DefinitionError(
            f"fn.{_KIND}: output_layouts has one layout, or at most one per output",
            given=f"{len(given)} layouts",
            expected=f"up to {num_outputs}",
        )
    layouts = (*given, *[""] * (num_outputs - len(given)))
    made = PythonFunction(UserCode(function), num_outputs, layouts, kinds)
    nodes = apply_many(made, *inputs, common=common)
    return nodes[0] if num_outputs == 1 else nodes or None
