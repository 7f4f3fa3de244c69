"""sphere: images as if on a ball."""

from __future__ import annotations

from typing import Unpack

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.passes.displacement_fields import SphereCoordinates
from penstock.operators.warping.displacement_operator import Displacement, DisplacementArguments, apply_displacement


@operator("sphere")
def sphere(data: DataNode, **arguments: Unpack[DisplacementArguments]) -> DataNode:
    """Bend images as if they were on a ball: their middle is enlarged.

    A pixel at the distance r from the centre, in parts of half the longer side, is the image's value in the same
    direction at the distance r r. An image of one pixel gets the fill value, as in DALI, which takes uint8 and float32
    in HWC, and ignores a `mask` that is no node on the CPU.

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named).
        **arguments: See `DisplacementArguments`.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: a volume, an unknown interpolation, a fill value that the images cannot have.

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
    return apply_displacement(Displacement, SphereCoordinates(), data, "sphere", arguments)
