"""Passes in the form that executors take, shared by all batches that have the same passes."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from penstock.image.describe.axis_mapping import read_range
from penstock.image.describe.pixel_pass import Pass, PassAxis
from penstock.image.execute.value_pass import prepare


class PreparedPasses:
    """Passes over some rows, with everything that follows from them and not from the images.

    Args:
        passes: Passes, in order.

    Attributes:
        values: Per pass, its form for the loops for values, or None.
    """

    def __init__(self, passes: Sequence[Pass]) -> None:
        self.passes = passes
        self.values = [prepare(pass_) for pass_ in passes]

    @cached_property
    def read_regions(self) -> NDArray[np.int64]:
        """Region of each image that the first pass reads, (rows, 4) in the order of `Region`."""
        (tops, bottoms), (lefts, rights) = (read_range(spatial_axis(self.passes[0], letter).numbers) for letter in "HW")
        return np.stack([tops, bottoms, lefts, rights], axis=1)


def spatial_axis(pass_: Pass, letter: str) -> PassAxis:
    """Return the axis of a pass with a letter."""
    return next(axis for axis in pass_.axes if axis.letter == letter)
