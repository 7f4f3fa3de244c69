"""crop_mirror_normalize: cut out, mirror, normalise, change type and layout, in one pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.crop_window import WINDOW_SCHEMA, CropWindow
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
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import cast_saturating
from penstock.operators.cropping.crop_arguments import CropWindowArguments, make_window
from penstock.types import FLOAT, DALIImageType, as_dtype

_DTYPES = ("float32", "float16", "uint8", "int8")


@dataclass(frozen=True)
class CropMirrorNormalize(ImageOperator):
    """The whole chain.

    Args:
        window: what is cut out.
        output_layout: a permutation of the window's layout.
        dtype: of the output.
        mean, std: one number or one per channel; where an argument of that name is given, it stands instead.
        scale, shift: applied last.
        pad_channels: whether channels are filled up to a power of two.
    """

    window: CropWindow
    output_layout: str
    dtype: np.dtype[Any]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    shift: float
    pad_channels: bool
    schema: ClassVar[Mapping[str, Argument]] = {
        **WINDOW_SCHEMA,
        "mirror": Argument(np.int32),
        "mean": Argument(np.float32, (None,)),
        "std": Argument(np.float32, (None,)),
    }

    @property
    def assumed_layout(self) -> str:
        """That of the window."""
        return self.window.layout

    def per_frame(
        self, kind: str, layouts: Sequence[str], framed: AbstractSet[str], varying: AbstractSet[str]
    ) -> Operator:
        """Each frame as an image, unless the window is also along the frames."""
        self.window.check_per_frame(kind)
        return super().per_frame(kind, layouts, framed, varying)

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
        padded = int(_padded(channels)) if self.pad_channels and channels is not None else channels
        if channels is not None and len(self.window.fill) not in (1, channels, padded):
            raise DefinitionError(
                "fn.crop_mirror_normalize: fill_values is one number, or one per channel",
                given=f"{len(self.window.fill)} numbers",
                expected=f"1 or {padded}",
            )
        if self.pad_channels and channels is not None:
            shape[self._channel_axis] = int(_padded(channels))
        return Spec(self.dtype, tuple(shape[axis] for axis in self._permutation), self.output_layout)

    @property
    def _channel_axis(self) -> int:
        return self.window.layout.index("C")

    @cached_property
    def _permutation(self) -> tuple[int, ...]:
        return tuple(self.window.layout.index(axis) for axis in self.output_layout)

    def describe(self, images: ImageInfo, bits: Any, *, mirror: Any, **arguments: Any) -> Sequence[Step]:
        """The window, mirrored, normalised, filled in beyond the image's edge, with its axes in order."""
        steps: list[Step] = [
            *self.window.steps(images, arguments),
            MirrorStep(self.window.layout.index("W"), mirror != 0),
        ]
        steps += self._normalization(images, arguments)
        fill = self.window.fill if self.window.policy == "pad" else (0.0,)
        channels = images.sizes[self._channel_axis]
        count = int(channels[0])
        if len(fill) not in (1, count, int(_padded(count)) if self.pad_channels else count):
            raise ValueError(f"fill_values has {len(fill)} numbers, and the image {count} channels")
        beside = replace(self.window, fill=fill[:count])
        steps += [CastStep(self.dtype), *beside.fill_step(self.dtype)]
        if self.pad_channels:
            fill += (0.0,) * (int(_padded(len(fill))) - len(fill))  # added channels that have no value
            steps += [
                CropStep(self._channel_axis, 0 * channels, _padded(channels), may_exceed=True),
                FillStep(cast_saturating(np, np.asarray([fill], np.float32), self.dtype)),
            ]
        return [*steps, TransposeStep(self._permutation)]

    def _normalization(self, images: ImageInfo, arguments: Mapping[str, Any]) -> list[Step]:
        """Nothing, where it would change nothing."""
        xp, channels = images.xp, images.sizes[self._channel_axis]
        mean = arguments.get("mean", np.asarray([self.mean], np.float32))
        std = arguments.get("std", np.asarray([self.std], np.float32))
        for name, terms in (("mean", mean), ("std", std)):
            count = terms.shape[1]
            wrong = np.flatnonzero(channels != count)[:1] if xp is np and count != 1 else ()
            for row in wrong:
                raise ValueError(f"{name} has {count} numbers, and the image {channels[row]} channels")
        factor = np.float32(self.scale) / std
        if not arguments.keys() & {"mean", "std"} and not mean.any() and (factor == 1).all() and not self.shift:
            return []
        return [ScaleStep(mean, factor, self.shift)]


def _padded(channels: Any) -> Any:
    """The next power of two."""
    return 2 ** np.ceil(np.log2(channels)).astype(np.int64)


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
    **arguments: Unpack[CropWindowArguments],
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
        pad_output: whether to add channels up to the next power of two: of zeros; with the policy "pad" of
            `fill_values`, if there is one number, or one for each of them, too.
        image_type: DALI's, without effect there and here.
        **arguments: See `CropWindowArguments`.

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
            given=short_repr(output_layout),
            expected=f"the letters of {layout!r} in any order, or '' to keep it",
        )
    if as_dtype(dtype).name not in _DTYPES:
        raise DefinitionError(
            "fn.crop_mirror_normalize does not give this dtype",
            given=as_dtype(dtype),
            expected=", ".join(_DTYPES),
        )
    cut, place = make_window(
        select_arguments(CropWindowArguments, arguments), layout, "crop_mirror_normalize", frames=True
    )
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
    return apply(chain, images, mirror=mirror, **varying, **place)


def _numbers(terms: Any) -> tuple[float, ...]:
    return tuple(np.atleast_1d(np.asarray(terms, np.float64)).tolist())
