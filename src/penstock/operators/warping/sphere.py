"""Operator that distorts images like a sphere."""

from __future__ import annotations

from typing import Unpack

from penstock.graph import DataNode, operator
from penstock.image.passes.displacement_fields import SphereCoordinates
from penstock.operators.warping.displacement_operator import Displacement, DisplacementArguments, apply_displacement


@operator("sphere")
def sphere(data: DataNode, **arguments: Unpack[DisplacementArguments]) -> DataNode:
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
    return apply_displacement(Displacement, SphereCoordinates(), data, "sphere", arguments)
