"""grid_mask: put a grid of black squares over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import plane_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import CustomStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.grid_mask_pass import GridMaskPass


@dataclass(frozen=True)
class GridMask(ImageOperator):
    """A grid over an image.

    Args:
        layout: of the images.
    """

    layout: str
    pixel_aligned: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "tile": Argument(np.int32, low=1),
        "ratio": Argument(np.float32),
        "angle": Argument(np.float32),
        "shift_x": Argument(np.float32),
        "shift_y": Argument(np.float32),
    }

    @property
    def traceable(self) -> bool:
        """Sines and cosines come from the host: where an edge meets a pixel, rounding chooses."""
        return False

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """The input's."""
        return images

    def describe(
        self, images: ImageInfo, bits: Any, *, tile: Any, ratio: Any, angle: Any, shift_x: Any, shift_y: Any
    ) -> Sequence[Step]:
        """One transform, with six numbers per row."""
        numbers = np.broadcast_arrays(np.cos(angle), np.sin(angle), shift_x, shift_y, tile, ratio)
        term = np.stack(numbers, axis=1).astype(np.float32)
        return [CustomStep(GridMaskPass(self.layout), list(images.sizes), (term,), images.dtype)]


@operator("grid_mask")
def grid_mask(
    data: DataNode,
    *,
    tile: int | DataNode = 100,
    ratio: float | DataNode = 0.5,
    angle: float | DataNode = 0.0,
    shift_x: float | DataNode = 0.0,
    shift_y: float | DataNode = 0.0,
) -> DataNode:
    """Put a grid of black squares over images: each tile of the grid has one in its first corner.

    From the paper "GridMask Data Augmentation" (Chen et al., 2020). DALI takes uint8, int16, int32 and float32, in HWC
    whatever the layout says; here any layout counts.

    Args:
        data: images or sequences of any dtype; layout with H and W (HWC where none is named).
        tile: the side of a tile, in pixels, at least 1; a number, or a node with one per sample.
        ratio: the side of a square, in parts of a tile's; likewise.
        angle: by which the grid is turned about the image's first pixel, in radians; likewise.
        shift_x: from where on tiles are counted along x, in pixels of the turned grid; likewise.
        shift_y: along y; likewise.

    Returns:
        Same shape, dtype and layout.

    Raises:
        DefinitionError: a volume, a tile without pixels.

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
    layout = plane_layout(data, "grid_mask")
    given: dict[str, Any] = {"tile": tile, "ratio": ratio, "angle": angle, "shift_x": shift_x, "shift_y": shift_y}
    return apply(GridMask(layout), data, **given)
