"""Batches of eager calls: samples that may differ in shape, with a layout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np

from penstock.core import ONE_SHAPE_FIX, Array, Column, Spec, with_call_site
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import check_layout
from penstock.graph.tracing.expression import Expression
from penstock.sources.external.array_conversion import to_column


class Batch:
    """A batch of samples in host memory: input and result of eager calls.

    Samples have one dtype and one number of axes, and may differ in shape. Arithmetic and comparisons compute sample by
    sample, with the dtypes of a pipeline; indexing, iteration and `len` are about samples.

    Args:
        samples: A list with an array per sample, or an array with a leading axis of samples. Arrays of JAX and PyTorch
            are copied to the host if they are on a device.
        layout: Letters of the axes of a sample, such as "HWC"; "" for none. By default that of `samples` if they are a
            `Batch` or a tensor list of `Pipeline.run`, otherwise none.

    Raises:
        ArgumentTypeError: The samples are not arrays of numbers.
        DefinitionError: The samples differ in dtype or number of axes, or the layout has another number of axes.

    >>> images = Batch([np.zeros((4, 6, 3), np.uint8), np.zeros((5, 5, 3), np.uint8)], "HWC")
    >>> images, len(images), images[1].shape, images.shapes
    (Batch(2 x uint8[?, ?, 3] HWC), 2, (5, 5, 3), [(4, 6, 3), (5, 5, 3)])
    >>> (images + 0.5).dtype
    dtype('float32')
    """

    __slots__ = ("_column", "_layout")
    # NumPy returns NotImplemented for `array + batch`, so that Python asks the batch.
    __array_ufunc__ = None

    @with_call_site
    def __init__(self, samples: Any, layout: str | None = None) -> None:
        column = samples.column if isinstance(samples, Batch) else to_column(samples)
        if not len(column):
            raise ArgumentTypeError("a batch needs at least one sample", given=short_repr(samples))
        check_alike(column)
        self._column = column
        layout = _layout_of(samples) if layout is None else layout
        self._layout = check_layout(layout, Spec(column[0].dtype, column[0].shape), column[0].ndim)

    @property
    def column(self) -> Column:
        """The samples: one array with a leading axis of samples if the batch was made of one, otherwise a list."""
        return self._column

    @property
    def layout(self) -> str:
        """Letters of the axes of a sample, or ""."""
        return self._layout

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the samples."""
        return self._column[0].dtype

    @property
    def ndim(self) -> int:
        """Number of axes of a sample."""
        return self._column[0].ndim

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of each sample."""
        return [sample.shape for sample in self._column]

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of samples, followed by the extents of a sample, None where samples differ."""
        return len(self), *common_shape(self._column)

    def as_array(self) -> Array:
        """Return one array with a leading axis of samples.

        Raises:
            DefinitionError: The samples differ in shape.
        """
        return np.asarray(self)

    @with_call_site
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if None in self.shape:
            shapes = ", ".join(map(str, dict.fromkeys(self.shapes)))
            raise DefinitionError(
                "the samples differ in shape, so they are not an array", given=shapes, fix=ONE_SHAPE_FIX
            )
        array = self._column if isinstance(self._column, np.ndarray) else np.stack(self._column)
        return np.array(array, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> Batch: ...
    def __getitem__(self, index: int | slice) -> Array | Batch:
        return Batch(self._column[index], self._layout) if isinstance(index, slice) else self._column[index]

    def __iter__(self) -> Iterator[Array]:
        return iter(self._column)

    @with_call_site
    def __bool__(self) -> bool:
        # Without it, Python would take the number of samples: `assert batch == other` would always pass.
        raise ArgumentTypeError(
            "a batch has no truth value",
            given=str(self),
            expected="one truth value",
            fix=".as_array().all() or .as_array().any(); for samples that differ in shape, a loop over them",
        )

    @with_call_site
    def __hash__(self) -> int:
        # As for arrays of NumPy: with a hash by identity, `batch in {1, 2}` would always be false.
        raise ArgumentTypeError(
            "a batch has no hash",
            given=str(self),
            expected="a value that can be in a set or the key of a dict",
            fix="(batch == 1) | (batch == 2) for `batch in {1, 2}`; id(batch) as the key of a batch itself",
        )

    def __repr__(self) -> str:
        return f"Batch({len(self)} x {Spec(self.dtype, self.shape[1:], self._layout)})"

    def _repr_html_(self) -> str:
        """Return a table and the first images, for notebooks."""
        from penstock.display.batch_html import MAX_SHOWN, batch_html  # noqa: PLC0415  # for notebooks alone

        return batch_html(
            type(self).__name__,
            list(self._column[:MAX_SHOWN]),
            len(self),
            Spec(self.dtype, self.shape[1:], self._layout),
        )


# A batch computes like a node; the operators are called on its data at once.
for _name, _method in vars(Expression).items():
    if callable(_method) and _name.startswith("__") and _name != "__getitem__":
        setattr(Batch, _name, _method)


def _layout_of(samples: Any) -> str:
    # A tensor list has a method of this name. The attribute of a tensor of PyTorch is not a text.
    layout = getattr(samples, "layout", "")
    layout = layout() if callable(layout) else layout
    return layout if isinstance(layout, str) else ""


def check_alike(column: Column) -> None:
    """Check that samples have one dtype and one number of axes.

    Raises:
        DefinitionError: A sample differs from sample 0.
    """
    if isinstance(column, np.ndarray):
        return
    first = column[0]
    for number, sample in enumerate(column):
        if sample.dtype != first.dtype or sample.ndim != first.ndim:
            raise DefinitionError(
                f"the samples of a batch have one dtype and one number of axes, and sample {number} differs",
                given=f"{sample.dtype}{list(sample.shape)}",
                expected=f"{first.dtype} with {first.ndim} axes, like sample 0",
            )


def common_shape(column: Column) -> tuple[int | None, ...]:
    """Return the extents of samples, None where they differ."""
    if isinstance(column, np.ndarray):
        return column.shape[1:]
    shapes = dict.fromkeys(sample.shape for sample in column)
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))
