"""Operator that masks a grid of squares in images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, Planes, apply, assumed_layout, operator
from penstock.image.describe.steps import CustomStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.grid_mask_pass import GridMaskPass


@dataclass(frozen=True)
class GridMask(ImageOperator):
    """Grid mask.

    Args:
        layout: Layout of the images.
    """

    layout: str
    pixel_aligned: ClassVar[bool] = True

    @property
    def traceable(self) -> bool:
        """False: the operator needs the host."""
        # The sines and cosines of XLA differ from NumPy's in the last bit, which decides about pixels on an edge.
        return False

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input."""
        return images

    def describe(
        self, images: ImageInfo, bits: Any, *, tile: Any, ratio: Any, angle: Any, shift_x: Any, shift_y: Any
    ) -> Sequence[Step]:
        """Return one step with six numbers per row."""
        # The order of the numbers is that of GridMaskPass.
        numbers = np.broadcast_arrays(np.cos(angle), np.sin(angle), shift_x, shift_y, tile, ratio)
        term = np.stack(numbers, axis=1).astype(np.float32)
        return [CustomStep(GridMaskPass(self.layout), list(images.sizes), (term,), images.dtype)]


@operator("grid_mask")
def grid_mask(
    data: Planes,
    *,
    tile: Annotated[int | DataNode, Argument(np.int32, low=1)] = 100,
    ratio: Annotated[float | DataNode, Argument(np.float32)] = 0.5,
    angle: Annotated[float | DataNode, Argument(np.float32)] = 0.0,
    shift_x: Annotated[float | DataNode, Argument(np.float32)] = 0.0,
    shift_y: Annotated[float | DataNode, Argument(np.float32)] = 0.0,
) -> DataNode:
    """Set a grid of squares in images to zero.

    Implements "GridMask Data Augmentation" (Chen et al., 2020): each tile of the grid has a square in its first corner.
    DALI takes uint8, int16, int32 and float32 and treats every input as HWC; Penstock takes any dtype and follows the
    layout. All arguments may be a number, or a node with one per sample.

    Args:
        data: Images or sequences of any dtype; the layout needs H and W and defaults to HWC.
        tile: Side of a tile in pixels, at least 1.
        ratio: Side of a square, relative to the side of a tile.
        angle: Rotation of the grid about the first pixel of the image, in radians.
        shift_x: Offset of the grid along x, in pixels of the rotated grid.
        shift_y: Offset of the grid along y, in pixels of the rotated grid.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The input is a volume, or `tile` is below 1.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.ones((1, 3, 5, 1), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.grid_mask(images, tile=3, ratio=0.6, shift_x=1))
        >>> pipeline.run()[0].as_array()[0, :, :, 0].tolist()
        [[1, 0, 0, 1, 0], [1, 0, 0, 1, 0], [1, 1, 1, 1, 1]]
    """
    kernel = GridMask(assumed_layout(data.spec))
    return apply(kernel, data, tile=tile, ratio=ratio, angle=angle, shift_x=shift_x, shift_y=shift_y)
