"""Operator that remaps images with coordinate maps."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator, apply, assumed_layout, operator
from penstock.image.describe.custom_pass import PassImages
from penstock.image.kernels.border_modes import Border
from penstock.image.kernels.strided_images import StridedImages
from penstock.image.passes.sampling_coordinates import RemapCoordinates
from penstock.image.passes.warp_pass import Interpolation, WarpPass
from penstock.numerics.casting import cast_saturating
from penstock.operators.warping.warp_options import warp_interpolation
from penstock.types import INTERP_LINEAR, DALIInterpType

# Offset of coordinates for each pixel_origin, so that (0, 0) is the corner of the first pixel.
_ORIGINS = {"corner": 0.0, "center": 0.5}

CoordinateImage = Annotated[DataNode, Input(("float32",))]


@dataclass(frozen=True)
class Remap(Operator, BatchKernel):
    """Warp with a coordinate map for x and one for y.

    Args:
        layout: Layout of the images, HWC or FHWC.
        interpolation: Interpolation between pixels.
        shift: Offset of the coordinates, so that (0, 0) is the corner of the first pixel.
    """

    layout: str
    interpolation: Interpolation
    shift: float

    def infer(self, images: Spec, *maps: Spec) -> Spec:
        """Return the spec of images of the size of the maps."""
        sizes = [self._size(spec) for spec in maps]
        if any(None not in (a, b) and a != b for a, b in zip(*sizes, strict=True)):
            raise DefinitionError("maps differ in size", given=" and ".join(map(str, maps)))
        size = [a if b is None else b for a, b in zip(*sizes, strict=True)]
        return Spec(images.dtype, (*images.shape[:-3], *size, images.shape[-1]), self.layout)

    def _size(self, spec: Spec) -> tuple[int | None, ...]:
        """Return the height and width of a map, which may have frames and a channel."""
        shape = spec.shape
        frames, channel = self._form(len(shape), shape[-1] if shape else None, spec.layout)
        if len(shape) - frames - channel != 2 or (frames and self.layout[0] != "F"):
            raise DefinitionError("mapx and mapy must have one number per pixel", given=spec, expected="float32[h, w]")
        return shape[frames : frames + 2]

    def _form(self, ndim: int, last: int | None, layout: str) -> tuple[bool, bool]:
        """Return whether a map of `ndim` axes has frames, and whether it has a channel."""
        if ndim == 3:
            # Three axes are FHW or HWC. Without a layout, a last axis of length 1 is a channel.
            framed = layout[:1] == "F" or (not layout and self.layout[0] == "F" and last != 1)
            return framed, not framed
        return ndim == 4, ndim == 4

    def batch(self, context: BatchContext, images: Any, *maps: Any) -> Any:
        """Warp a batch, with the frames of sequences as rows."""
        xp, frames = context.xp, 1 if self.layout == "HWC" else images.shape[1]
        planes: list[Any] = []
        for coordinates in maps:
            framed, channel = self._form(coordinates.ndim - 1, coordinates.shape[-1], "")
            plane = coordinates[..., 0] if channel else coordinates
            # A map without frames applies to all frames.
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
        # The pass samples bytes and float32; other dtypes are converted and cast back.
        flat = flat if flat.dtype == np.uint8 else cast_saturating(xp, flat, np.dtype(np.float32))
        shape = (height, width, flat.shape[-1])
        warp = WarpPass("HWC", RemapCoordinates(self.shift), self.interpolation, Border.CONSTANT)
        terms = (numbers, np.zeros((1, 1), np.float32))
        if xp is np:
            result: Any = np.empty((len(flat), *shape), flat.dtype)
            sizes = [np.array([batch.shape[1:]] * len(flat), np.int64).reshape(-1, 3) for batch in (flat, result)]
            source, target = (StridedImages.of_batch(batch) for batch in (np.ascontiguousarray(flat), result))
            warp.run_host(PassImages(source, sizes[0], target, sizes[1]), terms)
        else:
            sizes = [np.array([extents], np.int32) for extents in (flat.shape[1:], shape)]
            result = warp.trace_xla(flat, sizes[0], terms, sizes[1], shape)
        return cast_saturating(xp, result, images.dtype).reshape(*images.shape[:-3], *shape)


@operator("remap")
def remap(
    data: Annotated[DataNode, Input(layouts=("HWC", "FHWC"))],
    mapx: CoordinateImage,
    mapy: CoordinateImage,
    *,
    interp: DALIInterpType | int = INTERP_LINEAR,
    pixel_origin: Literal["corner", "center"] = "corner",
) -> DataNode:
    """Remap images with coordinate maps, like OpenCV's ``remap``.

    The pixel at (x, y) of the result is the value of the image at (mapx(x, y), mapy(x, y)), and 0 outside the image.
    DALI has the operator only on GPUs.

    Args:
        data: Images or sequences of any dtype and number of channels, layout HWC or FHWC.
        mapx: x coordinate for each pixel of the result, float32 (height, width) or (height, width, 1); with a leading
            axis F, each frame has its own map.
        mapy: y coordinate for each pixel of the result, in the same form.
        interp: INTERP_LINEAR, INTERP_NN or INTERP_CUBIC (see `warp_perspective`).
        pixel_origin: Position of (0, 0): the "corner" of the first pixel, or its "center" as in OpenCV.

    Returns:
        Images of the size of the maps, in the dtype and layout of the input.

    Raises:
        DefinitionError: The maps are not float32 or differ in size, or the layout or interpolation is not supported.

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
    kernel = Remap(assumed_layout(data.spec), warp_interpolation(interp, cubic=True), _ORIGINS[pixel_origin])
    return apply(kernel, data, mapx, mapy)
