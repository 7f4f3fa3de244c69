"""Operator that crops a random window and resizes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from penstock.core import Spec
from penstock.graph import DataNode, DType, Input, Range, apply, assumed_layout, operator
from penstock.image.describe.axis_mapping import check_taps, max_filter_support, where
from penstock.image.describe.random_window import RandomWindow, RandomWindowArguments, random_window
from penstock.image.describe.steps import ImageInfo, ResampleAxis, ResampleStep, Step
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import check_number_count
from penstock.operators.resizing.filter_arguments import FilterArguments, filter_arguments
from penstock.operators.resizing.resize import RESAMPLED, Resampling, cast_step
from penstock.operators.resizing.target_size import check_pixels


class RandomResizedCropArguments(RandomWindowArguments, FilterArguments, total=False):
    """Arguments of the random window and the filters."""


@dataclass(frozen=True)
class RandomResizedCrop(Resampling):
    """Resampling of a random window.

    Args:
        window: Distribution of windows.
        size: Height and width of the result.
        antialias: True to widen the filters where a window shrinks.
    """

    window: RandomWindow
    size: tuple[int, int]
    antialias: bool

    @property
    def random_bits(self) -> int:
        """Number of random words of the window."""
        return self.window.random_bits

    def infer(self, images: Spec, **_filters: Any) -> Spec:
        """Return the spec with the target height and width."""
        shape = list(images.shape)
        for axis, size in zip("HW", self.size, strict=True):
            shape[self.layout.index(axis)] = size
        return Spec(self.dtype, tuple(shape), images.layout or self.layout)

    def describe(self, images: ImageInfo, bits: Any, *, min_filter: Any, mag_filter: Any) -> Sequence[Step]:
        """Draw a window per row and return the steps: resample, cast."""
        axes = [self.layout.index(axis) for axis in "HW"]
        extents: list[Any] = [images.sizes[axis] for axis in axes]
        if images.xp is np:
            check_pixels(np.stack(extents, axis=1))
        top, left, height, width = self.window(extents[0], extents[1], bits)
        parts: dict[int, ResampleAxis] = {}
        # The window is a ROI, not a crop, as in DALI: filters at its edges read the pixels of the image beyond them.
        for axis, first, length, size in zip(axes, (top, left), (height, width), self.size, strict=True):
            filters = where(size < length, min_filter, mag_filter)
            parts[axis] = ResampleAxis(
                first.astype(np.float64), (first + length).astype(np.float64), np.full(images.rows, size), filters
            )
        for part in parts.values() if self.antialias else ():
            check_taps(part.low, part.high, part.size, part.filters)
        return [ResampleStep(parts, self.antialias, max_filter_support(min_filter, mag_filter)), cast_step(self.dtype)]

    def draws(self, bits: NDArray[np.uint32], shape: tuple[int, ...]) -> Mapping[str, int]:
        """Return the window."""
        height, width = (shape[self.layout.index(axis)] for axis in "HW")
        return self.window.draws(height, width, bits)


@operator("random_resized_crop")
@rounds_to_bfloat16
def random_resized_crop(
    data: Annotated[DataNode, Input(RESAMPLED, axes="HW", without="D", fix="fn.cast(data, dtype=types.FLOAT)")],
    *,
    size: Annotated[int | Sequence[int], Range(1)],
    dtype: DType = None,
    seed: int = -1,
    **arguments: Unpack[RandomResizedCropArguments],
) -> DataNode:
    """Crop a window of random area and aspect ratio from each image and resize it.

    As in DALI, filters at the edges of the window read the pixels of the image around it.

    Args:
        data: Images or sequences, uint8, int16, uint16 or float32; the layout needs H and W and defaults to HWC.
        size: (height, width) of the result in pixels, or one number for both.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.
        seed: Seed of this operator; -1 derives it from the seed of the pipeline.
        **arguments: See `RandomResizedCropArguments`.

    Returns:
        Images of `size` in the layout of the input.

    Raises:
        DefinitionError: `size` or a limit is not positive, limits are not in ascending order, or the dtype or layout is
            not supported.

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
    check_number_count("size", size, 2)
    height, width = np.broadcast_to(size, 2).tolist()
    kernel = RandomResizedCrop(
        layout=assumed_layout(data.spec),
        window=random_window(arguments),
        size=(height, width),
        antialias=bool(arguments.get("antialias", True)),
        dtype=output_dtype(data.spec.dtype, dtype),
    )
    return apply(kernel, data, seed=seed, **filter_arguments(arguments))
