"""debayer: colours from what a sensor saw through a Bayer filter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.kernels.debayer_bilinear import BLOCK_PIXELS, by_averages
from penstock.operators.color.debayer_gradients import by_gradients

_ALGORITHMS = ("bilinear_ocv", "edgeaware_ocv", "vng_ocv", "gray_ocv", "default_npp")
_TOGETHER = 1 << 16
"""So many pixels are computed together."""
_LEAST = 8
"""Of smaller images "vng_ocv" averages pixels."""
_LUMA = (4899, 9617, 1868)
"""Red, green and blue in grey, in parts of 2**14."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What is around each inner pixel.

    Args:
        here: the pixel itself.
        sides: the sum of those to the left and right.
        ends: of those above and below.
        corners: of the four at its corners.
        side_step: the difference between left and right, or twice that between the pixel and the average of those of
            its colour to the left and right.
        end_step: between above and below, likewise.
    """

    here: Any
    sides: Any
    ends: Any
    corners: Any
    side_step: Any
    end_step: Any

    @staticmethod
    def of(seen: Any) -> Neighbours:
        """Those of images (..., height, width) of uint32."""
        part = [slice(None, -2), slice(1, -1), slice(2, None)]
        pixel = [[seen[..., row, column] for column in part] for row in part]
        left, right, up, down = pixel[1][0], pixel[1][2], pixel[0][1], pixel[2][1]
        return Neighbours(
            pixel[1][1],
            left + right,
            up + down,
            pixel[0][0] + pixel[0][2] + pixel[2][0] + pixel[2][2],
            abs(left.astype(np.int32) - right.astype(np.int32)),
            abs(up.astype(np.int32) - down.astype(np.int32)),
        )

    @staticmethod
    def of_colours(xp: Any, seen: Any) -> Neighbours:
        """Those of all pixels, beyond whose outermost the image is mirrored; steps are between pixels of one colour."""
        wide = xp.pad(seen, [*((0, 0),) * (seen.ndim - 2), (2, 2), (2, 2)], mode="reflect")
        found, signed = Neighbours.of(wide[..., 1:-1, 1:-1]), wide.astype(np.int32)
        twice = 2 * found.here.astype(np.int32)
        sides, ends = (
            a + b
            for a, b in (
                (signed[..., 2:-2, :-4], signed[..., 2:-2, 4:]),
                (signed[..., :-4, 2:-2], signed[..., 4:, 2:-2]),
            )
        )
        return replace(found, side_step=abs(twice - sides), end_step=abs(twice - ends))


@dataclass(frozen=True)
class Debayer(Operator, BatchKernel):
    """What lies between the pixels of a colour by averages of its neighbours.

    Args:
        layout: of the images: HW or HWC, or a sequence of them.
        algorithm: one of `_ALGORITHMS`.
    """

    layout: str
    algorithm: str
    schema: ClassVar[Mapping[str, Argument]] = {"blue_position": Argument(np.int32, (None,), low=0, high=1)}

    def infer(self, images: Spec, *, blue_position: Any) -> Spec:
        """Three channels, or one of grey."""
        if images.dtype not in (np.dtype(np.uint8), np.dtype(np.uint16)):
            raise DefinitionError("fn.debayer takes uint8 or uint16", given=images)
        if self.algorithm == "vng_ocv" and images.dtype != np.uint8:
            raise DefinitionError("fn.debayer: vng_ocv takes uint8", given=images)
        shape = images.shape[: 1 + self.layout.index("W")]
        if images.shape[len(shape) :] not in ((), (1,), (None,)):
            raise DefinitionError("fn.debayer takes images of one channel", given=images)
        if any(size is not None and size % 2 for size in shape[-2:]):
            raise DefinitionError("fn.debayer: height and width are even", given=images)
        if not isinstance(blue_position, Spec) and np.size(blue_position) not in (1, 2):
            raise DefinitionError("fn.debayer: blue_position is a row and a column", given=blue_position)
        channels = 1 if self.algorithm == "gray_ocv" else 3
        bounds = (*images.bounds[: len(shape)], channels) if images.bounds else ()
        return replace(images, shape=(*shape, channels), layout=self.layout.replace("C", "") + "C", bounds=bounds)

    def batch(self, context: BatchContext, images: Any, *, blue_position: Any) -> Any:
        """On the host as many rows at once as stay in the cache."""
        if context.xp is not np:
            return self._made(context.xp, images, blue_position)
        if self.algorithm in ("bilinear_ocv", "edgeaware_ocv"):
            return self._averaged(images, blue_position, context.out)
        step = max(1, _TOGETHER // max(math.prod(images.shape[1:]), 1))
        parts = [slice(start, start + step) for start in range(0, len(images), step)]
        return np.concatenate(
            [
                self._made(np, images[part], blue_position[part if len(blue_position) > 1 else slice(1)])
                for part in parts
            ]
        )

    def _averaged(self, images: Any, blue_position: Any, out: Any) -> Any:
        """The same by a compiled loop, for two of the algorithms."""
        ndim = 1 + len(self.layout.replace("C", ""))
        height, width = _extents(images, ndim)
        out = np.empty((*images.shape[:ndim], 3), images.dtype) if out is None else out
        if min(height, width) <= 2:
            out[...] = 0
            return out
        blue = np.ascontiguousarray(np.broadcast_to(blue_position, (len(blue_position), 2)))
        count = width * max(2, BLOCK_PIXELS // width // 2 * 2)
        memory = np.empty((3, count), images.dtype), np.empty(count, np.uint8)
        planes = np.ascontiguousarray(images).reshape(-1, height * width)
        by_averages(planes, width, blue, self.algorithm == "edgeaware_ocv", *memory, out.reshape(len(planes), -1))
        return out

    def _made(self, xp: Any, images: Any, blue_position: Any) -> Any:
        """In whole numbers. Where outermost pixels lack neighbours, they are those beside them."""
        ndim = 1 + len(self.layout.replace("C", ""))
        height, width = _extents(images, ndim)
        seen = images.reshape(images.shape[:ndim]).astype(np.uint32)
        channels = 1 if self.algorithm == "gray_ocv" else 3
        npp = self.algorithm == "default_npp"
        if min(height, width) <= 2 and not npp:
            return xp.zeros((*seen.shape, channels), images.dtype)
        blue = xp.broadcast_to(blue_position, (len(blue_position), 2))
        lines = [(*(1,) * (ndim - 2), *line) for line in ((-1, 1), (1, -1))]
        wide = self.algorithm == "vng_ocv" and min(height, width) >= _LEAST
        edge = 0 if wide or npp else 1
        rows, columns = (
            (np.arange(edge, size - edge, dtype=np.int32).reshape(line) + blue[:, at].reshape(-1, *(1,) * (ndim - 1)))
            % 2
            == 1
            for at, (size, line) in enumerate(zip((height, width), lines, strict=True))
        )
        if wide:
            return xp.stack(by_gradients(xp, seen, rows, columns), axis=-1).astype(images.dtype)
        around = Neighbours.of_colours(xp, seen) if npp else Neighbours.of(seen)
        inner = xp.stack(self._colours(xp, around, rows, columns), axis=-1).astype(images.dtype)
        return inner if npp else xp.pad(inner, [*((0, 0),) * (ndim - 2), (1, 1), (1, 1), (0, 0)], mode="edge")

    def _colours(self, xp: Any, seen: Neighbours, row: Any, column: Any) -> list[Any]:
        """Red, green and blue, or grey, of the inner pixels.

        Args:
            xp: the array namespace.
            seen: the pixels.
            row: whether the row of a pixel has blue ones.
            column: whether its column has. Blue ones are where both have, red ones where neither has.
        """
        green = row != column
        if self.algorithm == "gray_ocv":
            red, middle, blue = (np.uint32(part) for part in _LUMA)
            own, other = xp.where(row, blue, red), xp.where(row, red, blue)
            beside = seen.sides * own + seen.ends * other + seen.here * (np.uint32(2) * middle)
            centre = seen.here * (np.uint32(4) * own) + seen.corners * other + (seen.sides + seen.ends) * middle
            grey = xp.where(green, (beside + np.uint32(1 << 14)) >> 15, (centre + np.uint32(1 << 15)) >> 16)
            return [grey]
        sides, ends = (seen.sides + np.uint32(1)) >> 1, (seen.ends + np.uint32(1)) >> 1
        cross = (seen.sides + seen.ends + np.uint32(2)) >> 2
        if self.algorithm == "edgeaware_ocv":
            cross = xp.where(seen.side_step > seen.end_step, ends, sides)
        if self.algorithm == "default_npp":
            unequal = xp.where(seen.side_step > seen.end_step, ends, sides)
            cross = xp.where(seen.side_step == seen.end_step, cross, unequal)
        corners = (seen.corners + np.uint32(2)) >> 2
        blue = xp.where(green, xp.where(row, sides, ends), xp.where(row, seen.here, corners))
        red = xp.where(green, xp.where(row, ends, sides), xp.where(row, corners, seen.here))
        return [red, xp.where(green, seen.here, cross), blue]


def _extents(images: Any, ndim: int) -> tuple[int, int]:
    """Height and width.

    Raises:
        ValueError: they are not even, or there are several channels.
    """
    height, width = images.shape[ndim - 2 : ndim]
    if images.shape[ndim:] not in ((), (1,)) or height % 2 or width % 2:
        raise ValueError(f"an image of shape {images.shape[1:]} has no even height and width, and one channel")
    return height, width


@operator("debayer")
def debayer(
    data: DataNode,
    *,
    blue_position: int | Sequence[int] | DataNode,
    algorithm: str | None = None,
) -> DataNode:
    """Make colours of what a sensor saw through a Bayer filter, whose pixels see red, green or blue alone.

    Four algorithms are those of OpenCV, which DALI has on the CPU; one is of its GPU. Outermost pixels are those beside
    them, but for "vng_ocv" and "default_npp".

    Args:
        data: images or sequences of one channel, uint8 or uint16, of even height and width; layout HW, HWC, FHW or
            FHWC (HW or HWC where none is named).
        blue_position: the row and the column of blue, 0 or 1, in the tile of two by two pixels that begins in the
            second row and column: (0, 0) is OpenCV's BG, (0, 1) its GB, (1, 0) GR and (1, 1) RG. A node has one for
            each sample.
        algorithm: "bilinear_ocv", the default, averages the nearest pixels of a colour; "edgeaware_ocv" takes green
            from the direction in which it changes less; "vng_ocv", for uint8, takes all colours from the directions in
            which they change least; "gray_ocv" gives grey; "default_npp", as NPP describes it, takes green from the
            direction in which the pixel's own colour changes less, and averages what it rounds to the nearest.

    Returns:
        RGB, or grey, in the input's dtype; layout HWC or FHWC.

    Raises:
        DefinitionError: a dtype or algorithm that is not offered, an odd height or width, several channels.

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
    wanted = _ALGORITHMS[0] if algorithm is None else algorithm
    layout = data.spec.layout or {2: "HW", 3: "HWC"}.get(len(data.spec.shape), "")
    if layout not in ("HW", "HWC", "FHW", "FHWC"):
        raise DefinitionError("fn.debayer takes images or sequences", given=data.spec, expected="HW, HWC, FHW, FHWC")
    if wanted not in _ALGORITHMS:
        raise DefinitionError(
            "fn.debayer has no such algorithm", given=short_repr(algorithm), expected=" or ".join(_ALGORITHMS)
        )
    return apply(Debayer(layout, wanted), data, blue_position=blue_position)
