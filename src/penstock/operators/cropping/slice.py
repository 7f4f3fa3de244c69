"""Operator that slices arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, apply, axis_numbers, operator
from penstock.graph.ir.argument_schema import as_numbers
from penstock.image.describe.crop_window import POLICIES, Policy, PolicyName, fill_value_as
from penstock.image.describe.steps import CastStep, CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import result_dtype
from penstock.operators.cropping.border_window import BORDERS, BorderWindow, WindowPolicy, convert
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.number_arguments import (
    NO_AXIS,
    as_floats,
    check_equal_counts,
    check_number_count,
    number_count,
    numbers_per_axis,
)
from penstock.operators.tensors.reshape import reshape
from penstock.types import DALIImageType

Bounds = Sequence[float] | float | DataNode
Bound = Annotated[Bounds | None, Argument(shape=(None,), fill=np.nan)]

_STARTS, _ENDS = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")

# Bounds are clipped to this: beyond the end of every array, exact in float32, and the difference of two such bounds
# still fits an int32.
_FAR = np.float32((1 << 30) - 64)


@dataclass(frozen=True)
class Slice(ImageOperator):
    """Slice along some axes.

    Its arguments are at most one of `_STARTS` and one of `_ENDS`, and `axes` if each sample names its own.

    Args:
        axes: Axes to slice; all of them if `axes` is an argument.
        policy: Policy for slices that exceed the array.
        fill: Padding value, one number or one per channel.
        dtype: Dtype of the result.
        positional: True if a bound is a positional argument.
    """

    axes: tuple[int, ...]
    policy: Policy
    fill: tuple[float, ...]
    dtype: np.dtype[Any]
    positional: bool = False

    def infer(self, data: Spec, **bounds: Any) -> Spec:
        """Return the spec, with the extents that are known from constants."""
        shape = list(data.shape)
        fixed = not any(isinstance(bound, Spec) for bound in bounds.values())
        absolute = not any(name.startswith("rel") for name in bounds)
        # The same code as at run time computes the extents, from a batch of one row.
        rows = {name: np.atleast_1d(np.asarray(bound, np.float64))[None] for name, bound in bounds.items() if fixed}
        for number, axis in enumerate(self.axes):
            extent = data.shape[axis]
            if not fixed:
                shape[axis] = None
            elif extent is not None:
                _, length = self.window(np, number, np.array([extent]), rows)
                shape[axis] = int(length[0])
            elif absolute and self.policy != "trim_to_shape" and (len(bounds) == 2 or "end" in bounds):
                # Two absolute bounds give the length of a slice even if the extent of the input is unknown, and an end
                # alone begins at 0.
                start, stop = self._bounds(np, number, np.array([0]), rows)
                self._check_order(number, start, stop)
                shape[axis] = int(stop[0] - start[0])
        channels = (*shape, 1)[data.layout.index("C") if "C" in data.layout else len(shape) - 1]
        if channels is not None and self.policy == "pad":
            check_number_count("fill_values", self.fill, channels, "channel")
        return Spec(self.dtype, tuple(shape), data.layout)

    def describe(self, images: ImageInfo, bits: Any, **bounds: Any) -> Sequence[Step]:
        """Return the steps: cast, crops, fill."""
        pads = self.policy == "pad"
        windows = [self.window(images.xp, n, images.sizes[axis], bounds) for n, axis in enumerate(self.axes)]
        cuts = [CropStep(axis, *window, may_exceed=pads) for axis, window in zip(self.axes, windows, strict=True)]
        return [CastStep(self.dtype), *cuts, *([FillStep(fill_value_as(self.fill, self.dtype))] if pads else [])]

    def window(self, xp: Any, number: int, extents: Any, bounds: Mapping[str, Any]) -> tuple[Any, Any]:
        """Return the first index and the length along one axis, for each row.

        They may exceed the array if the policy allows it.

        Args:
            xp: Array namespace.
            number: Position of the axis in `axes`.
            extents: Extents of the rows along that axis.
            bounds: Arguments, each of shape (rows or 1, axes or 1).

        Raises:
            ValueError: A slice exceeds the array or ends before it begins. Only the host checks; the device program
                cannot raise.
        """
        start, stop = self._bounds(xp, number, extents, bounds)
        if self.policy == "trim_to_shape":
            start, stop = xp.clip(start, 0, extents), xp.clip(stop, 0, extents)
        if xp is np:
            self._check_order(number, start, stop)
        if xp is np and self.policy == "error" and (outside := (start < 0) | (stop > extents)).any():
            row = outside.argmax()
            raise ValueError(
                f"the slice from {start[row]} to {stop[row]} along axis {self.axes[number]} exceeds the array, "
                f"whose extent is {extents[row]}"
            )
        return start, stop - start

    def _check_order(self, number: int, start: Any, stop: Any) -> None:
        if (backwards := stop < start).any():
            row = backwards.argmax()
            raise ValueError(
                f"the slice along axis {self.axes[number]} has its end at {stop[row]}, before its start at {start[row]}"
            )

    def _bounds(self, xp: Any, number: int, extents: Any, bounds: Mapping[str, Any]) -> tuple[Any, Any]:
        if "axes" not in bounds:
            for bound in bounds.values() if xp is np else ():
                check_equal_counts(bound)
            values = {name: bound[:, number if bound.shape[1] > 1 else 0] for name, bound in bounds.items()}
            start, stop = self._ends(values, extents)
            return _nearest(xp, start), _nearest(xp, stop)
        axes, ndim = bounds["axes"], len(self.axes)
        # Axes that a sample does not name are not cut, whatever the numbers of the bounds.
        named = numbers_per_axis(xp, xp.ones((len(axes), 1)), axes, ndim, 0)[:, number] > 0
        values = {
            name: numbers_per_axis(xp, bound, axes, ndim, 0)[:, number]
            for name, bound in bounds.items()
            if name != "axes"
        }
        start, stop = self._ends(values, extents)
        return _nearest(xp, xp.where(named, start, 0 * extents)), _nearest(xp, xp.where(named, stop, extents))

    def _ends(self, values: Mapping[str, Any], extents: Any) -> tuple[Any, Any]:
        # Fractions are float32. DALI multiplies those of positional arguments in float64, and others in float32 unless
        # it adds two of them. The precision decides positions near a half.
        fractions = {name: value.astype(np.float32) for name, value in values.items() if name.startswith("rel")}
        wide = {name: value.astype(np.float64) * extents for name, value in fractions.items()}
        products = wide if self.positional else {n: f * extents.astype(np.float32) for n, f in fractions.items()}
        start = products["rel_start"] if "rel_start" in values else values.get("start", 0 * extents)
        stop = values.get("end", extents)
        # A shape is added to the start before rounding, as in DALI: the rounded length depends on the start.
        if "rel_end" in values:
            stop = products["rel_end"]
        elif "shape" in values:
            stop = start.astype(np.float64) + values["shape"]
        elif "rel_shape" in values and "rel_start" in values:
            stop = wide["rel_start"] + wide["rel_shape"]
        elif "rel_shape" in values:
            stop = start.astype(np.float64) + products["rel_shape"]
        return start, stop


def _nearest(xp: Any, positions: Any) -> Any:
    """Round to the nearest int32, halves away from zero, and clip to `_FAR`."""
    nearest = positions + xp.copysign(np.float32(0.5), positions)
    return xp.clip(nearest, -_FAR, _FAR).astype(np.int32)


@operator("slice")
@rounds_to_bfloat16
def slice(  # noqa: A001  # DALI's name
    data: DataNode,
    anchor: DataNode | Any = None,
    shape_like: DataNode | Any = None,
    *,
    start: Bound = None,
    end: Bound = None,
    shape: Bound = None,
    rel_start: Bound = None,
    rel_end: Bound = None,
    rel_shape: Bound = None,
    axes: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int64, (None,), example=0, fill=NO_AXIS)] = None,
    axis_names: str = "WH",
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    out_of_bounds_policy: WindowPolicy = "error",
    fill_values: float | Sequence[float] = 0.0,
    dtype: DType = None,
    image_type: DALIImageType | None = None,
    output_dtype: DType = None,
) -> DataNode:
    """Slice arrays along some of their axes.

    Give each bound as one number per axis, in the order of `axes` or `axis_names`, or as one number for all axes; a
    node has either per sample. Fractions are rounded to the nearest index, halves away from zero.

    Args:
        data: Arrays of any dtype and shape.
        anchor: Start of the slice, a node or constant. Integers are indices; floats are relative to the extent (0 to
            1) unless `normalized_anchor` is False.
        shape_like: Size of the slice, in the form of `anchor`; see `normalized_shape`.
        start: First index of the slice; 0 by default.
        end: Index after the last one; by default the extent.
        shape: Number of elements.
        rel_start: Start, relative to the extent.
        rel_end: End, relative to the extent.
        rel_shape: Size, relative to the extent.
        axes: Axes to slice; negative numbers count from the last axis. A node has them per sample; an empty list means
            all axes.
        axis_names: Layout letters of the axes, used if `axes` is not given. The default is x first, as in DALI.
        normalized_anchor: True if floats in `anchor` are relative to the extent.
        normalized_shape: True if floats in `shape_like` are relative to the extent.
        out_of_bounds_policy: Policy for slices that exceed the array: "error", "pad" with `fill_values`,
            "trim_to_shape", or a border mode that continues the array: "clamp" (or "edge") repeats its last element,
            "reflect" (or "reflect_1001") mirrors it, "reflect_101" mirrors it without the last element, and "wrap"
            repeats it.
        fill_values: Padding value: one number, or one per channel (axis C, or the last axis without a C). Fractions are
            truncated for integers.
        dtype: Dtype of the result; by default that of the input. Integers saturate.
        image_type: Accepted for compatibility with DALI; it has no effect there or here.
        output_dtype: Older name of `dtype`.

    Returns:
        Slices in the layout of the input.

    Raises:
        DefinitionError: A bound is given twice, an axis does not exist, the slice exceeds a known extent, or the number
            of fill values is wrong.
        SampleError: At run time, a slice exceeds the array and `out_of_bounds_policy` is "error", or has another number
            of channels than there are fill values.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.arange(6).reshape(1, 6))
        ...     pipeline.set_outputs(fn.slice(numbers, start=[2], end=[4], axes=[0]))
        >>> pipeline.run()[0].as_array().tolist()
        [[2, 3]]
    """
    del image_type
    arguments: dict[str, Any] = {"start": start, "rel_start": rel_start, "end": end, "rel_end": rel_end}
    arguments |= {"shape": shape, "rel_shape": rel_shape}
    for names, part, relative in ((_STARTS, anchor, normalized_anchor), (_ENDS[2:], shape_like, normalized_shape)):
        if part is not None:
            kind = part.spec.dtype.kind if isinstance(part, DataNode) else as_numbers("a bound", part).dtype.kind
            name = names[1] if kind == "f" and relative else names[0]
            if arguments[name] is not None:
                raise DefinitionError(f"{name} is given twice")
            arguments[name] = part
    bounds = {name: bound for name, bound in arguments.items() if bound is not None}
    for name, bound in bounds.items():
        # DALI counts the numbers of a bound and ignores their shape.
        if isinstance(bound, DataNode) and bound.spec.layout[:1] != "F" and len(bound.spec.shape) > 1:
            bounds[name] = reshape(bound, shape=[-1])
    # axes= replaces only the default of axis_names; if you set both, axis_numbers reports the conflict.
    names = axis_names if axes is None or axis_names != "WH" else None
    result = result_dtype(data.spec.dtype, dtype, output_dtype)
    border = BORDERS.get(out_of_bounds_policy)
    policy: Any = out_of_bounds_policy if border is None else "pad"
    if isinstance(axes, DataNode) and names is None:
        everything = tuple(range(len(data.spec.shape)))
        count = len(everything) if number_count(axes) == 0 else number_count(axes)
        window = cut(bounds, everything, policy, fill_values, result, count)
        bounds["axes"] = axes
    else:
        window = cut(bounds, axis_numbers(axes, names, data.spec), policy, fill_values, result)
    window = replace(window, positional=anchor is not None or shape_like is not None)
    if border is None:
        return apply(window, data, **bounds)
    return convert(apply(BorderWindow(window, border), data, **bounds), result)


def cut(
    bounds: dict[str, Any],
    axes: tuple[int, ...],
    out_of_bounds_policy: PolicyName,
    fill_values: float | Sequence[float],
    dtype: np.dtype[Any],
    count: int | None = -1,
) -> Slice:
    """Check bounds and return the operator; the NumPy reader also uses it for its ROI.

    Args:
        bounds: Bounds of the user.
        axes: Axes to slice.
        out_of_bounds_policy: Argument of `slice`.
        fill_values: Argument of `slice`.
        dtype: Dtype of the result.
        count: Number of numbers per bound; -1 for that of the axes, None if it is unknown.

    Raises:
        DefinitionError: Two bounds conflict, no bound is set, or a bound has neither one number nor one per axis.
    """
    for names in (_STARTS, _ENDS):
        twice = [name for name in names if name in bounds]
        if len(twice) > 1:
            raise DefinitionError("the same bound is given twice", given=" and ".join(twice))
    if not bounds:
        raise DefinitionError("at least one bound is needed", expected="start, end, shape, ...")
    for name, bound in bounds.items():
        if count is not None:
            check_number_count(name, bound, len(axes) if count < 0 else count)
    return Slice(axes, POLICIES[out_of_bounds_policy], as_floats(fill_values), dtype)
