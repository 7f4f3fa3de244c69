"""`fn.debayer`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    Argument,
    BatchContext,
    BatchKernel,
    DataNode,
    Input,
    Operator,
    apply,
    assumed_layout,
    operator,
)
from penstock.image.kernels.debayer_bilinear import BLOCK_PIXELS, by_averages
from penstock.operators.color.debayer_gradients import by_gradients

Algorithm = Literal["bilinear_ocv", "edgeaware_ocv", "vng_ocv", "gray_ocv", "default_npp"]
# Pixels per block on the host: their temporaries stay in the cache.
_BLOCK_PIXELS = 1 << 16
# OpenCV falls back from VNG to bilinear interpolation for images with a smaller extent.
_MIN_VNG_EXTENT = 8
# Weights of red, green and blue in gray: 0.299, 0.587 and 0.114 in OpenCV's 14-bit fixed point.
_LUMA = (4899, 9617, 1868)


@dataclass(frozen=True, slots=True)
class Neighbors:
    """Sums and gradients of the neighbors of each pixel.

    Args:
        here: The pixels.
        sides: Sums of the left and right neighbor.
        ends: Sums of the upper and lower neighbor.
        corners: Sums of the four diagonal neighbors.
        side_step: Horizontal gradients.
        end_step: Vertical gradients.
    """

    here: Any
    sides: Any
    ends: Any
    corners: Any
    side_step: Any
    end_step: Any

    @staticmethod
    def of(raw: Any) -> Neighbors:
        """Return the neighbors of the inner pixels of uint32 images (..., height, width)."""
        part = [slice(None, -2), slice(1, -1), slice(2, None)]
        pixel = [[raw[..., row, column] for column in part] for row in part]
        left, right, up, down = pixel[1][0], pixel[1][2], pixel[0][1], pixel[2][1]
        return Neighbors(
            pixel[1][1],
            left + right,
            up + down,
            pixel[0][0] + pixel[0][2] + pixel[2][0] + pixel[2][2],
            abs(left.astype(np.int32) - right.astype(np.int32)),
            abs(up.astype(np.int32) - down.astype(np.int32)),
        )

    @staticmethod
    def of_same_color(xp: Any, raw: Any) -> Neighbors:
        """Return the neighbors of all pixels of a mirrored image, with gradients between pixels of the same color."""
        wide = xp.pad(raw, [*((0, 0),) * (raw.ndim - 2), (2, 2), (2, 2)], mode="reflect")
        result, signed = Neighbors.of(wide[..., 1:-1, 1:-1]), wide.astype(np.int32)
        twice = 2 * result.here.astype(np.int32)
        sides, ends = (
            a + b
            for a, b in (
                (signed[..., 2:-2, :-4], signed[..., 2:-2, 4:]),
                (signed[..., :-4, 2:-2], signed[..., 4:, 2:-2]),
            )
        )
        return replace(result, side_step=abs(twice - sides), end_step=abs(twice - ends))


@dataclass(frozen=True)
class Debayer(Operator, BatchKernel):
    """Demosaicing of Bayer images.

    Args:
        layout: Layout of the images: HW or HWC, or of sequences of them.
        algorithm: The algorithm.
    """

    layout: str
    algorithm: Algorithm

    def infer(self, images: Spec, *, blue_position: Any) -> Spec:
        """Return the spec of RGB or grayscale images."""
        if self.algorithm == "vng_ocv" and images.dtype != np.uint8:
            raise DefinitionError("vng_ocv supports only uint8", given=images)
        shape = images.shape[: 1 + self.layout.index("W")]
        if any(size is not None and size % 2 for size in shape[-2:]):
            raise DefinitionError("height and width must be even", given=images)
        if not isinstance(blue_position, Spec) and np.size(blue_position) not in (1, 2):
            raise DefinitionError("blue_position must be a row and a column", given=blue_position)
        channels = 1 if self.algorithm == "gray_ocv" else 3
        bounds = (*images.bounds[: len(shape)], channels) if images.bounds else ()
        return replace(images, shape=(*shape, channels), layout=self.layout.replace("C", "") + "C", bounds=bounds)

    def batch(self, context: BatchContext, images: Any, *, blue_position: Any) -> Any:
        """Demosaic a batch, on the host in blocks that fit into the cache."""
        if context.xp is not np:
            return self._demosaic(context.xp, images, blue_position)
        if self.algorithm in ("bilinear_ocv", "edgeaware_ocv"):
            return self._demosaic_compiled(images, blue_position, context.out)
        step = max(1, _BLOCK_PIXELS // max(math.prod(images.shape[1:]), 1))
        parts = [slice(start, start + step) for start in range(0, len(images), step)]
        return np.concatenate(
            [
                self._demosaic(np, images[part], blue_position[part if len(blue_position) > 1 else slice(1)])
                for part in parts
            ]
        )

    def _demosaic_compiled(self, images: Any, blue_position: Any, out: Any) -> Any:
        """Demosaic with compiled loops, which exist for "bilinear_ocv" and "edgeaware_ocv"."""
        ndim = 1 + len(self.layout.replace("C", ""))
        height, width = _extents(images, ndim)
        out = np.empty((*images.shape[:ndim], 3), images.dtype) if out is None else out
        # OpenCV returns zeros if there are no inner pixels.
        if min(height, width) <= 2:
            out[...] = 0
            return out
        blue = np.ascontiguousarray(np.broadcast_to(blue_position, (len(blue_position), 2)))
        count = width * max(2, BLOCK_PIXELS // width // 2 * 2)
        memory = np.empty((3, count), images.dtype), np.empty(count, np.uint8)
        planes = np.ascontiguousarray(images).reshape(-1, height * width)
        by_averages(planes, width, blue, self.algorithm == "edgeaware_ocv", *memory, out.reshape(len(planes), -1))
        return out

    def _demosaic(self, xp: Any, images: Any, blue_position: Any) -> Any:
        """Demosaic with array operations in integer arithmetic."""
        ndim = 1 + len(self.layout.replace("C", ""))
        height, width = _extents(images, ndim)
        raw = images.reshape(images.shape[:ndim]).astype(np.uint32)
        channels = 1 if self.algorithm == "gray_ocv" else 3
        npp = self.algorithm == "default_npp"
        if min(height, width) <= 2 and not npp:
            return xp.zeros((*raw.shape, channels), images.dtype)
        blue = xp.broadcast_to(blue_position, (len(blue_position), 2))
        lines = [(*(1,) * (ndim - 2), *line) for line in ((-1, 1), (1, -1))]
        wide = self.algorithm == "vng_ocv" and min(height, width) >= _MIN_VNG_EXTENT
        edge = 0 if wide or npp else 1
        # True for rows and columns that contain blue pixels; blue_position counts from the second row and column.
        rows, columns = (
            (np.arange(edge, size - edge, dtype=np.int32).reshape(line) + blue[:, at].reshape(-1, *(1,) * (ndim - 1)))
            % 2
            == 1
            for at, (size, line) in enumerate(zip((height, width), lines, strict=True))
        )
        if wide:
            return xp.stack(by_gradients(xp, raw, rows, columns), axis=-1).astype(images.dtype)
        around = Neighbors.of_same_color(xp, raw) if npp else Neighbors.of(raw)
        # OpenCV computes the inner pixels and copies them to the border.
        inner = xp.stack(self._colors(xp, around, rows, columns), axis=-1).astype(images.dtype)
        return inner if npp else xp.pad(inner, [*((0, 0),) * (ndim - 2), (1, 1), (1, 1), (0, 0)], mode="edge")

    def _colors(self, xp: Any, around: Neighbors, row: Any, column: Any) -> list[Any]:
        """Return red, green and blue, or gray.

        Args:
            xp: Array namespace.
            around: Pixels and their neighbors.
            row: True for rows with blue pixels.
            column: True for columns with blue pixels. Pixels are blue if both are True, red if neither is.
        """
        green = row != column
        if self.algorithm == "gray_ocv":
            red, middle, blue = (np.uint32(weight) for weight in _LUMA)
            # One fixed-point sum and one rounding, as in OpenCV: averaging the colors first would round twice.
            own, other = xp.where(row, blue, red), xp.where(row, red, blue)
            beside = around.sides * own + around.ends * other + around.here * (np.uint32(2) * middle)
            center = around.here * (np.uint32(4) * own) + around.corners * other + (around.sides + around.ends) * middle
            gray = xp.where(green, (beside + np.uint32(1 << 14)) >> 15, (center + np.uint32(1 << 15)) >> 16)
            return [gray]
        # Averages round half up: OpenCV adds half of the divisor before the shift.
        sides, ends = (around.sides + np.uint32(1)) >> 1, (around.ends + np.uint32(1)) >> 1
        cross = (around.sides + around.ends + np.uint32(2)) >> 2
        if self.algorithm == "edgeaware_ocv":
            cross = xp.where(around.side_step > around.end_step, ends, sides)
        if self.algorithm == "default_npp":
            unequal = xp.where(around.side_step > around.end_step, ends, sides)
            cross = xp.where(around.side_step == around.end_step, cross, unequal)
        corners = (around.corners + np.uint32(2)) >> 2
        blue = xp.where(green, xp.where(row, sides, ends), xp.where(row, around.here, corners))
        red = xp.where(green, xp.where(row, ends, sides), xp.where(row, corners, around.here))
        return [red, xp.where(green, around.here, cross), blue]


def _extents(images: Any, ndim: int) -> tuple[int, int]:
    """Return height and width.

    Raises:
        ValueError: If one of them is odd, or there are several channels.
    """
    height, width = images.shape[ndim - 2 : ndim]
    if images.shape[ndim:] not in ((), (1,)) or height % 2 or width % 2:
        raise ValueError(f"an image of shape {images.shape[1:]} must have one channel, and even height and width")
    return height, width


@operator("debayer")
def debayer(
    data: Annotated[
        DataNode,
        Input(("uint8", "uint16"), layouts=("HW", "HWC", "FHW", "FHWC"), channels=(1,), needs="raw images"),
    ],
    *,
    blue_position: Annotated[int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=0, high=1)],
    algorithm: Algorithm | None = None,
) -> DataNode:
    """Demosaic raw images of a sensor with a Bayer filter.

    Four algorithms equal OpenCV's, as on DALI's CPU backend; "default_npp" belongs to DALI's GPU backend. Border pixels
    are copies of their inner neighbors, except with "vng_ocv" and "default_npp".

    Args:
        data: Images or sequences with one channel, uint8 or uint16, even height and width; layout HW, HWC, FHW or FHWC
            (HW, HWC or FHWC by rank if the input has none).
        blue_position: Row and column of blue, 0 or 1, in the 2 x 2 tile that starts at the second row and column:
            (0, 0) is OpenCV's BG, (0, 1) GB, (1, 0) GR and (1, 1) RG. A node has one position per sample.
        algorithm: "bilinear_ocv" (default) averages the nearest pixels of a color. "edgeaware_ocv" interpolates green
            along the direction of the smaller gradient. "vng_ocv" (uint8 only) uses variable number of gradients.
            "gray_ocv" returns grayscale. "default_npp" follows the description of NPP: green is interpolated along
            the direction in which the pixel's own color changes less.

    Returns:
        RGB or grayscale images in the dtype of the input; layout HWC or FHWC.

    Raises:
        DefinitionError: If the dtype or the algorithm is not supported, height or width is odd, or there are several
            channels.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     raw = np.uint8([[9, 4, 9, 4], [4, 1, 4, 1], [9, 4, 9, 4], [4, 1, 4, 1]])
        ...     images = fn.debayer(fn.readers.arrays(raw[None], layout="HW"), blue_position=[0, 0])
        ...     pipeline.set_outputs(images)
        >>> pipeline.run()[0].as_array()[0, 0, 0].tolist()
        [9, 4, 1]
    """
    return apply(Debayer(assumed_layout(data.spec), algorithm or "bilinear_ocv"), data, blue_position=blue_position)
