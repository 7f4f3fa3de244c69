"""remap: look pixels up where two maps say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, did_you_mean, short_repr
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator
from penstock.graph.layouts import plane_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.custom_pass import PassImages
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.strided_images import StridedImages
from penstock.image.passes.sampling_coordinates import RemapCoordinates
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.numerics.casting import cast_saturating
from penstock.operators.warping.warp_options import warp_interpolation
from penstock.types import INTERP_LINEAR, DALIInterpType

_ORIGINS = {"corner": 0.0, "center": 0.5}


@dataclass(frozen=True)
class Remap(Operator, BatchKernel):
    """Pixels that are looked up where maps say.

    Args:
        layout: of the images, HWC or FHWC.
        interpolation: how values are made of pixels.
        shift: what is added to the maps, so that they count from the corner of the first pixel.
    """

    layout: str
    interpolation: Interpolation
    shift: float

    def infer(self, images: Spec, *maps: Spec) -> Spec:
        """Of the maps' size."""
        if any(each.dtype != np.float32 for each in maps):
            raise DefinitionError(
                "fn.remap: maps are floats", given=" and ".join(map(str, maps)), fix="fn.cast(map, dtype=types.FLOAT)"
            )
        sizes = [self._size(each) for each in maps]
        if any(None not in (a, b) and a != b for a, b in zip(*sizes, strict=True)):
            raise DefinitionError("fn.remap: maps differ in size", given=" and ".join(map(str, maps)))
        size = [a if b is None else b for a, b in zip(*sizes, strict=True)]
        return Spec(images.dtype, (*images.shape[:-3], *size, images.shape[-1]), self.layout)

    def _size(self, given: Spec) -> tuple[int | None, ...]:
        """Height and width of a map, which may have a channel, and frames where the images have."""
        shape = given.shape
        frames, channel = self._form(len(shape), shape[-1] if shape else None, given.layout)
        if len(shape) - frames - channel != 2 or (frames and self.layout[0] != "F"):
            raise DefinitionError("fn.remap: a map has a number per pixel", given=given, expected="float32[h, w]")
        return shape[frames : frames + 2]

    def _form(self, ndim: int, last: int | None, layout: str) -> tuple[bool, bool]:
        """Whether a map of `ndim` axes has frames, and a channel."""
        if ndim == 3:
            framed = layout[:1] == "F" or (not layout and self.layout[0] == "F" and last != 1)
            return framed, not framed
        return ndim == 4, ndim == 4

    def batch(self, context: BatchContext, images: Any, *maps: Any) -> Any:
        """One warp, for which each frame is an image."""
        xp, frames = context.xp, 1 if self.layout == "HWC" else images.shape[1]
        planes: list[Any] = []
        for each in maps:
            framed, channel = self._form(each.ndim - 1, each.shape[-1], "")
            plane = each[..., 0] if channel else each
            plane = (
                plane
                if framed or frames == 1
                else xp.broadcast_to(plane[:, None], (len(plane), frames, *plane.shape[1:]))
            )
            planes.append(plane.reshape(context.rows * frames, *plane.shape[-2:]))
        if planes[0].shape != planes[1].shape:
            raise ValueError(f"maps have shapes {maps[0].shape[1:]} and {maps[1].shape[1:]}")
        height, width = planes[0].shape[1:]
        numbers = xp.stack(planes, axis=1).reshape(context.rows * frames, -1)
        flat = images.reshape(context.rows * frames, *images.shape[-3:])
        flat = flat if flat.dtype == np.uint8 else cast_saturating(xp, flat, np.dtype(np.float32))
        shape = (height, width, flat.shape[-1])
        warp = WarpPass("HWC", RemapCoordinates(self.shift), self.interpolation, Border.CONSTANT)
        terms = (numbers, np.zeros((1, 1), np.float32))
        if xp is np:
            made: Any = np.empty((len(flat), *shape), flat.dtype)
            sizes = (np.array([each.shape[1:]] * len(flat), np.int64).reshape(-1, 3) for each in (flat, made))
            given, target = sizes
            source = StridedImages.of_batch(np.ascontiguousarray(flat))
            warp.run_host(PassImages(source, given, StridedImages.of_batch(made), target), terms)
        else:
            made = warp.trace_xla(flat, np.array([flat.shape[1:]], np.int32), terms, np.array([shape], np.int32), shape)
        return cast_saturating(xp, made, images.dtype).reshape(*images.shape[:-3], *shape)


@operator("remap")
def remap(
    data: DataNode,
    mapx: DataNode,
    mapy: DataNode,
    *,
    interp: DALIInterpType | int = INTERP_LINEAR,
    pixel_origin: Literal["corner", "center"] = "corner",
) -> DataNode:
    """Look the pixels of images up where two maps say, as OpenCV's ``remap`` does.

    The pixel at (x, y) of the result is the image's value at (mapx(x, y), mapy(x, y)); what lies outside is 0. DALI
    does this on GPUs only.

    Args:
        data: images or sequences of any dtype and any number of channels; layout HWC or FHWC.
        mapx: x for each pixel of the result, float32 (height, width), perhaps with a channel; with an axis F before
            these, each frame has its own.
        mapy: y, likewise.
        interp: INTERP_LINEAR, INTERP_NN or INTERP_CUBIC, as for `warp_perspective`.
        pixel_origin: whether (0, 0) is the "corner" of the first pixel, or its "center", as in OpenCV.

    Returns:
        Images of the maps' size, same dtype and layout.

    Raises:
        DefinitionError: maps that do not fit, a layout or interpolation that is not offered.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[10], [20], [30]]]]), layout="HWC")
        ...     x, y = np.float32([[2, 0.5]]), np.float32([[0, 0]])
        ...     pipeline.set_outputs(fn.experimental.remap(images, x, y, pixel_origin="center"))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [30, 15]
    """
    layout = plane_layout(data, "remap")
    if layout not in ("HWC", "FHWC"):
        raise DefinitionError("fn.remap takes images with their channels last", given=layout, expected="HWC or FHWC")
    if pixel_origin not in _ORIGINS:
        raise DefinitionError(
            "fn.remap: no such pixel_origin", given=short_repr(pixel_origin), fix=did_you_mean(pixel_origin, _ORIGINS)
        )
    made = Remap(layout, warp_interpolation(interp, "remap", cubic=True), _ORIGINS[pixel_origin])
    return apply(made, data, mapx, mapy)
