"""Transforms: what becomes of whole images where no step says it, such as a warp or a blur.

A transform is computed by a compiled loop of its own on the host, for many images in one call, and by XLA on the
device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.image.describe.steps import CastStep, CustomStep, ImageInfo, Step

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages


class CustomPass(ABC):
    """What becomes of whole images. Subclasses are frozen dataclasses, equal where they do the same."""

    def source_map(self, terms: Sequence[Any]) -> Any:
        """Where pixels come from, for what follows images (`penstock.operators.follow`).

        Args:
            terms: the numbers that the step has.

        Returns:
            The matrix from a place of the result to a place of the image, (rows or 1, 6 or 9), where the corner of the
            first pixel has the coordinates (0, 0); None where each pixel stays in its place.

        Raises:
            ValueError: no matrix says it, which is so unless a subclass knows better.
        """
        raise ValueError("no matrix says where its pixels come from, so nothing can follow them")

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[CustomPass, Sequence[Any]] | None:
        """The same for masks that follow images: each pixel is the nearest one, or a value where that lies outside.

        Args:
            layout: of the masks.
            terms: the numbers that the step has.
            fill: the value of what lies outside.

        Returns:
            A transform of masks, and its numbers; None where each pixel stays in its place.

        Raises:
            ValueError: there is none, which is so unless a subclass knows better.
        """
        raise ValueError("nothing says which pixels it takes, so no masks can follow them")

    @abstractmethod
    def run_host(
        self,
        source: StridedImages,
        shapes: NDArray[np.int64],
        terms: Sequence[Any],
        target: StridedImages,
        out_shapes: NDArray[np.int64],
    ) -> None:
        """Compute on the host.

        Args:
            source: the images.
            shapes: their extents, (rows, axes).
            terms: the numbers that the step has, each (rows, n) or (1, n).
            target: where the results go.
            out_shapes: their extents.
        """

    @abstractmethod
    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Compute in the device program, while JAX traces it.

        Args:
            images: a dense batch; where images differ in size, each in the first corner.
            shapes: the extents of the images, int32 (rows, axes) or (1, axes).
            terms: the numbers that the step has, each (rows, n) or (1, n).
            out_shapes: the extents of the results.
            shape: the largest result.

        Returns:
            (rows, *shape); what lies beyond a row's result does not matter.
        """


class InPlacePass(CustomPass):
    """A transform that leaves each pixel in its place, as a blur does."""

    def source_map(self, terms: Sequence[Any]) -> None:
        """The same place."""
        del terms

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> None:
        """Masks stay as they are."""
        del layout, terms, fill


_FEW = 16
"""So few numbers are compared between rows: where they are the same, work may be shared."""


@dataclass(frozen=True, slots=True)
class Planes:
    """Images as compiled loops take them: planes of rows, columns and channels in flat memory.

    An image has one plane; a sequence one per frame, a volume one per slice.

    Args:
        row: int64 (planes,): which row of the batch each belongs to.
        read: int64 (planes, 4): its first element, and the distances to the next row, column and channel, in elements.
        write: the same for the results.
        sizes_in: int64 (planes, 3): height, width and channels as they are read.
        sizes_out: the same for the results.
        rounding: what compiled loops add before they write: a half where they write whole numbers, else 0.
    """

    row: NDArray[np.int64]
    read: NDArray[np.int64]
    write: NDArray[np.int64]
    sizes_in: NDArray[np.int64]
    sizes_out: NDArray[np.int64]
    rounding: np.float32

    @staticmethod
    def of(
        layout: str,
        source: StridedImages,
        shapes: NDArray[np.int64],
        target: StridedImages,
        out_shapes: NDArray[np.int64],
    ) -> Planes:
        """The planes of some rows.

        Args:
            layout: of the images, with H and W.
            source: the images.
            shapes: their extents, (rows, axes).
            target: where the results go.
            out_shapes: their extents; along other axes than H, W and C they are the images'.
        """
        rows = len(shapes)
        row = np.arange(rows)
        read, write = (np.zeros((rows, 4), np.int64) for _ in range(2))
        sizes = [np.ones((rows, 3), np.int64) for _ in range(2)]
        for place, memory, size, extents in (
            (read, source, sizes[0], shapes),
            (write, target, sizes[1], out_shapes),
        ):
            place[:, 0] = memory.starts
            for at, letter in enumerate("HWC"):
                if letter in layout:
                    place[:, 1 + at] = memory.strides[:, layout.index(letter)]
                    size[:, at] = extents[:, layout.index(letter)]
        for at, letter in enumerate(layout):
            if letter in "HWC" or (shapes[row, at] == 1).all():
                continue
            counts = shapes[row, at]
            index = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
            read, write = np.repeat(read, counts, axis=0), np.repeat(write, counts, axis=0)
            row = np.repeat(row, counts)
            read[:, 0] += index * source.strides[row, at]
            write[:, 0] += index * target.strides[row, at]
        rounding = np.float32(0.5 if target.values.dtype.kind in "iu" else 0)
        return Planes(row, read, write, sizes[0][row], sizes[1][row], rounding)

    def term(self, values: Any, dtype: Any = np.float32) -> Array:
        """A term of the step with an entry per plane, or one where all have the same few numbers; contiguous."""
        term = np.asarray(values, dtype)
        if len(term) > 1 and term[0].size <= _FEW and (term == term[:1]).all():
            term = term[:1]
        return np.ascontiguousarray(np.broadcast_to(term, (1, *term.shape[1:])) if len(term) == 1 else term[self.row])


def as_planes(images: Any, layout: str, within: str = "HWC") -> Any:
    """A dense batch of the device program as (rows, planes, height, width, channels).

    Args:
        images: the batch.
        layout: of a sample.
        within: the axes that lie within a plane; "DHWC" for volumes instead.
    """
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    order = _outermost(layout, within)
    moved = jnp.transpose(images, (0, *(at + 1 for at in order)))
    extents = moved.shape[1 + sum(letter not in within for letter in layout) :]
    return moved.reshape(moved.shape[0], -1, *extents, *(() if "C" in layout else (1,)))


def from_planes(planes: Any, layout: str, shape: tuple[int, ...], within: str = "HWC") -> Any:
    """The inverse of `as_planes`, for a sample of the given shape."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    order = _outermost(layout, within)
    moved = planes.reshape(planes.shape[0], *(shape[at] for at in order))
    return jnp.transpose(moved, (0, *(order.index(at) + 1 for at in range(len(order)))))


def _outermost(layout: str, within: str) -> list[int]:
    """The axes of a layout, those outside of planes first."""
    others = [at for at, letter in enumerate(layout) if letter not in within]
    return [*others, *(layout.index(letter) for letter in within if letter in layout)]


def custom_steps(
    transform: CustomPass, images: ImageInfo, sizes: Sequence[Any], terms: Sequence[Any], dtype: np.dtype[Any]
) -> list[Step]:
    """The steps of an operator that is a transform of bytes or floats.

    Its loops read uint8 or float32, and write float32, or uint8 where that is read; other dtypes are converted before
    and after.

    Args:
        transform: what to do.
        images: to what.
        sizes: per axis the extents of the results.
        terms: the numbers that it needs.
        dtype: of the results.
    """
    floats, read = np.dtype(np.float32), images.dtype
    before: list[Step] = [] if read in (np.dtype(np.uint8), floats) else [CastStep(floats)]
    written = dtype if read == dtype == np.dtype(np.uint8) else floats
    return [*before, CustomStep(transform, sizes, terms, written), CastStep(dtype)]
