"""laplacian: the second derivatives of images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import by_axis, spatial_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.passes.separable_pass import SeparablePass
from penstock.numerics.casting import wanted_dtype
from penstock.types import DALIDataType

_MOST = 31
"""The largest window."""


def _windows(first: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Windows of 1, 3, 5, ... weights, centred: the first of them smoothed with 1, 2, 1 as often as it needs."""
    windows = np.zeros((_MOST // 2 + 1, _MOST))
    start = (len(first) - 1) // 2
    for radius in range(start, len(windows)):
        window = np.convolve(first, [math.comb(2 * (radius - start), k) for k in range(2 * (radius - start) + 1)])
        windows[radius, _MOST // 2 - radius : _MOST // 2 + radius + 1] = window
    return windows.astype(np.float32)


_SMOOTH, _DERIVE = _windows([1]), _windows([1, -2, 1])


@dataclass(frozen=True)
class Laplacian(ImageOperator):
    """The sum of the second derivatives along all spatial axes, each smoothed across.

    Args:
        layout: of the images.
        normalized: whether derivatives are divided by the sums of their windows.
        length: of the largest window.
        dtype: of the results; None for that of the images.
    """

    layout: str
    normalized: bool
    length: int
    dtype: np.dtype[Any] | None
    schema: ClassVar[Mapping[str, Argument]] = {
        "window_size": Argument(np.int32, (None,), low=3, high=_MOST, example=3),
        "smoothing_size": Argument(np.int32, (None,), low=1, high=_MOST, example=3),
        "scale": Argument(np.float32, (None,)),
    }

    @property
    def axes(self) -> int:
        """How many spatial axes there are."""
        return 3 if "D" in self.layout else 2

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """The input's, in the dtype that is wanted."""
        for name, given in arguments.items():
            if isinstance(given, Spec):
                continue
            if np.size(given) not in (1, self.axes):
                raise DefinitionError(f"fn.laplacian: {name} is one number, or one per axis", given=given)
            if name != "scale":
                _check(np.asarray(given))
        return replace(images, dtype=self.dtype or images.dtype)

    def describe(
        self, images: ImageInfo, bits: Any, *, window_size: Any, scale: Any, smoothing_size: Any = None
    ) -> Sequence[Step]:
        """One separable filter per axis."""
        xp, rows, axes = images.xp, len(window_size), self.axes
        window, factors = (by_axis(xp.broadcast_to(given, (rows, axes)), self.layout) for given in (window_size, scale))
        smoothing: Any = None
        if smoothing_size is not None:
            smoothing = by_axis(xp.broadcast_to(smoothing_size, (rows, axes)), self.layout)
        if xp is np:
            _check(window)
            if smoothing is not None:
                _check(smoothing)
        filters: list[Any] = []
        for own in range(axes):
            # a derivative along one axis is smoothed along the others, by windows of the same size if none is given
            sizes = [window[:, own] if at == own or smoothing is None else smoothing[:, at] for at in range(axes)]
            factor, total = factors[:, own], sum(sizes, np.int32(0))
            if self.normalized:
                factor = xp.exp2((axes + 2 - total).astype(np.float32))
            along = [xp.asarray(_DERIVE if at == own else _SMOOTH)[size // 2] for at, size in enumerate(sizes)]
            along[own] = along[own] * factor[:, None]
            filters.append(xp.stack(along, axis=1))
        weights = xp.stack(filters, axis=1)
        edge = (_MOST - self.length) // 2
        weights = weights[..., edge : edge + self.length].reshape(rows, -1)
        transform = SeparablePass(self.layout, axes, self.length)
        return custom_steps(transform, images, images.sizes, (weights,), self.dtype or images.dtype)


def _check(sizes: Any) -> None:
    if (sizes % 2 == 0).any():
        raise DefinitionError("fn.laplacian: a window size is odd", given=np.max(sizes), expected="an odd number")


@operator("laplacian")
def laplacian(
    data: DataNode,
    *,
    window_size: int | Sequence[int] | DataNode = 3,
    smoothing_size: int | Sequence[int] | DataNode | None = None,
    scale: float | Sequence[float] | DataNode = 1.0,
    normalized_kernel: bool = False,
    dtype: DALIDataType | Any = None,
) -> DataNode:
    """Compute the Laplacian of images or volumes: the sum of the second derivatives along all spatial axes.

    Each derivative is a separable filter: 1, -2, 1 along its axis, smoothed with binomial weights along all, as
    OpenCV's is. Beyond its edge an image is mirrored, without its outermost pixels. Sums are in float32.

    Args:
        data: images, volumes or sequences of any dtype; layout with H and W (where none is named, HW or DHW).
        window_size: how many pixels have a weight along the axis of a derivative, an odd number from 3 to 31: one
            number, one for each of D, H and W in the order of the layout, or a node with either per sample.
        smoothing_size: how many pixels along an axis are smoothed for the derivatives along others, an odd number
            from 1 (none) to 31; likewise. As many as the derivative's window has by default.
        scale: what each derivative is multiplied with; likewise.
        normalized_kernel: whether derivatives are divided by the sums of the weights that smooth them, in place of
            `scale`.
        dtype: of the result: FLOAT or the input's, which it is by default.

    Returns:
        The Laplacian, in the input's shape and layout; integers are rounded and clipped.

    Raises:
        DefinitionError: an even window, `scale` beside `normalized_kernel`, a dtype that is not offered.

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
    layout = spatial_layout(data, "laplacian")
    own, wanted = data.spec.dtype, wanted_dtype(dtype)
    if wanted not in (None, own, np.dtype(np.float32)):
        expected = f"{own} or float32"
        raise DefinitionError("fn.laplacian gives floats or the input's dtype", given=wanted, expected=expected)
    if normalized_kernel and not (isinstance(scale, int | float) and scale == 1):
        raise DefinitionError("fn.laplacian takes normalized_kernel= or scale=", given="both")
    sizes = [window_size] if smoothing_size is None else [window_size, smoothing_size]
    constant = not any(isinstance(size, DataNode) for size in sizes)
    length = min(max(3, *map(_largest, sizes)), _MOST) if constant else _MOST
    made = Laplacian(layout, bool(normalized_kernel), length | 1, wanted)
    given: dict[str, Any] = {} if smoothing_size is None else {"smoothing_size": smoothing_size}
    return apply(made, data, window_size=window_size, scale=scale, **given)


def _largest(size: Any) -> int:
    """The largest of some constants, if they are numbers; the schema refuses others."""
    values = np.asarray(size)
    return int(values.max(initial=0)) if values.dtype.kind in "iuf" else 0
