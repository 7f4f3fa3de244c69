"""What the operators share that call a user's function for NumPy: what it gives, found out before there are data."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, SampleError, short_repr
from penstock.graph.ir.node import Value
from penstock.graph.ir.operator import Operator
from penstock.graph.layouts import check_layout
from penstock.operators.first_sample import first_sample
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.types import as_dtype

_FILLERS = (96, 160)
"""Extents that stand for an unknown one while a function is tried: what differs between the two is unknown after it."""

_SMALL_FILLERS = (24, 40)
"""The same for samples with more than three unknown extents, which would be of gigabytes."""

_SAY = "say what it gives: dtype=, ndim="

Kinds = tuple[tuple[np.dtype[Any], int], ...]
"""Per output its dtype and rank."""


@dataclass(frozen=True)
class NumpyFunction(Operator):
    """A function from arrays to arrays.

    Args:
        kind: the operator's name.
        code: the function.
        num_outputs: how many arrays it returns.
        layouts: per output its layout, "" where it has none.
        kinds: what the user tells of the outputs; empty where the function is tried.
    """

    reads_content: ClassVar[bool] = True
    kind: str
    code: FunctionIdentity
    num_outputs: int
    layouts: tuple[str, ...]
    kinds: Kinds

    @abstractmethod
    def attempt(self, samples: Sequence[Array]) -> Sequence[Array]:
        """The outputs of the function for one sample of each input."""

    def settled(self, inputs: Sequence[Value]) -> Self:
        """The function, with the dtypes and ranks that it returns for the first sample, where zeros do not tell them.

        Zeros stand for inputs of known extents. An input of unknown extents is its first sample: zeros of any other
        size could be refused, and of any large size could take all memory.

        Args:
            inputs: what it will be called with.

        Raises:
            DefinitionError: it fails on the first sample, too, or that cannot be computed.
        """
        if self.kinds or not self.num_outputs:
            return self
        specs = [value.spec for value in inputs]
        try:
            if all(spec.dense for spec in specs):
                self.infer(*specs)
                return self
        except DefinitionError:
            samples = _first_samples(inputs)
        else:
            try:
                samples = _first_samples(inputs)
            except DefinitionError:
                return self  # what is fed later, and a first sample that is bad, leave nothing but zeros
        try:
            outputs = self.attempt(samples)
        except Exception as failure:  # whatever a function of the user's raises
            raise self._failed("the first sample", failure, samples) from failure
        return replace(self, kinds=tuple([(array.dtype, array.ndim) for array in outputs]))

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """What the function makes of zeros, unless the user or its first sample says what it gives."""
        found = [(dtype, (None,) * ndim) for dtype, ndim in self.kinds] or self._tried(inputs)
        return tuple([self._spec(number, *what) for number, what in enumerate(found)])

    def _spec(self, number: int, dtype: np.dtype[Any], shape: tuple[int | None, ...]) -> Spec:
        bare = Spec(dtype, shape)
        layout = check_layout(self.layouts[number], bare, len(shape), f"fn.{self.kind}, output {number}")
        return replace(bare, layout=layout)

    def _tried(self, inputs: Sequence[Spec]) -> list[tuple[np.dtype[Any], tuple[int | None, ...]]]:
        if not self.num_outputs:
            return []
        unknown = max([spec.shape.count(None) for spec in inputs], default=0)
        fillers = (_SMALL_FILLERS if unknown > 3 else _FILLERS)[: 2 if unknown else 1]
        results: list[Sequence[Array]] = []
        for filler in fillers:
            zeros = [np.zeros([filler if n is None else n for n in spec.shape], spec.dtype) for spec in inputs]
            try:
                results.append(self.attempt(zeros))
            except Exception as error:
                raise self._failed("zeros", error, zeros) from error
        found: list[tuple[np.dtype[Any], tuple[int | None, ...]]] = []
        for arrays in zip(*results, strict=True):
            sizes = zip(*(array.shape for array in arrays), strict=True)
            # nothing is what a part of zeros may have, whose bounds are zeros, too
            found.append((arrays[0].dtype, tuple(max(size) or None if len(set(size)) == 1 else None for size in sizes)))
        return found

    def _failed(self, on: str, error: Exception, samples: Sequence[Array]) -> DefinitionError:
        said = f"{type(error).__name__}: {error}"
        return DefinitionError(
            f"fn.{self.kind}: {self.code} fails on {on}, so what it gives is not known: {said}",
            given=", ".join(f"{sample.dtype}{list(sample.shape)}" for sample in samples),
            fix=_SAY,
        )

    def outputs(self, result: Any, sequences: tuple[type, ...] = (tuple,)) -> list[Any]:
        """What the function returned, as a list with an entry per output.

        Args:
            result: what it returned.
            sequences: the types that hold several outputs.

        Raises:
            SampleError: there are fewer or more.
        """
        if self.num_outputs == 0:
            return []
        outputs = list(cast(Sequence[Any], result)) if isinstance(result, sequences) else [result]
        if len(outputs) != self.num_outputs or any(output is None for output in outputs):
            raise SampleError(
                f"{self.code} returns another number of outputs than num_outputs says",
                given=f"{0 if result is None else len(outputs)} outputs",
                expected=f"{self.num_outputs}",
            )
        return outputs

    def check(self, sample: Sequence[Array]) -> None:
        """Check the outputs of a sample against what the user tells of them.

        Raises:
            SampleError: they are of another kind.
        """
        for output, (dtype, ndim) in zip(sample, self.kinds, strict=False):
            if (output.dtype, output.ndim) != (dtype, ndim):
                raise SampleError(
                    f"{self.code} gives another dtype or rank than the definition says",
                    given=f"{output.dtype}{list(output.shape)}",
                    expected=f"{dtype} with {ndim} axes",
                )


def _first_samples(inputs: Sequence[Value]) -> list[Array]:
    """The first sample of each input, which a function may change."""
    return [np.array(first_sample(value, _SAY)) for value in inputs]


def as_array(output: Any) -> Array:
    """What a function returned for a sample, as an array: also a tensor of another library, or its DLPack capsule."""
    if type(output).__name__ == "PyCapsule":
        return np.from_dlpack(cast(Any, _Capsule(output)))
    return np.asarray(output)


class _Capsule:
    """An array in host memory that is given as a DLPack capsule."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **how: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def kinds_of(kind: str, num_outputs: int, dtype: Any, ndim: int | Sequence[int] | None) -> Kinds:
    """What a user tells of the outputs of a function: one dtype and rank for all, or one for each.

    Raises:
        DefinitionError: one is missing, or there are fewer or more.
    """
    if (dtype is None) != (ndim is None):
        raise DefinitionError(f"fn.{kind}: dtype and ndim go together", given=f"dtype={short_repr(dtype)}, ndim={ndim}")
    if dtype is None:
        return ()
    dtypes = cast(list[Any], dtype) if isinstance(dtype, list | tuple) else [dtype] * num_outputs
    ranks = list(cast(Sequence[int], ndim)) if isinstance(ndim, list | tuple) else [cast(int, ndim)] * num_outputs
    if len(dtypes) != num_outputs or len(ranks) != num_outputs:
        raise DefinitionError(f"fn.{kind}: dtype and ndim have one entry, or one per output")
    return tuple(zip(map(as_dtype, dtypes), ranks, strict=True))


def layouts_of(kind: str, num_outputs: int, layouts: str | Sequence[str] | None) -> tuple[str, ...]:
    """A layout per output, given one for all or those of the first outputs.

    Raises:
        DefinitionError: there are more.
    """
    given = [layouts] * num_outputs if isinstance(layouts, str) else list(layouts or ())
    if len(given) > num_outputs:
        raise DefinitionError(
            f"fn.{kind}: output_layouts has one layout, or at most one per output",
            given=f"{len(given)} layouts",
            expected=f"up to {num_outputs}",
        )
    return (*given, *[""] * (num_outputs - len(given)))
