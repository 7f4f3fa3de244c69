"""slice: parts of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument, as_numbers
from penstock.graph.layouts import axis_numbers
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.crop_window import POLICIES, Policy, PolicyName, fill_value_as
from penstock.image.describe.steps import CastStep, CropStep, FillStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.numerics.casting import result_dtype
from penstock.operators.tensors.reshape import reshape
from penstock.types import DALIDataType, DALIImageType

Bounds = Sequence[float] | float | DataNode

_STARTS, _ENDS = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")

_FAR = np.float32((1 << 30) - 64)
"""Farther than the end of every array. The distance of two such places is an int32, too."""


@dataclass(frozen=True)
class Slice(ImageOperator):
    """Bounds along some axes. Where they begin and end are arguments, one of `_STARTS` and one of `_ENDS`."""

    axes: tuple[int, ...]
    policy: Policy
    fill: tuple[float, ...]
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {name: Argument(shape=(None,)) for name in (*_STARTS, *_ENDS)}

    def infer(self, data: Spec, **bounds: Any) -> Spec:
        """The extents, as far as they are known."""
        shape = list(data.shape)
        fixed = not any(isinstance(bound, Spec) for bound in bounds.values())
        absolute = all(not name.startswith("rel") for name in bounds) and len(bounds) == 2
        given = {name: np.atleast_1d(np.asarray(bound, np.float64))[None] for name, bound in bounds.items() if fixed}
        for number, axis in enumerate(self.axes):
            extent = data.shape[axis]
            if not fixed:
                shape[axis] = None
            elif extent is not None:
                _, length = self.window(np, number, np.array([extent]), given)
                shape[axis] = int(length[0])
            elif absolute and self.policy != "trim_to_shape":
                start, stop = self._bounds(np, number, np.array([0]), given)
                self._check_order(number, start, stop)
                shape[axis] = int(stop[0] - start[0])
        return Spec(self.dtype, tuple(shape), data.layout)

    def describe(self, images: ImageInfo, bits: Any, **bounds: Any) -> Sequence[Step]:
        """The dtype, the part, what is beyond the array's end."""
        pads = self.policy == "pad"
        windows = [self.window(images.xp, n, images.sizes[axis], bounds) for n, axis in enumerate(self.axes)]
        cuts = [CropStep(axis, *window, may_exceed=pads) for axis, window in zip(self.axes, windows, strict=True)]
        return [CastStep(self.dtype), *cuts, *([FillStep(fill_value_as(self.fill, self.dtype))] if pads else [])]

    def window(self, xp: Any, number: int, extents: Any, bounds: Mapping[str, Any]) -> tuple[Any, Any]:
        """First index and length along one of the axes; they may lie outside where the policy allows it.

        Raises:
            ValueError: they lie outside, or in the wrong order.
        """
        start, stop = self._bounds(xp, number, extents, bounds)
        if self.policy == "trim_to_shape":
            start, stop = xp.clip(start, 0, extents), xp.clip(stop, 0, extents)
        if xp is np:
            self._check_order(number, start, stop)
        if xp is np and self.policy == "error" and (outside := (start < 0) | (stop > extents)).any():
            row = outside.argmax()
            raise ValueError(
                f"the slice from {start[row]} to {stop[row]} along axis {self.axes[number]} leaves the array, "
                f"which has {extents[row]}"
            )
        return start, stop - start

    def _check_order(self, number: int, start: Any, stop: Any) -> None:
        if (backwards := stop < start).any():
            row = backwards.argmax()
            raise ValueError(
                f"the slice along axis {self.axes[number]} ends at {stop[row]}, before it begins at {start[row]}"
            )

    def _bounds(self, xp: Any, number: int, extents: Any, bounds: Mapping[str, Any]) -> tuple[Any, Any]:
        given = {name: bound[:, number if bound.shape[1] > 1 else 0] for name, bound in bounds.items()}
        start = given["rel_start"] * extents if "rel_start" in given else given.get("start", 0 * extents)
        stop = given.get("end", extents)
        if "rel_end" in given:
            stop = given["rel_end"] * extents
        elif "shape" in given:
            stop = start + given["shape"]
        elif "rel_shape" in given:
            stop = start + given["rel_shape"] * extents
        return _nearest(xp, start), _nearest(xp, stop)


def _nearest(xp: Any, places: Any) -> Any:
    """The nearest whole numbers, halves away from zero. So far outside that int32 has no such number, the last ones."""
    nearest = places + xp.copysign(np.float32(0.5), places)
    return xp.clip(nearest, -_FAR, _FAR).astype(np.int32)


@operator("slice")
def slice(  # noqa: A001  # DALI's name
    data: DataNode,
    anchor: DataNode | Any = None,
    shape_like: DataNode | Any = None,
    *,
    start: Bounds | None = None,
    end: Bounds | None = None,
    shape: Bounds | None = None,
    rel_start: Bounds | None = None,
    rel_end: Bounds | None = None,
    rel_shape: Bounds | None = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str = "WH",
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    out_of_bounds_policy: PolicyName = "error",
    fill_values: float | Sequence[float] = 0.0,
    dtype: DALIDataType | Any = None,
    image_type: DALIImageType | None = None,
    output_dtype: DALIDataType | Any = None,
) -> DataNode:
    """Cut a part out of arrays: all between a first and a last index, along some of the axes.

    Bounds are numbers per axis, in the order of `axes` or `axis_names`, or one number for all of them; fractions are
    rounded to the nearest index.

    Args:
        data: any dtype and shape.
        anchor: where the part begins, numbers per axis; a node or a constant. Floats count in parts of the extent
            unless `normalized_anchor` is False; integers are indices.
        shape_like: how large the part is, as `anchor`, with `normalized_shape`.
        start: where the part begins, indices.
        end: the first index after it.
        shape: how large it is, in elements.
        rel_start: where the part begins, in parts of the extent.
        rel_end: where it ends, in parts of the extent.
        rel_shape: how large it is, in parts of the extent.
        axes: the numbers of the axes, or one; negative ones count from the last.
        axis_names: their letters in the layout, where `axes` is not given.
        normalized_anchor: whether floats in `anchor` count in parts of the extent.
        normalized_shape: the same for `shape_like`.
        out_of_bounds_policy: what to do where the part leaves the array: "error", "pad" with `fill_values`, or
            "trim_to_shape".
        fill_values: one number, or one per channel (C, else the last axis); for integers fractions are cut off.
        dtype: of the result, the input's by default; integers saturate.
        image_type: DALI's, without effect there and here.
        output_dtype: an older name of `dtype`.

    Returns:
        The parts, in the input's layout.

    Raises:
        DefinitionError: a bound given twice, axes that do not exist, a part outside where that is known.
        SampleError: while running, a part outside the array, unless the policy allows it.

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
    given: dict[str, Any] = {
        "start": start,
        "rel_start": rel_start,
        "end": end,
        "rel_end": rel_end,
        "shape": shape,
        "rel_shape": rel_shape,
    }
    for names, part, relative in ((_STARTS, anchor, normalized_anchor), (_ENDS[2:], shape_like, normalized_shape)):
        if part is not None:
            kind = part.spec.dtype.kind if isinstance(part, DataNode) else as_numbers("fn.slice", part).dtype.kind
            name = names[1] if kind == "f" and relative else names[0]
            if given[name] is not None:
                raise DefinitionError(f"fn.slice: {name} is given twice")
            given[name] = part
    bounds = {name: _flat(bound) for name, bound in given.items() if bound is not None}
    names = axis_names if axes is None or axis_names != "WH" else None
    kernel = cut(
        bounds,
        axis_numbers(axes, names, data.spec, "slice"),
        out_of_bounds_policy,
        fill_values,
        result_dtype(data.spec.dtype, dtype, output_dtype),
    )
    return apply(kernel, data, **bounds)


def cut(
    given: dict[str, Any],
    axes: tuple[int, ...],
    out_of_bounds_policy: PolicyName,
    fill_values: float | Sequence[float],
    dtype: np.dtype[Any],
) -> Slice:
    """The kernel for some bounds.

    Raises:
        DefinitionError: they do not go together, or are not as many as axes.
    """
    for names in (_STARTS, _ENDS):
        twice = [name for name in names if name in given]
        if len(twice) > 1:
            raise DefinitionError("fn.slice: the same bound is given twice", given=" and ".join(twice))
    if not given:
        raise DefinitionError("fn.slice needs to know where to begin or end", expected="start, end, shape, ...")
    for name, bound in given.items():
        count = (*bound.spec.shape, 1)[0] if isinstance(bound, DataNode) else np.size(bound)
        if count not in (len(axes), 1, None):
            raise DefinitionError(f"fn.slice: {name} has a number per axis", given=count, expected=len(axes))
    return Slice(
        axes,
        POLICIES[out_of_bounds_policy],
        tuple(np.atleast_1d(np.asarray(fill_values, np.float64)).tolist()),
        dtype,
    )


def _flat(bound: Any) -> Any:
    """A bound as a vector: as in DALI, the numbers count, whatever their shape."""
    return reshape(bound, shape=[-1]) if isinstance(bound, DataNode) and len(bound.spec.shape) > 1 else bound
