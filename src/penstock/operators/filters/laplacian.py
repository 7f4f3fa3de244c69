"""Operator that computes the Laplacian of images and volumes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, apply, by_axis, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.passes.separable_pass import SeparablePass
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.filters.window_operator import (
    Filtered,
    WindowOperator,
    as_image,
    as_signal,
    check_filtered,
    check_odd,
    for_row,
    volume_layout,
)
from penstock.operators.number_arguments import Numbers

# Limit of DALI 2.4, whose documentation says 23.
_MAX_WINDOW = 31


def _windows(first: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return windows of 1, 3, 5, ... weights, one per row, centered and padded with zeros."""
    # As in OpenCV's Sobel filters, each window is the previous one convolved with (1, 2, 1), so binomial coefficients
    # smooth the first one.
    windows = np.zeros((_MAX_WINDOW // 2 + 1, _MAX_WINDOW))
    start = (len(first) - 1) // 2
    for radius in range(start, len(windows)):
        window = np.convolve(first, [math.comb(2 * (radius - start), k) for k in range(2 * (radius - start) + 1)])
        windows[radius, _MAX_WINDOW // 2 - radius : _MAX_WINDOW // 2 + radius + 1] = window
    return windows.astype(np.float32)


_SMOOTH, _DERIVE = _windows([1]), _windows([1, -2, 1])


@dataclass(frozen=True)
class Laplacian(WindowOperator):
    """Sum of the smoothed second derivatives along all spatial axes.

    Args:
        normalized: True to divide derivatives by the sums of their windows.
        length: Length of the largest window.
    """

    normalized: bool
    length: int

    def check(self, **numbers: Any) -> None:
        """Refuse even window sizes."""
        for name in numbers.keys() & {"window_size", "smoothing_size"}:
            check_odd(name, numbers[name])

    def describe(
        self, images: ImageInfo, bits: Any, *, window_size: Any, scale: Any, **smoothing_size: Any
    ) -> Sequence[Step]:
        """Return one pass with a separable filter per axis."""
        xp, axes = images.xp, self.axes
        numbers = self.by_row(images, window_size=window_size, scale=scale, **smoothing_size)
        window, factors, *smoothing = (by_axis(value, self.layout) for value in numbers)
        filters: list[Any] = []
        for own in range(axes):
            # A derivative along one axis is smoothed along the others, by windows of the same size by default.
            sizes = [smoothing[0][:, at] if smoothing and at != own else window[:, own] for at in range(axes)]
            factor, total = factors[:, own], sum(sizes, np.int32(0))
            if self.normalized:
                # A binomial window of n weights sums to 2 ** (n - 1), and the derivative counts as one of n - 2.
                factor = xp.exp2((axes + 2 - total).astype(np.float32))
            along = [xp.asarray(_DERIVE if at == own else _SMOOTH)[size // 2] for at, size in enumerate(sizes)]
            along[own] = along[own] * factor[:, None]
            filters.append(xp.stack(along, axis=1))
        weights = xp.stack(filters, axis=1)
        # Leave out the zeros around the longest window, which would cost time in every pixel.
        edge = (_MAX_WINDOW - self.length) // 2
        weights = weights[..., edge : edge + self.length].reshape(len(window), -1)
        transform = SeparablePass(self.layout, axes, self.length)
        return custom_steps(transform, images, images.sizes, (weights,), self.dtype)


@operator("laplacian")
@rounds_to_bfloat16
def laplacian(
    data: Filtered,
    *,
    window_size: Annotated[
        int | Sequence[int] | DataNode, Argument(np.int32, (None,), low=3, high=_MAX_WINDOW, example=3)
    ] = 3,
    smoothing_size: Annotated[
        int | Sequence[int] | DataNode | None, Argument(np.int32, (None,), low=1, high=_MAX_WINDOW, example=3)
    ] = None,
    scale: Numbers = 1.0,
    normalized_kernel: bool = False,
    dtype: DType = None,
) -> DataNode:
    """Compute the Laplacian of images or volumes: the sum of the second derivatives along all spatial axes.

    Each derivative is a separable filter as in OpenCV: (1, -2, 1) along its axis, smoothed with binomial weights along
    all axes. Outside the image the filter reads the mirrored image without its edge pixels. Sums are in float32.

    Numbers are one for all axes, one for each of D, H and W in the order of the layout, or a node with either per
    sample.

    Args:
        data: Images, volumes or sequences of any dtype; the layout needs H and W and defaults to HW or DHW, as in
            DALI: name the axes of images with channels. Also signals of one spatial axis, or sequences of them.
        window_size: Size of the window along the axis of a derivative, an odd number from 3 to 31.
        smoothing_size: Size of the window along the other axes, an odd number from 1 (no smoothing) to 31; by default
            `window_size`.
        scale: Factor of each derivative.
        normalized_kernel: True to divide derivatives by the sums of their smoothing weights, instead of `scale`.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.

    Returns:
        Laplacian in the shape and layout of the input; integers are rounded and saturate.

    Raises:
        DefinitionError: A window is even, both `scale` and `normalized_kernel` are set, or the dtype is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.uint8([[[[0], [0], [1], [0], [0]]]]), layout="HWC")
        ...     pipeline.set_outputs(fn.laplacian(images, smoothing_size=1, dtype=types.FLOAT))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0.0, 1.0, -2.0, 1.0, 0.0]
    """
    if normalized_kernel and not (isinstance(scale, int | float) and scale == 1):
        raise DefinitionError("normalized_kernel and scale cannot be combined", given=scale, fix="leave out scale")
    if check_filtered(data.spec):
        # The mirrored derivative along one row is 0, and a smoothing window of 1 leaves the height as it is.
        rows = laplacian(
            as_image(data),
            window_size=for_row(3, window_size),
            smoothing_size=1,
            scale=1.0 if normalized_kernel else for_row(1, scale),
            normalized_kernel=normalized_kernel,
            dtype=dtype,
        )
        return as_signal(rows, data.spec.layout)
    # With constant sizes the filters are no longer than needed; sizes of nodes may be up to the largest.
    sizes: list[Any] = [size for size in (window_size, smoothing_size) if size is not None]
    constant = not any(isinstance(size, DataNode) for size in sizes)
    length = min(max(3, *(int(np.max(size, initial=0)) for size in sizes)), _MAX_WINDOW) if constant else _MAX_WINDOW
    dtype = output_dtype(data.spec.dtype, dtype)
    kernel = Laplacian(volume_layout(data), dtype, normalized_kernel, length | 1)
    return apply(kernel, data, window_size=window_size, scale=scale, smoothing_size=smoothing_size)
