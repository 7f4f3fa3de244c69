"""Operator that distorts images like water."""

from __future__ import annotations

import math
from typing import Unpack

from penstock.graph import DataNode, operator
from penstock.image.passes.displacement_fields import WaterCoordinates
from penstock.operators.warping.displacement_operator import Displacement, DisplacementArguments, apply_displacement


@operator("water")
def water(
    data: DataNode,
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
    return apply_displacement(Displacement, waves, data, "water", arguments)
