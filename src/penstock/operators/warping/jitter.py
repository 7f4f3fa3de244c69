"""Operator that displaces pixels at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.graph import DataNode, Range, operator
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.displacement_fields import JitterCoordinates
from penstock.operators.warping.displacement_operator import Displacement, DisplacementArguments, apply_displacement


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


@operator("jitter")
def jitter(
    data: DataNode,
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
    return apply_displacement(Jitter, JitterCoordinates(nDegree), data, "jitter", arguments, seed)
