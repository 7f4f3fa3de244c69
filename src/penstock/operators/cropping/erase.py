"""Operator that erases regions of images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, Input, Operator, apply, axis_numbers, operator
from penstock.image.kernels.fill_boxes import fill_regions
from penstock.numerics.casting import cast_saturating


@dataclass(frozen=True)
class Erase(Operator, BatchKernel):
    """Erasure of regions.

    Args:
        axes: Axes that bound the regions, in the order of the arguments.
        channels: Axis of the channels, or None.
        relative_anchor: True if anchors are relative to the size of the image.
        relative_shape: True if shapes are relative to the size of the image.
        centered: True if an anchor is the center of its region, False if it is the first corner.
    """

    axes: tuple[int, ...]
    channels: int | None
    relative_anchor: bool
    relative_shape: bool
    centered: bool
    pixel_aligned: ClassVar[bool] = True

    def infer(self, images: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input."""
        return images

    def batch(self, context: BatchContext, images: Any, *, fill_value: Any, shape: Any, anchor: Any = None) -> Any:
        """Fill the regions: in a copy on the host, by a mask under XLA, where positions are traced values."""
        first, last = self._regions(context.xp, images.shape, shape, anchor)
        fill = self._fill(context.xp, images, fill_value)
        if context.xp is not np:
            return context.xp.where(self._mask(context.xp, images.shape, first, last), fill, images)
        result = np.empty(images.shape, images.dtype) if context.out is None else context.out
        np.copyto(result, images)
        shape, channel = np.array(images.shape[1:]), self.channels or 0
        regions = np.empty((*first.shape[:2], len(shape), 2), np.int64)
        regions[..., 0], regions[..., 1] = 0, shape
        regions[:, :, self.axes, 0], regions[:, :, self.axes, 1] = first, last
        if channel == len(shape) - 1 > 0 and channel not in self.axes:
            # Merge the width and the channels into one axis: the kernel fills few long lines faster than many short
            # ones.
            count = shape[-1]
            shape, channel = np.append(shape[:-2], shape[-2] * count), channel - 1
            regions = np.ascontiguousarray(regions[:, :, :-1])
            regions[:, :, -1] *= count
        # The kernel copies bits, so that it is compiled once per item size and not once per dtype.
        bits = f"u{images.dtype.itemsize}"
        flat, fill = result.reshape(len(images), -1).view(bits), fill.reshape(len(fill), -1).view(bits)
        fill_regions(flat, shape, regions, fill, channel, np.empty(len(shape), np.int64))
        return result

    def _regions(self, xp: Any, extents: tuple[int, ...], sizes: Any, anchors: Any) -> tuple[Any, Any]:
        """Return the first pixel of each region and the pixel after its last: int32 (rows, regions, axes)."""
        anchors = 0 * sizes if anchors is None else anchors
        count = len(self.axes)
        if anchors.shape != sizes.shape or sizes.shape[1] % count:
            raise ValueError(
                f"anchor has {anchors.shape[1]} numbers and shape {sizes.shape[1]}; both need {count} per region"
            )
        size = np.array([extents[1 + axis] for axis in self.axes], np.float32)[None, None]
        anchor: Any = anchors.reshape(anchors.shape[0], -1, count)
        shape: Any = sizes.reshape(sizes.shape[0], -1, count)
        if xp is np:
            # NaN marks regions that only other samples of the batch have: they become empty.
            missing = np.isnan(shape)
            if (missing != np.isnan(anchor)).any() or (missing != missing[..., :1]).any():
                raise ValueError(
                    f"anchor and shape need one number per region and each of {count} axes in every sample"
                )
            anchor, shape = (np.where(missing, np.float32(0), numbers) for numbers in (anchor, shape))
        anchor = anchor * size if self.relative_anchor else anchor
        shape = shape * size if self.relative_shape else shape
        low = anchor - shape * np.float32(0.5) if self.centered else anchor
        # DALI truncates both corners, and regions may exceed the image.
        first, last = (xp.clip(xp.trunc(end), np.float32(0), size).astype(np.int32) for end in (low, low + shape))
        return first, last

    def _mask(self, xp: Any, extents: tuple[int, ...], first: Any, last: Any) -> Any:
        """Return a mask of the elements in any region, which broadcasts against the images."""
        total: Any = xp.zeros((1,) * len(extents), np.bool_)
        for region in range(first.shape[1]):
            inside: Any = True
            for at, axis in enumerate(self.axes):
                line = [1] * len(extents)
                line[1 + axis] = extents[1 + axis]
                index = xp.arange(extents[1 + axis], dtype=np.int32).reshape(line)
                low, high = (end[:, region, at].reshape(-1, *(1,) * (len(extents) - 1)) for end in (first, last))
                inside = inside & (index >= low) & (index < high)
            total = total | inside
        return total

    def _fill(self, xp: Any, images: Any, values: Any) -> Any:
        """Return the fill values in the dtype of the images, truncated and saturated, in a shape that broadcasts."""
        if values.shape[1] not in (1, images.shape[1 + self.channels] if self.channels is not None else 1):
            raise ValueError(f"fill_value has {values.shape[1]} numbers for images of shape {images.shape[1:]}")
        whole = xp.trunc(values) if images.dtype.kind in "iu" else values
        line = [1] * images.ndim
        line[0] = values.shape[0]
        if self.channels is not None:
            line[1 + self.channels] = values.shape[1]
        return cast_saturating(xp, whole, images.dtype).reshape(line)


_Numbers = Annotated[float | Sequence[float] | DataNode | None, Argument(np.float32, (None,), fill=np.nan)]


@operator("erase")
def erase(
    data: Annotated[DataNode, Input(("number",))],
    *,
    anchor: _Numbers = None,
    shape: _Numbers = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    fill_value: Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,))] = 0.0,
    normalized: bool | None = None,
    normalized_anchor: bool | None = None,
    normalized_shape: bool | None = None,
    centered_anchor: bool = False,
) -> DataNode:
    """Erase one or more regions of images.

    Regions are clipped to the image. Fractions of pixels are truncated, as in DALI.

    Args:
        data: Images, sequences, or other arrays of numbers; three axes without a layout are HWC.
        anchor: First corners of the regions: one number per axis for the first region, then for the next one, and so
            on; a node has such numbers per sample, on the host also for another number of regions in each. The default
            is the first corner of the image.
        shape: Sizes of the regions, in the same order. By default no region is erased.
        axes: Axes that bound the regions, by number. Regions extend through all other axes.
        axis_names: Axes that bound the regions, by letter of the layout; by default all axes but the channels.
        fill_value: Value of erased elements, one number or one per channel; a node has either per sample. For integers
            it is truncated and saturated.
        normalized: True if anchors and shapes are relative to the size of the image, False if they are in pixels.
        normalized_anchor: True if anchors are relative.
        normalized_shape: True if shapes are relative.
        centered_anchor: True if an anchor is the center of its region.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: `anchor` without `shape`, not one number per axis and region, an axis that does not exist, or
            `normalized` together with `normalized_anchor` or `normalized_shape`.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.ones((1, 2, 3, 1), np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.erase(images, anchor=[0, 1], shape=[1, 5]))
        >>> pipeline.run()[0].as_array()[0, :, :, 0].tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    spec = data.spec
    layout = spec.layout or ("HWC" if len(spec.shape) == 3 else "")
    names = axis_names if axis_names is not None else layout.replace("C", "") if axes is None and layout else None
    numbers = axis_numbers(None if names is not None else axes, names, spec)
    if normalized is not None and (normalized_anchor is not None or normalized_shape is not None):
        raise DefinitionError("normalized cannot be combined with normalized_anchor or normalized_shape", given="both")
    if shape is None and anchor is not None:
        raise DefinitionError("regions need a size", given="anchor= without shape=", fix="shape=[...]")
    if not numbers and shape is not None:
        raise DefinitionError(
            "regions are bounded along no axis",
            given=f"axis_names={axis_names!r}, layout {spec.layout!r}",
            fix="leave out axis_names to bound them along all axes but the channels",
        )
    known = [np.size(value) for value in (anchor, shape) if value is not None and not isinstance(value, DataNode)]
    if len(set(known)) > 1 or any(count % len(numbers) for count in known):
        raise DefinitionError(
            "anchor and shape need one number per axis and region",
            given=f"{known} numbers",
            expected=f"multiples of {len(numbers)}",
        )
    channels = layout.index("C") if "C" in layout else None
    relative = bool(normalized or normalized_anchor), bool(normalized or normalized_shape)
    first: dict[str, Any] = {} if anchor is None else {"anchor": anchor}
    sizes = np.zeros(0) if shape is None else shape
    return apply(
        Erase(numbers, channels, *relative, centered_anchor), data, fill_value=fill_value, shape=sizes, **first
    )
