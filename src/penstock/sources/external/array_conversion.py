"""Conversion of arrays of NumPy, JAX, PyTorch and other libraries to columns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import ArgumentTypeError, DefinitionError, SourceError, short_repr
from penstock.sources.external.library_samples import (
    arrow_value,
    is_arrow_scalar,
    is_single_sample,
    is_table,
    library_sample,
)
from penstock.types import is_bfloat16

# Names of the types of missing values in pandas.
_MISSING = ("NAType", "NaTType")


@dataclass(frozen=True)
class SampleKind:
    """Known properties of the samples of one output.

    Args:
        dtype: Dtype, or None if unknown.
        ndim: Number of axes, or None if unknown.
        layout: Names of the axes, or "".
    """

    dtype: np.dtype[Any] | None = None
    ndim: int | None = None
    layout: str = ""

    def __post_init__(self) -> None:
        if self.layout and self.ndim not in (None, len(self.layout)):
            raise DefinitionError(
                "layout must have one letter per axis", given=f"layout {self.layout!r}, ndim={self.ndim}"
            )

    @cached_property
    def is_complete(self) -> bool:
        """True if dtype and number of axes are known."""
        return self.dtype is not None and self.rank is not None

    @cached_property
    def rank(self) -> int | None:
        """Number of axes, given or implied by the layout."""
        return len(self.layout) or None if self.ndim is None else self.ndim

    @property
    def spec(self) -> Spec:
        """The kind as a spec whose extents may differ between samples. Only defined if `is_complete`."""
        return Spec(cast(Any, self.dtype), (None,) * (self.rank or 0), self.layout)

    def refined_by(self, column: Column) -> SampleKind:
        """Return this kind completed by the properties of a column."""
        sample: Any = column[0]
        dtype = sample.dtype if self.dtype is None else self.dtype
        rank = sample.ndim if self.rank is None else self.rank
        return SampleKind(dtype, rank, self.layout or (declared_layout(column) if rank == sample.ndim else ""))

    def check(self, column: Column) -> None:
        """Check that samples are of this kind, as far as it is known.

        Raises:
            SourceError: A sample is of a different kind.
        """
        rank = self.rank
        if isinstance(column, np.ndarray):
            samples = [] if (column.dtype, column.ndim - 1) == (self.dtype, rank) else [column[0]]
        else:
            samples = [] if {(sample.dtype, sample.ndim) for sample in column} == {(self.dtype, rank)} else column
        for row, sample in enumerate(samples):
            # `dtype in (None, ...)` would accept any sample for float64: NumPy converts None to float64 to compare it.
            other_dtype = self.dtype is not None and sample.dtype != self.dtype
            if other_dtype or rank not in (None, sample.ndim):
                raise SourceError(
                    f"sample {row} of the batch differs in kind from the source's other samples",
                    given=f"{sample.dtype} with {sample.ndim} axes, shape {sample.shape}",
                    expected=self,
                    fix="convert it in the source, or declare the kind with dtype=, ndim= and layout=",
                )

    def __str__(self) -> str:
        rank = "any number of" if self.rank is None else self.rank
        return f"{self.dtype or 'any dtype'} with {rank} axes" + (f", layout {self.layout}" if self.layout else "")


def declared_layout(column: Column) -> str:
    """Return the layout of samples that have one, such as those of a `TensorListCPU`; otherwise ""."""
    layout = getattr(column[0], "layout", None)
    result = layout() if callable(layout) else ""
    return result if isinstance(result, str) else ""


def to_sample(value: Any) -> Array:
    """Convert one sample to an array in host memory, without a copy if possible.

    Raises:
        ArgumentTypeError: It does not contain numbers, has masked elements, or is on a device that only its own library
            can access.
        SourceError: It is a file that cannot be read.
    """
    if isinstance(value, np.ndarray):
        check_unmasked(value)
        array = cast(Array, value)
    elif isinstance(value, bytes | bytearray | memoryview):
        array = np.frombuffer(cast(Any, value), np.uint8)
    elif is_arrow_scalar(value):
        return to_sample(arrow_value(value))
    else:
        known = library_sample(value)
        array = _converted(value) if known is None else known
    if array.dtype.kind not in "biufc" and not is_bfloat16(array.dtype):
        raise ArgumentTypeError(
            "a sample must be an array of numbers",
            given=f"{short_repr(cast(Any, value))} of type {type(cast(Any, value)).__name__}",
            fix=_number_fix(value),
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _number_fix(value: Any) -> str:
    """Return the fix for a sample that is not an array of numbers."""
    if isinstance(value, Mapping):
        names = list(cast(Mapping[Any, Any], value))
        row = ", ".join(f"row[{name!r}]" for name in names[:3])
        return (
            f"yield a tuple of its values, such as ({row}{',' if len(names) == 1 else ''}), "
            "and pass num_outputs= with their number"
        )
    if value is None or type(value).__name__ in _MISSING:
        return "replace missing values by values of the same kind as the others"
    return "use np.frombuffer for bytes; replace text by an index, or by a pathlib.Path if it names a file"


def check_unmasked(value: Any) -> None:
    """Check that a masked array of NumPy has no masked elements.

    Raises:
        ArgumentTypeError: It has.
    """
    # NumPy imports its masked arrays when a program uses them.
    masked: Any = None if type(value) is np.ndarray else sys.modules.get("numpy.ma")
    if isinstance(value, getattr(masked, "MaskedArray", ())) and masked.is_masked(value):
        raise ArgumentTypeError(
            "masked elements have no values for JAX, and the numbers in their places are not data",
            given=f"{np.count_nonzero(masked.getmaskarray(value))} masked elements in an array of shape {value.shape}",
            fix="array.filled(value); and the mask as an array of its own, np.ma.getmaskarray(array)",
        )


def to_lent_sample(value: Any) -> Array:
    """Convert one sample as `to_sample` does, to memory that its source does not overwrite."""
    array = to_sample(value)
    fixed = isinstance(value, bytes) or is_single_sample(value)  # an image of Pillow, or the content of a file
    return array if fixed else array.copy()


def _converted(value: Any) -> Array:
    if is_table(value):
        raise ArgumentTypeError(
            "a table is not a sample: its columns have a dtype each",
            given=f"a {type(value).__name__} with {len(value)} rows",
            fix='np.asarray(value) for a matrix; with_format("numpy") for the rows of a data set of Hugging Face',
        )
    # CuPy refuses implicit conversion; its arrays have `get`.
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        return np.asarray(value.get())
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        if hasattr(value, "cpu"):
            return np.asarray(value.cpu())
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        raise ArgumentTypeError(
            f"cannot be converted to an array: {error}", given=f"{short_repr(value)} of type {type(value).__name__}"
        ) from error


def to_column(batch: Any) -> Column:
    """Convert a batch to a column: an array with a leading axis of samples, or a list or tuple of samples.

    Raises:
        ArgumentTypeError: It is neither.
    """
    if isinstance(batch, list | tuple):
        return [to_sample(sample_value) for sample_value in cast(Sequence[Any], batch)]
    # A TensorList of DALI or of `Pipeline.run`, whose samples may differ in shape.
    if not isinstance(batch, np.ndarray) and hasattr(batch, "is_dense_tensor"):
        return [to_sample(sample) for sample in batch]
    array = None if is_single_sample(batch) else to_sample(cast(Any, batch))
    if array is None or not array.ndim:
        raise ArgumentTypeError(
            "a batch must be an array with a leading axis of samples, or a list of samples",
            given=f"one {type(cast(Any, batch)).__name__}",
            fix="a list of samples, or batch=False for a source that returns single samples",
        )
    return array


def copy_column(column: Column) -> Column:
    """Copy a column, to a single array if its samples have one dtype and shape."""
    if isinstance(column, np.ndarray):
        return column.copy()
    # `np.stack` would promote different dtypes to one, which hides them from `SampleKind.check`.
    dense = len({(sample.dtype, sample.shape) for sample in column}) == 1
    return np.stack(column) if dense else [sample.copy() for sample in column]


def copy_arrays(value: Any) -> Any:
    """Copy the NumPy arrays in a value that a source has returned."""
    if isinstance(value, np.ndarray):
        return cast(Array, value).copy()
    if isinstance(value, list | tuple):
        parts = list(map(copy_arrays, cast(Sequence[Any], value)))
        return parts if isinstance(value, list) else tuple(parts)
    return value
