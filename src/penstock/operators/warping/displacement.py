"""Operators that displace pixels: at random, like a sphere, and like water."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Unpack

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Spec
from penstock.graph import Argument, DataNode, Planes, Range, apply, operator
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.displacement_fields import JitterCoordinates, SphereCoordinates, WaterCoordinates
from penstock.image.passes.sampling_coordinates import CoordinateMap
from penstock.operators.warping.warp_options import WarpOptions, warp_interpolation, warp_options
from penstock.types import INTERP_NN, DALIInterpType


class DisplacementArguments(TypedDict, total=False):
    """Arguments of all displacements.

    Args:
        mask: 1 (default) to displace the image, 0 to leave it unchanged; a number, or a node with one per sample.
        fill_value: Value of pixels outside the image, in the input's range; by default 0.
        interp_type: INTERP_NN (default) or INTERP_LINEAR.
    """

    mask: Annotated[int | DataNode, Argument(np.int32)]
    fill_value: float
    interp_type: DALIInterpType | int


@dataclass(frozen=True)
class Displacement(ImageOperator):
    """Warp in which each pixel of the result samples the image at a displaced position.

    Args:
        warping: Interpolation, border and dtype.
        places: Map from pixels of the result to coordinates in the image.
    """

    warping: WarpOptions
    places: CoordinateMap
    # No matrix describes a displacement: masks can follow images through it, boxes and points cannot.
    is_matrix_map: ClassVar[bool] = False

    def infer(self, images: Spec, *, mask: Any) -> Spec:
        """Return the spec of the input."""
        return self.warping.spec(images)

    def describe(self, images: ImageInfo, bits: Any, *, mask: Any) -> Sequence[Step]:
        """Return one warp, with the mask as its number per row."""
        # Maps take float32 numbers; a row with the mask 0 keeps its pixels.
        enabled = (mask != 0).astype(np.float32)
        return self.warping.steps(images, self.places, enabled[:, None])


@dataclass(frozen=True)
class Jitter(Displacement):
    """Displacement of each pixel by a random number of pixels."""

    @property
    def random_bits(self) -> int:
        """Number of random words per sample."""
        # Two words are the key of the counter-based generator that draws the displacement of each pixel.
        return 2

    def describe(self, images: ImageInfo, bits: Any, *, mask: Any) -> Sequence[Step]:
        """Return one warp, with the mask and the key as its numbers per row."""
        xp = images.xp
        # Maps take float32 numbers, which hold 16 bits exactly but not 32: each word is split into halves.
        halves = [
            half for word in range(2) for half in (bits[:, word] >> np.uint32(16), bits[:, word] & np.uint32(0xFFFF))
        ]
        numbers = xp.broadcast_arrays(mask != 0, *halves)
        return self.warping.steps(images, self.places, xp.stack(numbers, axis=1).astype(np.float32))


def _displace(
    operator: type[Displacement],
    places: CoordinateMap,
    data: DataNode,
    arguments: DisplacementArguments,
    seed: int = -1,
) -> DataNode:
    """Apply a displacement operator to images.

    Raises:
        DefinitionError: The interpolation is neither linear nor nearest.
    """
    fill = arguments.get("fill_value", 0.0)
    # DALI truncates the fill values of displacements and rounds those of warps.
    fill = np.trunc(fill) if data.spec.dtype.kind in "iu" else fill
    options = warp_options(data, warp_interpolation(arguments.get("interp_type", INTERP_NN)), Border.CONSTANT, fill)
    return apply(operator(options, places), data, seed=seed, mask=arguments.get("mask", 1))


@operator("jitter")
def jitter(
    data: Planes,
    *,
    nDegree: Annotated[int, Range(1, 65535)] = 2,  # noqa: N803  # DALI's name
    seed: int = -1,
    **arguments: Unpack[DisplacementArguments],
) -> DataNode:
    """Replace each pixel of images by a random pixel near it.

    The displacements in x and y are uniform over the `nDegree` integers from ``-(nDegree // 2)``. Positions before the
    first pixel are clamped to it; positions after the last pixel get the fill value. DALI has the operator only on
    GPUs and draws different displacements.

    Args:
        data: Images or sequences of any dtype; the layout needs H and W and defaults to HWC. All frames of a sequence
            get the same displacements.
        nDegree: Number of possible displacements along each axis.
        seed: Seed of this operator; -1 derives it from the seed of the pipeline.
        **arguments: See `DisplacementArguments`.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The input is a volume, or the interpolation or fill value is invalid.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1, seed=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.jitter(images, nDegree=3))
        >>> moved = pipeline.run()[0].as_array().ravel() - np.arange(8)
        >>> moved.shape
        (8,)
    """
    return _displace(Jitter, JitterCoordinates(nDegree), data, arguments, seed)


@operator("sphere")
def sphere(data: Planes, **arguments: Unpack[DisplacementArguments]) -> DataNode:
    """Distort images as if they were on a sphere, which enlarges their center.

    A pixel at distance r from the center, relative to half the longer side, is the value of the image in the same
    direction at distance ``r ** 2``. An image of one pixel gets the fill value, as in DALI. DALI takes uint8 and
    float32 in HWC, and its CPU operator ignores a constant `mask`.

    Args:
        data: Images or sequences of any dtype; the layout needs H and W and defaults to HWC.
        **arguments: See `DisplacementArguments`.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The input is a volume, or the interpolation or fill value is invalid.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(6, dtype=np.uint8).reshape(1, 1, 6, 1), layout="HWC")
        ...     pipeline.set_outputs(fn.sphere(images))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0, 2, 2, 3, 3, 5]
    """
    return _displace(Displacement, SphereCoordinates(), data, arguments)


@operator("water")
def water(
    data: Planes,
    *,
    ampl_x: float = 10.0,
    ampl_y: float = 10.0,
    freq_x: float = math.tau / 128,
    freq_y: float = math.tau / 128,
    phase_x: float = 0.0,
    phase_y: float = 0.0,
    **arguments: Unpack[DisplacementArguments],
) -> DataNode:
    """Distort images with waves, as if they were seen through water.

    The pixel at (x, y) of the result is the value of the image at ``(x + ampl_x * sin(freq_x * y + phase_x),
    y + ampl_y * cos(freq_y * x + phase_y))``. DALI 2.4 takes uint8 and float32 in HWC, its CPU operator ignores a
    constant `mask`, and it wraps a `fill_value` that exceeds the dtype, which saturates here.

    Args:
        data: Images or sequences of any dtype; the layout needs H and W and defaults to HWC.
        ampl_x: Amplitude of the displacement in x, in pixels.
        ampl_y: Amplitude of the displacement in y, in pixels.
        freq_x: Frequency of the displacement in x, in radians per pixel.
        freq_y: Frequency of the displacement in y, in radians per pixel.
        phase_x: Phase of the displacement in x, in radians.
        phase_y: Phase of the displacement in y, in radians.
        **arguments: See `DisplacementArguments`.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The input is a volume, or the interpolation or fill value is invalid.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.arange(6, dtype=np.uint8).reshape(1, 2, 3, 1), layout="HWC")
        ...     images = fn.water(images, ampl_x=1, freq_x=1.6, ampl_y=0, fill_value=9)
        ...     pipeline.set_outputs(images)
        >>> pipeline.run()[0].as_array()[0, :, :, 0].tolist()
        [[0, 1, 2], [3, 4, 5]]
    """
    waves = WaterCoordinates(
        (float(ampl_x), float(ampl_y)), (float(freq_x), float(freq_y)), (float(phase_x), float(phase_y))
    )
    return _displace(Displacement, waves, data, arguments)
