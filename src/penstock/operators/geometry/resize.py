"""resize: images to another size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import Common, LazyKernel, Operator, SampleContext, SampleKernel, pick
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import SPATIAL, image_layout
from penstock.operators.convert import convert, result_dtype
from penstock.operators.geometry.sizing import FilterArguments, SizeArguments, Sizing, sizing
from penstock.operators.image.lazy_image import LazyImage, lazy_image
from penstock.operators.image.resample import Axis, whole
from penstock.types import DALIDataType, DALIImageType

DTYPES = ("uint8", "int16", "uint16", "float32")
"""What can be resampled."""


class ResizeArguments(SizeArguments, FilterArguments, Common, total=False):
    """Size, filters, and what every operator takes. image_type: DALI's, without effect there and here."""

    image_type: DALIImageType


class Resampler(Operator, LazyKernel):
    """What resampling operators share: all but how they find what becomes of the axes.

    Attributes:
        layout: of the images.
        dtype: of the result.
    """

    layout: str
    dtype: np.dtype[Any]

    @abstractmethod
    def axes(self, context: SampleContext, shape: Sequence[int], arguments: Mapping[str, Any]) -> Mapping[str, Axis]:
        """What becomes of D, H and W of a sample, in the order of the layout."""

    @property
    def takes(self) -> type | None:
        """Images that are not yet resampled."""
        return LazyImage if self.layout == "HWC" else None

    @property
    def gives(self) -> type | None:
        """Images of layout HWC."""
        return self.takes

    def defer(self, context: SampleContext, image: Array | LazyImage, **arguments: Any) -> LazyImage:
        """The image with its new axes."""
        return resized(image, [*self.axes(context, image.shape, arguments).values()], self.dtype)

    def sample(self, context: SampleContext, image: Array | LazyImage, **arguments: Any) -> Array:
        """One image, volume or sequence."""
        if isinstance(image, LazyImage) or self.layout == "HWC":
            return self.defer(context, image, **arguments).finish(context.out)
        return resample_layout(image, self.layout, self.axes(context, image.shape, arguments), self.dtype)


@dataclass(frozen=True)
class Resize(Resampler):
    """Resampling to a size.

    Args:
        layout: of the images.
        dtype: of the result.
        sizing: from sizes to axes.
    """

    layout: str
    dtype: np.dtype[Any]
    sizing: Sizing

    def infer(self, images: Spec, **arguments: Any) -> Spec:
        """The new size."""
        return Spec(self.dtype, self.sizing.shape(images, arguments), images.layout or self.layout)

    def axes(self, context: SampleContext, shape: Sequence[int], arguments: Mapping[str, Any]) -> Mapping[str, Axis]:
        """As the sizing says."""
        del context
        return dict(zip(self.sizing.axes, self.sizing(shape, arguments), strict=True))


@dataclass(frozen=True)
class Extents(Operator, SampleKernel):
    """The spatial extents of an image: what `save_attrs` adds."""

    layout: str

    def infer(self, images: Spec) -> Spec:
        """One number per axis."""
        del images
        return Spec(np.dtype(np.int32), (sum(axis in SPATIAL for axis in self.layout),))

    def sample(self, context: SampleContext, image: Array) -> Array:
        """Read off the shape."""
        del context
        return np.array([image.shape[at] for at, axis in enumerate(self.layout) if axis in SPATIAL], np.int32)


def resized(image: Array | LazyImage, axes: Sequence[Axis], dtype: np.dtype[Any]) -> LazyImage:
    """An image of layout HWC with new axes. One that is resampled already, or cut, is finished first or cut in place.

    Args:
        image: the image.
        axes: rows and columns, in pixels of `image`.
        dtype: of the result.
    """
    lazy = lazy_image(image)
    if lazy.resampled or lazy.dtype != lazy.pixels.dtype or lazy.rows.mirrored or lazy.columns.mirrored:
        lazy = lazy_image(lazy.finish())
    rows, columns = (_within(old, new) for old, new in zip((lazy.rows, lazy.columns), axes, strict=True))
    return replace(lazy, rows=rows, columns=columns, dtype=dtype)


def _within(window: Axis, axis: Axis) -> Axis:
    """An axis of a window as an axis of the image that it was cut from."""
    first = window.begin + window.start
    return axis._replace(begin=first, end=first + window.length, low=axis.low + first, high=axis.high + first)


def resample_layout(image: Array, layout: str, axes: Mapping[str, Axis], dtype: np.dtype[Any]) -> Array:
    """Resample an array of any layout along its spatial axes; depth last, with floats in between.

    Args:
        image: an array.
        layout: of the array; has H and W.
        axes: what becomes of D, H and W.
        dtype: of the result.
    """
    order = [axis for axis in layout if axis not in "DHWC"] + [axis for axis in "DHWC" if axis in layout]
    there = [layout.index(axis) for axis in order]
    moved = image.transpose(there)
    if "C" not in layout:
        moved = moved[..., None]
    lead = moved.shape[: moved.ndim - 3]
    planes = np.ascontiguousarray(moved).reshape(-1, *moved.shape[-3:])
    between = np.dtype(np.float32) if "D" in layout else dtype
    result = _each(planes, (axes["H"], axes["W"]), between)
    result = result.reshape(*lead, *result.shape[1:])
    if "D" in layout:
        depth, (height, width, channels) = lead[-1], result.shape[-3:]
        volumes = result.reshape(-1, depth, height * width, channels)
        deep = _each(volumes, (axes["D"], whole(height * width)), between)
        result = deep.reshape(*lead[:-1], axes["D"].length, height, width, channels)
    result = result if "C" in layout else result[..., 0]
    back = [order.index(axis) for axis in layout]
    return np.ascontiguousarray(convert(np, result.transpose(back), dtype))


def _each(images: Array, axes: Sequence[Axis], dtype: np.dtype[Any]) -> Array:
    """Images of layout HWC, all with the same new axes."""
    out = np.empty((len(images), axes[0].length, axes[1].length, images.shape[-1]), dtype)
    for image, place in zip(images, out, strict=True):
        place[:] = resized(image, axes, dtype).finish(place)
    return out


def resampled_dtype(images: DataNode, dtype: Any, kind: str) -> np.dtype[Any]:
    """The dtype of resampled images: their own, or FLOAT.

    Raises:
        DefinitionError: the images' dtype cannot be resampled, or another one was asked for.
    """
    own = images.spec.dtype
    if own.name not in DTYPES:
        raise DefinitionError(
            f"fn.{kind} does not resample this dtype",
            given=own,
            expected=", ".join(DTYPES),
            fix="fn.cast(images, dtype=types.FLOAT)",
        )
    wanted = result_dtype(own, dtype)
    if wanted not in (own, np.float32):
        raise DefinitionError(f"fn.{kind} gives its input's dtype, or FLOAT", given=wanted, expected=f"{own}, float32")
    return wanted


@operator("resize")
def resize(
    data: DataNode,
    *,
    dtype: DALIDataType | Any = None,
    save_attrs: bool = False,
    **arguments: Unpack[ResizeArguments],
) -> Any:
    """Resize images, volumes, or sequences of them.

    Pixel centres lie at halves; filters are normalised over their whole support, and the pixel at the edge stands for
    those beyond it; results are rounded to the nearest integer. As in DALI, whose uint8 results are met within 1, and
    whose float results within 2e-3: it looks its filters up in tables. INTERP_NN takes the pixel to the right of a
    point that lies exactly between two, where DALI takes one or the other. An empty part is an error, in DALI an image.

    Args:
        data: uint8, int16, uint16 or float32; layout with H and W, perhaps D (HWC where none is named).
        dtype: of the result: FLOAT or the input's, which it is by default. FLOAT is not rounded, not scaled.
        save_attrs: whether to give the extents of the input, too.
        **arguments: the size, one of `size`, `resize_x`/`resize_y`/`resize_z`, `resize_shorter`, `resize_longer`, with
            `mode` and `max_size`; the part to resize, `roi_start`, `roi_end`, `roi_relative`, and `subpixel_scale`;
            filters, `interp_type`, `min_filter`, `mag_filter`, `antialias` (see
            `penstock.operators.geometry.sizing`). Sizes, parts and filters may be nodes, with a value per sample. And
            what every operator takes.

    Returns:
        Images of the new size in the input's layout. With `save_attrs` a second output, int32 (2,) or (3,).

    Raises:
        DefinitionError: no size, or in two ways; a dtype that cannot be resampled.
        SampleError: while running, an empty part.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.resize(images, resize_shorter=30))
        >>> pipeline.run()[0].as_array().shape
        (1, 30, 40, 3)
    """
    layout = image_layout(data, "resize")
    filters = pick(FilterArguments, arguments)
    sizes, varying = sizing(pick(SizeArguments, arguments), filters, layout, "resize")
    kernel = Resize(layout, resampled_dtype(data, dtype, "resize"), sizes)
    images = apply(kernel, data, common=pick(Common, arguments), **varying)
    return [images, apply(Extents(layout), data)] if save_attrs else images
