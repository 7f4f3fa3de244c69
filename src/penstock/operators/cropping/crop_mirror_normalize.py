"""Operator that crops, mirrors, normalizes, casts and transposes images in one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import Argument, DataNode, DType, Input, apply, assumed_layout, operator
from penstock.image.describe.steps import (
    CastStep,
    CropStep,
    FillStep,
    ImageInfo,
    MirrorStep,
    ScaleStep,
    Step,
    TransposeStep,
)
from penstock.numerics.casting import cast_saturating, result_dtype
from penstock.operators.color.image_statistics import check_statistics
from penstock.operators.cropping.crop import WindowOperator
from penstock.operators.cropping.crop_arguments import CropWindowArguments, make_window
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import as_floats, check_number_count
from penstock.types import FLOAT, DALIImageType, as_dtype

# Output dtypes of DALI's operator.
_DTYPES = ("float32", "float16", "uint8", "int8")


@dataclass(frozen=True)
class CropMirrorNormalize(WindowOperator):
    """Crop, mirror, normalization, cast and transposition.

    Args:
        output_layout: Permutation of the window's layout.
        mean: One number, or one per channel, in the units of the input. A per-sample argument `mean` overrides it.
        std: Divisor, in the form of `mean`.
        scale: Factor, applied after the division by `std`.
        shift: Number that is added last.
        pad_channels: True to pad the channels to a power of two.
    """

    output_layout: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    shift: float
    pad_channels: bool

    def infer(
        self, images: Spec, *, mirror: Any, mean: Spec | None = None, std: Spec | None = None, **place: Any
    ) -> Spec:
        """Return the spec of the window in the output layout."""
        del mirror
        shape = list(self.window.shape(images, place))
        channels = shape[self._channel_axis]
        if channels is not None:
            for name, terms in (("mean", mean or self.mean), ("std", std or self.std)):
                check_number_count(name, terms, channels, "channel")
            shape[self._channel_axis] = padded = int(_padded(channels)) if self.pad_channels else channels
            if len(self.window.fill) != channels:
                check_number_count("fill_values", self.window.fill, padded, "channel")
        return Spec(self.dtype, tuple(shape[axis] for axis in self._permutation), self.output_layout)

    @property
    def _channel_axis(self) -> int:
        return self.window.layout.index("C")

    @cached_property
    def _permutation(self) -> tuple[int, ...]:
        return tuple(self.window.layout.index(axis) for axis in self.output_layout)

    def describe(self, images: ImageInfo, bits: Any, *, mirror: Any, **arguments: Any) -> Sequence[Step]:
        """Return the steps: crop and mirror, normalize and cast, fill, pad channels, transpose."""
        steps = self._in_order(
            images,
            [*self.window.steps(images, arguments), MirrorStep(self.window.layout.index("W"), mirror != 0)],
            [*self._normalization(images, arguments), CastStep(self.dtype)],
        )
        fill = self.window.fill if self.window.policy == "pad" else (0.0,)
        channels = images.sizes[self._channel_axis]
        count = int(channels[0])
        if len(fill) not in (1, count, int(_padded(count)) if self.pad_channels else count):
            raise ValueError(f"fill_values has {len(fill)} numbers, and the image {count} channels")
        # DALI does not normalize fill_values: the fill follows normalization and cast. Values for padded channels are
        # left out here and used below.
        window = replace(self.window, fill=fill[:count])
        steps += window.fill_step(self.dtype)
        if self.pad_channels:
            # As in DALI, padded channels without a fill value of their own are 0.
            fill += (0.0,) * (int(_padded(len(fill))) - len(fill))
            steps += [
                CropStep(self._channel_axis, 0 * channels, _padded(channels), may_exceed=True),
                FillStep(cast_saturating(np, np.asarray([fill], np.float32), self.dtype)),
            ]
        return [*steps, TransposeStep(self._permutation)]

    def _normalization(self, images: ImageInfo, arguments: Mapping[str, Any]) -> list[Step]:
        """Return the scale step, or no step if it would not change anything."""
        xp, channels = images.xp, images.sizes[self._channel_axis]
        mean = arguments.get("mean", np.asarray([self.mean], np.float32))
        std = arguments.get("std", np.asarray([self.std], np.float32))
        # The device program cannot raise, so only the host checks.
        for name, terms in (("mean", mean), ("std", std)) if xp is np else ():
            count = terms.shape[1]
            for row in np.flatnonzero((channels != count) & (count != 1))[:1]:
                raise ValueError(f"{name} has {count} numbers, and the image {channels[row]} channels")
        factor = np.float32(self.scale) / std
        # Without the scale step integers stay integers up to the cast, which is faster.
        if not arguments.keys() & {"mean", "std"} and not mean.any() and (factor == 1).all() and not self.shift:
            return []
        return [ScaleStep(mean, factor, self.shift)]


def _padded(channels: Any) -> Any:
    """Round a number of channels up to a power of two."""
    return 2 ** np.ceil(np.log2(channels)).astype(np.int64)


# The arithmetic is in float32, as in DALI, which also refuses 64-bit inputs.
_NUMBERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32")


@operator("crop_mirror_normalize")
@rounds_to_bfloat16
def crop_mirror_normalize(
    images: Annotated[DataNode, Input(_NUMBERS, axes="HWC", fix="fn.cast(images, dtype=types.FLOAT)")],
    *,
    dtype: DType = FLOAT,
    output_dtype: DType = None,
    output_layout: str = "CHW",
    mirror: Annotated[int | DataNode, Argument(np.int32)] = 0,
    mean: Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,))] = 0.0,
    std: Annotated[float | Sequence[float] | DataNode, Argument(np.float32, (None,))] = 1.0,
    scale: float = 1.0,
    shift: float = 0.0,
    pad_output: bool = False,
    image_type: DALIImageType | None = None,
    **arguments: Unpack[CropWindowArguments],
) -> DataNode:
    """Crop images, mirror them, normalize them, and change their dtype and layout.

    Each pixel becomes ``scale * (pixel - mean) / std + shift``, computed in float32. Fill values are not normalized. A
    warning says so if mean and std are for pixels from 0 to 1 and the images have 0 to 255, or the reverse.

    Args:
        images: Images, volumes or sequences of at most 32 bits per number; the layout needs H, W and C and defaults to
            HWC.
        dtype: Dtype of the output: FLOAT, FLOAT16, UINT8 or INT8. Integers are rounded, halves away from zero, and
            saturate.
        output_dtype: Older name of `dtype`.
        output_layout: Permutation of the layout of the input; "" keeps the layout.
        mirror: 1 to exchange left and right, 0 not to; a number, or a node with one per sample.
        mean: Number to subtract, in the units of the input: one number, one per channel, or a node with either per
            sample.
        std: Divisor, in the same form as `mean`.
        scale: Factor, applied after the division.
        shift: Number to add last.
        pad_output: True to pad the channels to a power of two, with zeros. With `out_of_bounds_policy` "pad", they get
            `fill_values` if it has one number, or one for each padded channel.
        image_type: Accepted for compatibility with DALI; it has no effect there or here.
        **arguments: See `CropWindowArguments`.

    Returns:
        Processed images in `dtype` and `output_layout`.

    Raises:
        DefinitionError: `output_layout` is not a permutation, the dtype is not supported, the window exceeds the
            image, or `mean` or `std` does not match the number of channels.

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
    # The default counts as not given, because a call cannot tell the two apart.
    dtype = result_dtype(np.dtype(np.float32), None if dtype is FLOAT else dtype, output_dtype)
    layout = assumed_layout(images.spec, rank_4="DHWC")
    if output_layout and sorted(output_layout) != sorted(layout):
        raise DefinitionError(
            "output_layout must be a permutation of the layout of the input",
            given=short_repr(output_layout),
            expected=f"the letters of {layout!r} in any order, or '' to keep it",
        )
    if as_dtype(dtype).name not in _DTYPES:
        # A result in bfloat16 is computed in float32.
        expected = ", ".join((*_DTYPES, "bfloat16"))
        raise DefinitionError("the result cannot have this dtype", given=as_dtype(dtype), expected=expected)
    check_statistics(images, mean, std)
    window, place = make_window(arguments, layout, frames=True)
    # A node becomes a per-sample argument that overrides the constant in the operator.
    varying = {name: term for name, term in {"mean": mean, "std": std}.items() if isinstance(term, DataNode)}
    kernel = CropMirrorNormalize(
        window=window,
        output_layout=output_layout or layout,
        dtype=as_dtype(dtype),
        mean=as_floats(1.0 if "mean" in varying else mean),
        std=as_floats(1.0 if "std" in varying else std),
        scale=float(scale),
        shift=float(shift),
        pad_channels=bool(pad_output),
    )
    return apply(kernel, images, mirror=mirror, **varying, **place)
