"""random_resized_crop: a random window of each image, in one size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.axis_mapping import max_filter_support, where
from penstock.image.describe.random_window import RandomWindow, RandomWindowArguments, random_window
from penstock.image.describe.steps import ImageInfo, ResampleAxis, ResampleStep, Step
from penstock.operators.resizing.filter_arguments import FILTER_SCHEMA, FilterArguments, filter_arguments
from penstock.operators.resizing.resize import Resampling, cast_steps, resampled_dtype
from penstock.types import DALIDataType


class RandomResizedCropArguments(RandomWindowArguments, FilterArguments, total=False):
    """Window and filters."""


@dataclass(frozen=True)
class RandomResizedCrop(Resampling):
    """A random window, resampled. Pixels beside it take part in the resampling at its edges.

    Args:
        window: the distribution of windows.
        size: height and width of the result.
        antialias: whether filters are stretched where a window shrinks.
    """

    window: RandomWindow
    size: tuple[int, int]
    antialias: bool
    schema: ClassVar[Mapping[str, Argument]] = FILTER_SCHEMA

    @property
    def random_bits(self) -> int:
        """Those of the window."""
        return self.window.random_bits

    def infer(self, images: Spec, **_filters: Any) -> Spec:
        """The size."""
        shape = list(images.shape)
        for axis, size in zip("HW", self.size, strict=True):
            shape[self.layout.index(axis)] = size
        return Spec(self.dtype, tuple(shape), images.layout or self.layout)

    def describe(self, images: ImageInfo, bits: Any, *, min_filter: Any, mag_filter: Any) -> Sequence[Step]:
        """A window drawn for each row."""
        places = [self.layout.index(axis) for axis in "HW"]
        top, left, height, width = self.window(images.sizes[places[0]], images.sizes[places[1]], bits)
        parts: dict[int, ResampleAxis] = {}
        for at, first, length, size in zip(places, (top, left), (height, width), self.size, strict=True):
            filters = where(size < length, min_filter, mag_filter)
            parts[at] = ResampleAxis(
                first.astype(np.float64), (first + length).astype(np.float64), np.full(images.rows, size), filters
            )
        return [ResampleStep(parts, self.antialias, max_filter_support(min_filter, mag_filter)), cast_steps(self.dtype)]


@operator("random_resized_crop")
def random_resized_crop(
    data: DataNode,
    *,
    size: int | Sequence[int],
    dtype: DALIDataType | Any = None,
    seed: int = -1,
    **arguments: Unpack[RandomResizedCropArguments],
) -> DataNode:
    """Cut a window of random area and aspect ratio out of each image, and resize it.

    Pixels beside the window, where the image has them, take part in the resampling at its edges.

    Args:
        data: images or sequences, uint8, int16, uint16 or float32; layout with H and W (HWC where none is named).
        size: (height, width) of the result; one number for both.
        dtype: of the result: FLOAT or the input's, which it is by default.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.
        **arguments: See `RandomResizedCropArguments`.

    Returns:
        Images of `size`, in the input's layout.

    Raises:
        DefinitionError: a size or limits that are not positive or out of order, a dtype or layout that is not offered.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.random_resized_crop(images, size=(32, 32)))
        >>> pipeline.run()[0].as_array().shape
        (1, 32, 32, 3)
    """
    layout = image_layout(data, "random_resized_crop")
    if "D" in layout:
        raise DefinitionError("fn.random_resized_crop cuts images", given=f"layout {layout!r}", expected="no D")
    sizes = [int(extent) for extent in np.ravel(np.asarray(size)).tolist()]
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    if len(sizes) != 2 or not all(extent > 0 for extent in sizes):
        raise DefinitionError("fn.random_resized_crop: size is (height, width)", given=size)
    kernel = RandomResizedCrop(
        layout=layout,
        window=random_window(select_arguments(RandomWindowArguments, arguments), "random_resized_crop"),
        size=(sizes[0], sizes[1]),
        antialias=bool(arguments.get("antialias", True)),
        dtype=resampled_dtype(data, dtype, "random_resized_crop"),
    )
    filters = filter_arguments(select_arguments(FilterArguments, arguments), "random_resized_crop")
    return apply(kernel, data, seed=seed, **filters)
