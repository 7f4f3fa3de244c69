"""jitter: pixels that change places with their neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.graph.arguments.argument_marks import Range
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.displacement_fields import JitterCoordinates
from penstock.operators.warping.displacement_operator import Displacement, DisplacementArguments, apply_displacement


@dataclass(frozen=True)
class Jitter(Displacement):
    """Pixels that are looked up a random number of pixels away."""

    @property
    def random_bits(self) -> int:
        """A key, with which the steps of each pixel are drawn."""
        return 2

    def describe(self, images: ImageInfo, bits: Any, *, mask: Any) -> Sequence[Step]:
        """One warp, with a flag and a key per row."""
        xp = images.xp
        halves = [
            part for word in range(2) for part in (bits[:, word] >> np.uint32(16), bits[:, word] & np.uint32(0xFFFF))
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
    """Take each pixel of images from a random place near its own.

    The place lies a whole number of pixels away in x and in y, from ``-(nDegree // 2)`` on, of `nDegree` numbers, all
    equally likely. A place that would lie before the first pixel is the first one; one beyond the last has the fill
    value. DALI does this on GPUs only; which places it draws differs.

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named). All frames of a sequence
            move alike.
        nDegree: how many places there are along each axis.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.
        **arguments: See `DisplacementArguments`.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: a volume, an unknown interpolation, a fill value that the images cannot have.

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
