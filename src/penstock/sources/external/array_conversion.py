"""What users' sources give, as columns: arrays of NumPy, JAX, PyTorch and whatever speaks their protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, SourceError, short_repr


@dataclass(frozen=True)
class SampleKind:
    """What the samples of one output are, as far as it is known.

    Args:
        dtype: the element type, or None.
        ndim: the number of axes, or None.
        layout: the names of the axes, or "".
    """

    dtype: np.dtype[Any] | None = None
    ndim: int | None = None
    layout: str = ""

    def __post_init__(self) -> None:
        if self.layout and self.ndim not in (None, len(self.layout)):
            raise DefinitionError(
                "a layout has a letter for each axis", given=f"layout {self.layout!r}, ndim={self.ndim}"
            )

    @cached_property
    def is_complete(self) -> bool:
        """Whether it tells a spec."""
        return self.dtype is not None and self.rank is not None

    @cached_property
    def rank(self) -> int | None:
        """The number of axes, also where the layout tells it."""
        return len(self.layout) or None if self.ndim is None else self.ndim

    @property
    def spec(self) -> Spec:
        """As a spec: samples may differ in shape. A kind that is not `known` has none."""
        return Spec(cast(Any, self.dtype), (None,) * (self.rank or 0), self.layout)

    def refined_by(self, column: Column) -> SampleKind:
        """This kind with what a column shows."""
        sample: Any = column[0]
        dtype = sample.dtype if self.dtype is None else self.dtype
        rank = sample.ndim if self.rank is None else self.rank
        return SampleKind(dtype, rank, self.layout or (declared_layout(column) if rank == sample.ndim else ""))

    def check(self, column: Column) -> None:
        """Check that samples are of this kind, so far as it is known.

        Raises:
            SourceError: one is not.
        """
        rank = self.rank
        if isinstance(column, np.ndarray):
            samples = [] if (column.dtype, column.ndim - 1) == (self.dtype, rank) else [column[0]]
        else:
            samples = [] if {(sample.dtype, sample.ndim) for sample in column} == {(self.dtype, rank)} else column
        for row, sample in enumerate(samples):
            if self.dtype not in (None, sample.dtype) or rank not in (None, sample.ndim):
                raise SourceError(
                    f"sample {row} of the batch is of another kind than the source's samples are",
                    given=f"{sample.dtype} with {sample.ndim} axes, shape {sample.shape}",
                    expected=self,
                    fix="convert it in the source, or say what it gives: dtype=, ndim=, layout=",
                )

    def __str__(self) -> str:
        rank = "any number of" if self.rank is None else self.rank
        return f"{self.dtype or 'any dtype'} with {rank} axes" + (f", layout {self.layout}" if self.layout else "")


def declared_layout(column: Column) -> str:
    """The layout of samples that tell it, such as those of a `TensorListCPU`; else ""."""
    layout = getattr(column[0], "layout", None)
    told = layout() if callable(layout) else ""
    return told if isinstance(told, str) else ""


def to_sample(given: Any) -> Array:
    """One sample as an array in host memory: of its own memory, where that can be shared.

    Raises:
        ArgumentTypeError: it holds no numbers, or lies on a device that only its library can reach.
    """
    if isinstance(given, np.ndarray):
        array = cast(Array, given)
    elif isinstance(given, bytes | bytearray | memoryview):
        array = np.frombuffer(cast(Any, given), np.uint8)
    else:
        array = _converted(given)
    if array.dtype.kind not in "biufc" and array.dtype.names is None and array.dtype.itemsize != 2:  # bfloat16
        raise ArgumentTypeError(
            "a sample is an array of numbers",
            given=f"{short_repr(cast(Any, given))} of type {type(cast(Any, given)).__name__}",
            fix="np.frombuffer for bytes; an index or a file name for text",
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _converted(given: Any) -> Array:
    if hasattr(given, "__cuda_array_interface__") and hasattr(given, "get"):
        return np.asarray(given.get())
    try:
        return np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:
        if hasattr(given, "cpu"):
            return np.asarray(given.detach().cpu() if hasattr(given, "detach") else given.cpu())
        if hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        raise ArgumentTypeError(
            f"this is no array: {error}", given=f"{short_repr(given)} of type {type(given).__name__}"
        ) from error


def to_column(given: Any) -> Column:
    """A batch as a column: an array with a leading axis of samples, or a list or tuple of samples.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if isinstance(given, list | tuple):
        return [to_sample(each) for each in cast(Sequence[Any], given)]
    if not isinstance(given, np.ndarray) and hasattr(given, "is_dense_tensor"):  # of DALI's, or of `Pipeline.run`
        return [to_sample(sample) for sample in given]
    array = to_sample(cast(Any, given))
    if not array.ndim:
        raise ArgumentTypeError(
            "a batch is an array with a leading axis of samples, or a list of samples",
            given=f"one {type(cast(Any, given)).__name__}",
            fix="batch=False, for a source that gives sample by sample",
        )
    return array


def copy_column(column: Column) -> Column:
    """The same in memory of its own; as one array, where the samples have one shape."""
    if isinstance(column, np.ndarray):
        return column.copy()
    return np.stack(column) if len({sample.shape for sample in column}) == 1 else [sample.copy() for sample in column]


def copy_arrays(given: Any) -> Any:
    """What a source gave, with copies of NumPy's arrays."""
    if isinstance(given, np.ndarray):
        return cast(Array, given).copy()
    if isinstance(given, list | tuple):
        parts = list(map(copy_arrays, cast(Sequence[Any], given)))
        return parts if isinstance(given, list) else tuple(parts)
    return given
