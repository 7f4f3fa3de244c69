"""crop_mirror_normalize: cut out, mirror, normalise, change type and layout, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack, cast

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import (
    BatchContext,
    BatchKernel,
    Common,
    Operator,
    SampleContext,
    SampleKernel,
    pick,
)
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import image_layout
from penstock.operators.convert import convert, normalize
from penstock.operators.geometry.flip import mirrored
from penstock.operators.image.lazy_image import LazyImage
from penstock.operators.image.window import Window, WindowArguments, filled, window
from penstock.types import FLOAT, DALIImageType, as_dtype

_DTYPES = ("float32", "float16", "uint8", "int8")


class CropArguments(WindowArguments, Common):
    """The window, and what every operator takes."""


@dataclass(frozen=True)
class CropMirrorNormalize(Operator, SampleKernel, BatchKernel):
    """The whole chain.

    Args:
        window: what is cut out.
        output_layout: a permutation of the window's layout.
        dtype: of the output.
        mean, std: one number or one per channel; where an argument of that name is given, it stands instead.
        scale, shift: applied last.
        pad_channels: whether channels are filled up to a power of two.
    """

    window: Window
    output_layout: str
    dtype: np.dtype[Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    shift: float
    pad_channels: bool

    def infer(
        self, images: Spec, *, mirror: Any, mean: Spec | None = None, std: Spec | None = None, **place: Any
    ) -> Spec:
        """The window's shape in the output's layout."""
        del mirror
        if images.dtype.itemsize > 4 or images.dtype.kind not in "iuf":
            raise DefinitionError(
                "fn.crop_mirror_normalize normalises numbers of at most 32 bits",
                given=images.dtype,
                fix="fn.cast(images, dtype=types.FLOAT)",
            )
        shape = list(self.window.shape(images, place))
        channels = shape[self._channel_axis]
        for name, given, constant in (("mean", mean, self.mean), ("std", std, self.std)):
            count = (*given.shape, 1)[0] if given else len(constant)
            if channels is not None and count not in (None, 1, channels):
                raise DefinitionError(
                    f"fn.crop_mirror_normalize: {name} has one number, or one per channel",
                    given=f"{count} numbers",
                    expected=f"1 or {channels}",
                )
        if self.pad_channels and channels is not None:
            shape[self._channel_axis] = _padded(channels)
        return Spec(self.dtype, tuple(shape[axis] for axis in self._permutation), self.output_layout)

    @property
    def _channel_axis(self) -> int:
        return self.window.layout.index("C")

    @cached_property
    def _permutation(self) -> tuple[int, ...]:
        return tuple(self.window.layout.index(axis) for axis in self.output_layout)

    @cached_property
    def _inverse(self) -> tuple[int, ...]:
        return tuple(self.output_layout.index(axis) for axis in self.window.layout)

    @property
    def takes(self) -> type | None:
        """Images of layout HWC, which it resamples and normalises in one go."""
        return LazyImage if self.window.layout == "HWC" and self.window.policy != "pad" else None

    def _check_channels(self, channels: int, arguments: Mapping[str, Any]) -> None:
        """Check what the spec could not tell: how many channels an image has."""
        for name, constant in (("mean", self.mean), ("std", self.std)):
            count = np.size(arguments[name]) if name in arguments else len(constant)
            if count not in (1, channels):
                raise ValueError(f"{name} has {count} numbers, and the image {channels} channels")

    def sample(self, context: SampleContext, image: Array | LazyImage, *, mirror: Any, **arguments: Any) -> Array:
        """One image; written straight into the batch where that is float32."""
        self._check_channels(image.shape[self._channel_axis], arguments)
        if isinstance(image, LazyImage):
            if image.resampled and image.dtype.name in ("uint8", "float32"):
                return self._resampled(context, image, mirror, arguments)
            image = image.finish() if image.resampled else image.view()
        cut, outside = self.window.cut(image, arguments)
        if mirror:
            across = self.window.layout.index("W")
            cut = np.flip(cut, across)
            outside = None if outside is None else np.flip(outside, across)
        target = None
        if context.out is not None and self._writes_through(outside):
            target = context.out.transpose(self._inverse)
            target = target if target.shape == cut.shape else None
        result = normalize(np, cut, *self._terms(np, arguments, rows=False), self.shift, self.dtype, target)
        if target is not None:
            return cast(Array, context.out)
        return self._finish(np, result[None], None if outside is None else outside[None])[0]

    def _resampled(self, context: SampleContext, image: LazyImage, mirror: Any, arguments: Mapping[str, Any]) -> Array:
        """An image that is still to be resampled: in one go with everything else."""
        image = self.window.cut_lazy(image, arguments).mirror(horizontal=bool(mirror))
        through = context.out is not None and self._writes_through(None)
        target = cast(Array, context.out).transpose(self._inverse) if through else np.empty(image.shape, np.float32)
        if target.shape != image.shape:
            target, through = np.empty(image.shape, np.float32), False
        image.normalize(*self._terms(np, arguments, rows=False), self.shift, target)
        return cast(Array, context.out) if through else self._finish(np, convert(np, target, self.dtype)[None], None)[0]

    def batch(self, context: BatchContext, images: Any, *, mirror: Any, **arguments: Any) -> Any:
        """A dense batch."""
        xp, layout = context.xp, self.window.layout
        cut, outside = self.window.cut_batch(xp, images, arguments)
        cut = mirrored(xp, cut, mirror, layout, "W")
        outside = None if outside is None else mirrored(xp, outside, mirror, layout, "W")
        target = None
        if context.out is not None and self._writes_through(outside):
            target = context.out.transpose(0, *(axis + 1 for axis in self._inverse))
        result = normalize(xp, cut, *self._terms(xp, arguments, rows=True), self.shift, self.dtype, target)
        return context.out if target is not None else self._finish(xp, result, outside)

    def _writes_through(self, outside: Any) -> bool:
        return outside is None and not self.pad_channels and self.dtype == np.float32

    def _terms(self, xp: Any, arguments: Mapping[str, Any], *, rows: bool) -> tuple[Any, Any]:
        """Mean and factor, shaped to broadcast; None for one that changes nothing."""
        mean, factor = self._constants
        if "mean" in arguments:
            mean = self._along_channels(xp, arguments["mean"], rows=rows)
        if "std" in arguments:
            factor = xp.asarray(self.scale, np.float32) / self._along_channels(xp, arguments["std"], rows=rows)
        if rows:  # constants are shaped for a sample
            mean, factor = (
                term[None] if term is not None and term.ndim == len(self.window.layout) else term
                for term in (mean, factor)
            )
        return mean, factor

    @cached_property
    def _constants(self) -> tuple[Array | None, Array | None]:
        mean, std = np.asarray(self.mean, np.float32), np.asarray(self.std, np.float32)
        factor = np.float32(self.scale) / std
        return (
            self._along_channels(np, mean, rows=False) if mean.any() else None,
            self._along_channels(np, factor, rows=False) if (factor != 1).any() else None,
        )

    def _along_channels(self, xp: Any, terms: Any, *, rows: bool) -> Any:
        """Numbers, one for all channels or one per channel, shaped to broadcast against a sample or a batch."""
        values = xp.asarray(terms, np.float32)
        leading = values.shape[:1] if rows else ()
        shape = [1] * len(self.window.layout)
        shape[self._channel_axis] = values.shape[-1] if values.ndim > len(leading) else 1
        return values.reshape(*leading, *shape)

    def _finish(self, xp: Any, result: Any, outside: Any) -> Any:
        """Fill in what lies outside the image, add channels, and put the axes in order."""
        axis = self._channel_axis + 1
        if outside is not None:
            result = filled(xp, result, outside, self.window)
        if self.pad_channels:
            more = [(0, 0)] * result.ndim
            more[axis] = (0, _padded(result.shape[axis]) - result.shape[axis])
            result = xp.pad(result, more)
        return result.transpose(0, *(axis + 1 for axis in self._permutation))


def _padded(channels: int) -> int:
    """The next power of two."""
    return 1 << (channels - 1).bit_length()


@operator("crop_mirror_normalize")
def crop_mirror_normalize(
    images: DataNode,
    *,
    dtype: Any = FLOAT,
    output_dtype: Any = None,
    output_layout: str = "CHW",
    mirror: int | DataNode = 0,
    mean: float | Sequence[float] | DataNode = 0.0,
    std: float | Sequence[float] | DataNode = 1.0,
    scale: float = 1.0,
    shift: float = 0.0,
    pad_output: bool = False,
    image_type: DALIImageType | None = None,
    **arguments: Unpack[CropArguments],
) -> DataNode:
    """Cut a window out of images, mirror it, normalise it, and change its type and layout.

    Each pixel becomes ``scale * (pixel - mean) / std + shift``.

    Args:
        images: numbers of at most 32 bits, layout with H, W and C (HWC where none is named).
        dtype: element type of the output: FLOAT, FLOAT16, UINT8 or INT8. Integers are rounded, halves away from zero,
            and saturate.
        output_dtype: an older name of `dtype`.
        output_layout: a permutation of the input's layout; "" keeps it.
        mirror: whether to exchange left and right; 0 or 1, or a node with one such number per sample.
        mean: subtracted, in the input's units; a number, one per channel, or a node of such.
        std: divides; likewise.
        scale: multiplies.
        shift: is added at the end.
        pad_output: whether to add channels of zeros up to the next power of two.
        image_type: DALI's, without effect there and here.
        **arguments: the window, as `penstock.operators.image.window.WindowArguments` describes it, and what every
            operator takes. Without a size, the window is the whole image.

    Returns:
        The window, in `dtype` and `output_layout`.

    Raises:
        DefinitionError: a layout that is no permutation, a dtype that is not offered, a window larger than the image,
            a number of means or deviations that does not match the channels.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 4, 4, 3), 255, np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.crop_mirror_normalize(images, crop=(2, 2), std=255.0))
        >>> pipeline.run()[0].as_array().shape, float(pipeline.run()[0][0].max())
        ((1, 3, 2, 2), 1.0)
    """
    del image_type
    dtype = dtype if output_dtype is None else output_dtype
    layout = image_layout(images, "crop_mirror_normalize", rank_4="DHWC")
    if "C" not in layout:
        raise DefinitionError(
            "fn.crop_mirror_normalize needs channels", given=f"layout {layout!r}", expected="HWC, CHW"
        )
    if output_layout and sorted(output_layout) != sorted(layout):
        raise DefinitionError(
            "fn.crop_mirror_normalize: output_layout is a permutation of the input's layout",
            given=repr(output_layout),
            expected=f"the letters of {layout!r} in any order, or '' to keep it",
        )
    if as_dtype(dtype).name not in _DTYPES:
        raise DefinitionError(
            "fn.crop_mirror_normalize does not give this dtype",
            given=as_dtype(dtype),
            expected=", ".join(_DTYPES),
        )
    cut, place = window(pick(WindowArguments, arguments), layout, "crop_mirror_normalize")
    terms = {"mean": mean, "std": std}
    varying = {name: term for name, term in terms.items() if isinstance(term, DataNode)}
    constants = {name: _numbers(1.0 if name in varying else term) for name, term in terms.items()}
    chain = CropMirrorNormalize(
        window=cut,
        output_layout=output_layout or layout,
        dtype=as_dtype(dtype),
        mean=constants["mean"],
        std=constants["std"],
        scale=float(scale),
        shift=float(shift),
        pad_channels=bool(pad_output),
    )
    return apply(chain, images, common=pick(Common, arguments), mirror=mirror, **varying, **place)


def _numbers(terms: Any) -> tuple[float, ...]:
    return tuple(np.atleast_1d(np.asarray(terms, np.float64)).tolist())
