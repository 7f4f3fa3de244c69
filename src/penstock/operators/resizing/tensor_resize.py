"""Operator that resizes tensors along any axes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from penstock.core import Shape, Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph import SPATIAL, Argument, DataNode, DType, Input, apply, axis_numbers, operator
from penstock.image.describe.axis_mapping import Rows, max_filter_support, where
from penstock.image.describe.steps import ImageInfo, ResampleAxis, ResampleStep, Step
from penstock.numerics.casting import output_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import check_number_count
from penstock.operators.resizing.filter_arguments import FilterArguments, filter_arguments
from penstock.operators.resizing.resize import RESAMPLED, Resize, cast_step
from penstock.operators.resizing.target_size import Mode, Numbers, TargetSize, limits_of, one_row_of
from penstock.operators.tensors.reshape import reshape
from penstock.types import INTERP_LINEAR

Rounding = Literal["round", "truncate", "ceil"]


@dataclass(frozen=True)
class TensorSizing(TargetSize):
    """Rule that maps the extents of a tensor to a ROI and a target size per axis.

    Args:
        named: Axes to which the numbers of the user apply.
        rounding: Rounding of fractional extents.
    """

    named: tuple[int, ...]
    rounding: Rounding

    @cached_property
    def axes(self) -> str:
        """All axes of the tensor."""
        # Axes that are not named count in the mean scale.
        return self.layout

    @property
    def proportional(self) -> bool:
        """True if all axes, including those that are not named, have the same scale."""
        return self.mode in ("not_larger", "not_smaller")

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> Shape:
        """Return the shape of the result, with None for extents that are unknown while tracing."""
        if None not in images.shape and not any(isinstance(value, Spec) for value in arguments.values()):
            # Everything is known: run the rule of run time on a batch of one row.
            extents = [np.array([extent]) for extent in images.shape]
            return tuple(int(part.size[0]) for part in self.parts(extents, one_row_of(arguments)))
        if self.proportional:
            return (None,) * len(images.shape)
        result, requested = list(images.shape), arguments.get("sizes")
        sizes: list[float] = [0.0] * len(self.named)
        if not (requested is None or isinstance(requested, Spec)):
            sizes = np.broadcast_to(np.asarray(requested, np.float64), len(sizes)).tolist()
        for at, size in zip(self.named, sizes, strict=True):
            result[at] = int(self._round(np.float64(min(abs(size), self.max_size[at])))) if size else None
        return tuple(result)

    def resized(self, images: Spec, arguments: Mapping[str, Any]) -> range:
        """Return the axes from the first to the last one that changes, or that may change as far as is known.

        Raises:
            DefinitionError: More than three consecutive axes change, or the size is not possible.
        """
        count = len(images.shape)
        if None not in images.shape and not any(isinstance(value, Spec) for value in arguments.values()):
            extents = [np.array([extent]) for extent in images.shape]
            try:
                parts = self.parts(extents, one_row_of(arguments))
            except ValueError as error:  # as at run time, where the message belongs to a sample
                raise DefinitionError(str(error)) from None
            inside = _resized(parts, extents)[0]
            if inside.sum() > len(SPATIAL):
                raise DefinitionError(
                    "at most three consecutive axes can be resized",
                    given=f"axes {_ends(inside)} of a tensor of {count} axes",
                    fix="name the axes that change with axes=[...], or call it twice",
                )
        else:
            scales, inside = arguments.get("scales"), np.full(count, self.proportional)
            constant = scales is not None and not isinstance(scales, Spec) and "roi_start" not in arguments
            kept = np.broadcast_to(np.asarray(scales) == 1, len(self.named)) & constant
            inside[np.array(self.named)[~kept]] = True
            inside = _with_neighbor(inside[None])[0]
        first, last = np.flatnonzero(inside)[[0, -1]].tolist()
        return range(first, last + 1)

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the largest extents of the result, or () if they are unknown."""
        result = list(self.shape(images, arguments))
        for at, limit in enumerate(self.max_size):
            if result[at] is None and limit < math.inf:
                result[at] = int(self._round(np.float64(limit)))
            elif result[at] is None and at not in self.named and not self.proportional:
                result[at] = images.max_shape[at]
        return bounds_or_none(result)

    def _with_named(self, numbers: NDArray[np.float64], values: Any) -> NDArray[np.float64]:
        """Return numbers per axis, with other values for the named axes."""
        result = numbers.copy()
        result[:, list(self.named)] = values
        return result

    def _round(self, sizes: Any) -> Any:
        if self.rounding == "round":
            return super()._round(sizes)
        down = self.rounding == "truncate"
        return np.maximum(1, np.floor(sizes) if down else np.ceil(sizes)).astype(np.int64)

    def _requested(self, arguments: Mapping[str, Any], extents: NDArray[np.float64]) -> NDArray[np.float64]:
        if "sizes" in arguments:
            return self._with_named(extents, arguments["sizes"])
        # In float32, as in DALI: 0.1 of 10 is exactly 1 and does not become 2 with the rounding "ceil".
        scales = np.asarray(arguments["scales"], np.float32)
        return self._with_named(extents, scales * extents[:, list(self.named)].astype(np.float32))

    def _roi(self, extents: NDArray[np.float64], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        if "roi_start" not in arguments:
            return super()._roi(extents, arguments)
        low = self._with_named(np.zeros_like(extents), arguments["roi_start"])
        high = self._with_named(np.ones_like(extents) if self.relative else extents, arguments["roi_end"])
        return super()._roi(extents, {"roi_start": low, "roi_end": high})

    def _adjusted_roi(
        self, low: Any, high: Any, sizes: Any, target: Any, backwards: Any, arguments: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        # As in DALI, axes that are not named keep their center by default, and their start if an alignment was passed.
        alignment = np.full_like(low, 0.5)
        if "alignment" in arguments:
            alignment = self._with_named(np.zeros_like(low), arguments["alignment"])
        alignment = where(backwards, 1 - alignment, alignment)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = (high - low) * sizes / target
        fixed = low + (high - low) * alignment
        return fixed - length * alignment, fixed + length * (1 - alignment)


@dataclass(frozen=True)
class TensorResize(Resize):
    """Resampling of the axes from the first to the last one that changes, per sample."""

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """Return the steps: resample, cast.

        Raises:
            ValueError: More than three consecutive axes of a sample change.
        """
        parts = self.sizing.parts(images.sizes, arguments)
        inside = _resized(parts, images.sizes)
        for row in np.flatnonzero(inside.sum(axis=1) > len(SPATIAL))[:1]:
            raise ValueError(
                f"at most three consecutive axes can be resized, but axes {_ends(inside[row])} of the tensor change"
            )
        resampled = {
            at: replace(part, filters=where(inside[:, at], part.filters, INTERP_LINEAR))
            for at, part in enumerate(parts)
            # The height and the width are always resampled together: positions of some filters depend on both.
            if self.layout[at] in "HW" or inside[:, at].any()
        }
        support = max_filter_support(arguments["min_filter"], arguments["mag_filter"])
        return [ResampleStep(resampled, self.sizing.antialias, support), cast_step(self.dtype)]


def _resized(parts: Sequence[ResampleAxis], extents: Sequence[Rows]) -> NDArray[np.bool_]:
    """Return a mask (rows, axes) of the axes from the first to the last one that changes.

    As in DALI, there are at least two: INTERP_GAUSSIAN also blurs an axis that keeps its extent, the one after an axis
    that changes alone, or the one before if there is none. If no axis changes, it blurs the last two.
    """
    changed: NDArray[np.bool_] = np.stack(
        [
            (part.size != extent) | (part.low != 0) | (part.high != extent)
            for part, extent in zip(parts, extents, strict=True)
        ],
        axis=1,
    )
    return _with_neighbor(changed)


def _with_neighbor(changed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask of `_resized` from that of the axes that change."""
    count, none = changed.shape[1], ~changed.any(axis=1)
    first: Any = where(none, count - 1, changed.argmax(axis=1))
    last: Any = where(none, count - 1, count - 1 - changed[:, ::-1].argmax(axis=1))
    alone: Any = first == last
    first = np.maximum(first - (alone & (last == count - 1)), 0)
    last = np.minimum(last + alone, count - 1)
    axes = np.arange(count, dtype=np.int64)
    return (first[:, None] <= axes) & (axes <= last[:, None])


def _ends(inside: NDArray[np.bool_]) -> str:
    return "{} to {}".format(*np.flatnonzero(inside)[[0, -1]])


@operator("tensor_resize")
@rounds_to_bfloat16
def tensor_resize(
    data: Annotated[DataNode, Input(RESAMPLED, ranks=range(1, 65), fix="fn.cast(data, dtype=types.FLOAT)")],
    *,
    sizes: Annotated[Numbers | None, Argument(shape=(None,))] = None,
    scales: Annotated[Numbers | None, Argument(shape=(None,))] = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    mode: Mode = "default",
    max_size: float | Sequence[float] | None = None,
    alignment: Annotated[Numbers | None, Argument(shape=(None,))] = None,
    size_rounding: Rounding = "round",
    roi_start: Annotated[Numbers | None, Argument(shape=(None,), example=0)] = None,
    roi_end: Annotated[Numbers | None, Argument(shape=(None,))] = None,
    roi_relative: bool = False,
    subpixel_scale: bool = True,
    dtype: DType = None,
    **arguments: Unpack[FilterArguments],
) -> DataNode:
    """Resize tensors along up to three consecutive axes of any layout.

    All axes may be named if only three consecutive ones of each sample change.

    Axes that you do not name keep their extent, unless `mode` keeps proportions. They count with the scale 1 if an
    extent of 0 takes the mean scale of all axes. Results match DALI within 1 for integers and within 2e-3 for floats.

    Numbers apply to the named axes in their order: one number per axis, one number for all axes, or a node with either
    per sample.

    Args:
        data: Tensors, uint8, int16, uint16 or float32, of any layout or none.
        sizes: Extents of the result. An extent of 0 follows from the others; a negative one mirrors the axis.
        scales: Factors for the extents of the input, instead of `sizes`.
        axes: Axes to resize, by number; negative numbers count from the last axis. All axes by default.
        axis_names: Axes to resize, by letter of the layout.
        mode: "default" or "stretch", or with `sizes` "not_larger" or "not_smaller", which scale all axes alike,
            including axes that you do not name, as if their own extent were requested (see `resize`).
        max_size: Limit of the extents; constants only.
        alignment: Point of the input that keeps its position if an extent is rounded: 0 for the start, 0.5 for the
            center, 1 for the end. Axes that you do not name then keep their start; without it, all keep their center.
        size_rounding: Rounding of fractional extents: "round", "truncate" or "ceil".
        roi_start: Start of the ROI to resize.
        roi_end: End of the ROI. If it is less than the start, the result is mirrored.
        roi_relative: True if the ROI is in fractions of the extents.
        subpixel_scale: True to adjust the ROI if an extent is rounded, so that the scale is exact.
        dtype: Dtype of the result, FLOAT or that of the input; by default that of the input.
        **arguments: See `FilterArguments`.

    Returns:
        Resized tensors in the layout of the input.

    Raises:
        DefinitionError: Both or neither of `sizes` and `scales`, more than three axes from the first to the last
            one that changes, an argument with the wrong number of values, or a dtype that cannot be resampled.
        SampleError: At run time, the ROI is empty, or more than three consecutive axes change.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     series = fn.readers.arrays(np.float32([[[0], [4]]]))
        ...     pipeline.set_outputs(fn.tensor_resize(series, scales=2, axes=0))
        >>> pipeline.run()[0].as_array().ravel().tolist()
        [0.0, 1.0, 3.0, 4.0]
    """
    rank = len(data.spec.shape)
    values: dict[str, Any] = {"sizes": sizes, "scales": scales}
    values = {name: value for name, value in values.items() if value is not None}
    if len(values) != 1:
        raise DefinitionError(
            "the size is " + ("given twice" if values else "missing"),
            given=", ".join(values) or None,
            expected="sizes or scales",
        )
    named = axis_numbers(axes, axis_names, data.spec)
    proportional = mode in ("not_larger", "not_smaller")
    if proportional and scales is not None:
        raise DefinitionError("scales cannot be combined with mode", given=f"mode={mode!r}", fix="use sizes")
    if (roi_start is None) != (roi_end is None):
        raise DefinitionError("roi_start and roi_end must be given together", given="one of them")
    if roi_start is not None:
        values |= {"roi_start": roi_start, "roi_end": roi_end}
    if alignment is not None:
        values["alignment"] = alignment
    most = 0.0 if max_size is None else max_size
    for name, value in {**values, "max_size": most}.items():
        check_number_count(name, value, len(named), "named axis")
    limits = np.full(rank, np.inf)
    limits[list(named)] = limits_of(most)
    sizing = TensorSizing(
        data.spec.layout or _OTHERS[:rank],
        mode,
        tuple(limits.tolist()),
        bool(roi_relative),
        bool(subpixel_scale),
        bool(arguments.get("antialias", True)),
        named,
        size_rounding,
    )
    values |= filter_arguments(arguments)
    specs = {name: value.spec if isinstance(value, DataNode) else value for name, value in values.items()}
    layout = _spatial(data.spec, sizing.resized(data.spec, specs))
    sizing, own = replace(sizing, layout=layout), data.spec.layout
    # The resampling looks for spatial letters, so a tensor of a different layout is relabeled before and after.
    operand = reshape(data, layout=layout) if own not in ("", layout) else data
    result = apply(TensorResize(layout, output_dtype(data.spec.dtype, dtype), sizing), operand, **values)
    return reshape(result, layout=own) if own != result.spec.layout else result


# Letters of axes that are not spatial.
_OTHERS = "FGIJKLMNOPQRSTUV"


def _spatial(spec: Spec, resized: range) -> str:
    """Return a layout in which the last three resized axes are spatial, or the layout of the input if it qualifies."""
    resized = resized[-len(SPATIAL) :]
    letters = SPATIAL[-len(resized) :]
    before, after = resized[0], len(spec.shape) - resized[-1] - 1
    own = spec.layout
    if own and own[before : before + len(resized)] == letters and not set(SPATIAL) & set(own.replace(letters, "")):
        return own
    # The last axis counts as channels.
    ends = _OTHERS[before : before + after - 1] + "C" if after else ""
    return _OTHERS[:before] + letters + ends
