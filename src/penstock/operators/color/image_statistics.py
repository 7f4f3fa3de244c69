"""Checks of the statistics that images are normalized with: their unit must be that of the pixels."""

from typing import Any

import numpy as np

from penstock.core.warn_once import warn_once
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Graph
from penstock.operators.first_sample import first_sample


def check_statistics(images: DataNode, mean: Any, std: Any) -> None:
    """Warn if uint8 images are normalized by statistics of the range 0 to 1, or images in 0 to 1 by those of 0 to 255.

    Args:
        images: The images.
        mean: Mean to subtract; a node is not checked.
        std: Divisor; a node is not checked.
    """
    if isinstance(mean, DataNode) or isinstance(std, DataNode) or mean is None or std is None:
        return
    means, divisors = np.abs(np.asarray(mean, np.float64)), np.asarray(std, np.float64)
    if not means.size or not divisors.size or not means.any():
        return
    if images.dtype == np.uint8 and means.max() < 1 and divisors.max() < 1:
        warn_once(
            "fractions",
            f"uint8 images have pixels from 0 to 255, but mean={_text(mean)} and std={_text(std)} are for 0 to 1",
            fix="mean=[0.485 * 255, ...] and std=[0.229 * 255, ...], in the units of the pixels",
        )
    elif images.dtype.kind == "f" and means.max() > 2 and _is_in_unit_range(images):
        warn_once(
            "statistics of bytes",
            f"the images have pixels from 0 to 1, as the first one shows, but mean={_text(mean)} is for 0 to 255",
            fix="mean=[0.485, ...] and std=[0.229, ...]; or normalize the uint8 images, which is faster",
        )


def _text(numbers: Any) -> str:
    return str(np.round(np.asarray(numbers, np.float64), 3).tolist())


def _is_in_unit_range(images: DataNode) -> bool:
    """Return True if the first image has numbers from 0 to 1; False if it is not known while tracing."""
    # A user's source may not be asked for a sample earlier than a batch needs it.
    if Graph((images.value,)).feeds:
        return False
    try:
        first = first_sample(images.value, "")
    except DefinitionError:
        return False
    return bool(first.size and first.min() >= 0 and 0 < first.max() <= 1)
