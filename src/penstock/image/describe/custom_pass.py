"""Custom passes: operations on whole images that no other step can express, such as a warp or a blur.

On the host a compiled loop computes many images in one call; on the device XLA computes the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.core.dataclass import dataclass
from penstock.image.describe.steps import CastStep, CustomStep, ImageInfo, Step

if TYPE_CHECKING:
    from penstock.image.kernels.strided_images import StridedImages


class CustomPass(ABC):
    """Operation on whole images. Subclasses are frozen dataclasses that compare equal if they do the same."""

    def source_map(self, terms: Sequence[Any]) -> Any:
        """Return the coordinate map, for boxes and points that follow images (`penstock.operators.follow`).

        Args:
            terms: Terms of the step.

        Returns:
            Matrices (rows or 1, 6 or 9) from coordinates of the result to coordinates of the image, whose origin is the
            corner of the first pixel. None if pixels do not move.

        Raises:
            ValueError: The map is not a matrix. This is the default.
        """
        raise ValueError("no matrix maps its result to the image, so nothing can follow it")

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> tuple[CustomPass, Sequence[Any]] | None:
        """Return the same operation with nearest-neighbor interpolation, for masks that follow images.

        Args:
            layout: Layout of the masks.
            terms: Terms of the step.
            fill: Value of pixels outside of the mask.

        Returns:
            Operation on masks, and its terms. None if pixels do not move.

        Raises:
            ValueError: There is no such operation. This is the default.
        """
        raise ValueError("it has no nearest-neighbor variant, so masks cannot follow it")

    @abstractmethod
    def run_host(self, images: PassImages, terms: Sequence[Any]) -> None:
        """Compute on the host.

        Args:
            images: Images and memory for the results.
            terms: Terms of the step, each (rows, n) or (1, n).
        """

    @abstractmethod
    def trace_xla(self, images: Any, shapes: Any, terms: Sequence[Any], out_shapes: Any, shape: tuple[int, ...]) -> Any:
        """Compute in the device program, while JAX traces it.

        Args:
            images: Dense batch. Images of several sizes are in the first corner of their canvases.
            shapes: Shapes of the images, int32 (rows, axes) or (1, axes).
            terms: Terms of the step, each (rows, n) or (1, n).
            out_shapes: Shapes of the results.
            shape: Shape of the canvas of the results.

        Returns:
            Results (rows, *shape); pixels beyond the shape of a row's result may have any value.
        """


class InPlacePass(CustomPass):
    """Operation that does not move pixels, such as a blur."""

    def source_map(self, terms: Sequence[Any]) -> None:
        """Return None: pixels do not move."""
        del terms

    def nearest_twin(self, layout: str, terms: Sequence[Any], fill: float) -> None:
        """Return None: masks do not change."""
        del layout, terms, fill


# Terms of at most this many numbers are compared between rows: loops share work, such as a table, if all are equal. For
# larger terms the comparison costs more than it saves.
_MAX_COMPARED = 16


@dataclass(frozen=True, slots=True)
class Planes:
    """Images in the form that compiled loops take: planes of rows, columns and channels in flat memory.

    An image has one plane, a sequence one per frame, a volume one per slice.

    Args:
        pixels: Memory of the input.
        out: Memory of the results.
        row: Row of the batch of each plane, int64 (planes,).
        read: Offset of the first element, and strides of rows, columns and channels, in elements, int64 (planes, 4).
        write: The same for the results.
        sizes_in: Height, width and channels of the input, int64 (planes, 3).
        sizes_out: The same for the results.
        rounding: Number that loops add before they write: 0.5 for integers, otherwise 0.
    """

    pixels: Array
    out: Array
    row: NDArray[np.int64]
    read: NDArray[np.int64]
    write: NDArray[np.int64]
    sizes_in: NDArray[np.int64]
    sizes_out: NDArray[np.int64]
    rounding: np.float32

    def term(self, values: Any, dtype: Any = np.float32) -> Array:
        """Return a contiguous term with one entry per plane, or a single one if all rows have the same few numbers."""
        term = np.asarray(values, dtype)
        if len(term) > 1 and term[0].size <= _MAX_COMPARED and (term == term[:1]).all():
            term = term[:1]
        return np.ascontiguousarray(np.broadcast_to(term, (1, *term.shape[1:])) if len(term) == 1 else term[self.row])


@dataclass(frozen=True, slots=True)
class PassImages:
    """Images that a custom pass reads on the host, and memory for its results.

    Args:
        source: Images.
        shapes: Shapes of the images, (rows, axes).
        target: Memory for the results.
        out_shapes: Shapes of the results. Axes other than H, W and C have the extents of the images.
    """

    source: StridedImages
    shapes: NDArray[np.int64]
    target: StridedImages
    out_shapes: NDArray[np.int64]

    def planes(self, layout: str) -> Planes:
        """Return the planes of images whose layout contains H and W."""
        source, shapes, target = self.source, self.shapes, self.target
        rows = len(shapes)
        row = np.arange(rows)
        read, write = (np.zeros((rows, 4), np.int64) for _ in range(2))
        sizes = [np.ones((rows, 3), np.int64) for _ in range(2)]
        for place, memory, size, extents in (
            (read, source, sizes[0], shapes),
            (write, target, sizes[1], self.out_shapes),
        ):
            place[:, 0] = memory.starts
            for at, letter in enumerate("HWC"):
                if letter in layout:
                    place[:, 1 + at] = memory.strides[:, layout.index(letter)]
                    size[:, at] = extents[:, layout.index(letter)]
        # Other axes, such as frames, repeat the planes.
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
        extents = sizes[0][row], sizes[1][row]
        return Planes(source.values, target.values, row, read, write, *extents, rounding)


def as_planes(images: Any, layout: str, within: str = "HWC") -> Any:
    """Reshape a batch of the device program to (rows, planes, height, width, channels).

    Args:
        images: Dense batch.
        layout: Layout of a sample.
        within: Axes of a plane; "DHWC" for volumes.
    """
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    order = _outermost(layout, within)
    moved = jnp.transpose(images, (0, *(at + 1 for at in order)))
    extents = moved.shape[1 + sum(letter not in within for letter in layout) :]
    return moved.reshape(moved.shape[0], -1, *extents, *(() if "C" in layout else (1,)))


def from_planes(planes: Any, layout: str, shape: tuple[int, ...], within: str = "HWC") -> Any:
    """Reverse `as_planes`, for samples of a shape."""
    import jax.numpy as jnp  # noqa: PLC0415  # for the device program alone

    order = _outermost(layout, within)
    moved = planes.reshape(planes.shape[0], *(shape[at] for at in order))
    return jnp.transpose(moved, (0, *(order.index(at) + 1 for at in range(len(order)))))


def _outermost(layout: str, within: str) -> list[int]:
    """Return the axes of a layout, those outside of planes first."""
    others = [at for at, letter in enumerate(layout) if letter not in within]
    return [*others, *(layout.index(letter) for letter in within if letter in layout)]


def custom_steps(
    transform: CustomPass, images: ImageInfo, sizes: Sequence[Any], terms: Sequence[Any], dtype: np.dtype[Any]
) -> list[Step]:
    """Return the steps of a custom pass, with casts before and after it.

    Its loops read uint8 or float32, and write float32, or uint8 if they read it.

    Args:
        transform: Custom pass.
        images: Images that it reads.
        sizes: Extents of the results per axis.
        terms: Terms of the step.
        dtype: Dtype of the results.
    """
    floats, read = np.dtype(np.float32), images.dtype
    # Casts to the dtype that is already present add no pass.
    before: list[Step] = [] if read in (np.dtype(np.uint8), floats) else [CastStep(floats)]
    written = dtype if read == dtype == np.dtype(np.uint8) else floats
    return [*before, CustomStep(transform, sizes, terms, written), CastStep(dtype)]
