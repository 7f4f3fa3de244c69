"""slice: parts of arrays."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import BatchContext, BatchKernel, Common, Operator, SampleContext, SampleKernel
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.axes import axis_numbers
from penstock.operators.convert import convert, result_dtype
from penstock.operators.image.window import POLICIES, Policy, one_of
from penstock.types import DALIDataType, DALIImageType

Bounds = Sequence[float] | float | DataNode

_STARTS, _ENDS = ("start", "rel_start"), ("end", "rel_end", "shape", "rel_shape")


@dataclass(frozen=True)
class _Slice(Operator):
    """Bounds along some axes. Where they begin and end are arguments, one of `_STARTS` and one of `_ENDS`."""

    axes: tuple[int, ...]
    channels: int
    policy: Policy
    fill: tuple[float, ...]
    dtype: np.dtype[Any]

    def infer(self, data: Spec, **bounds: Any) -> Spec:
        """The extents, as far as they are known."""
        shape = list(data.shape)
        fixed = not any(isinstance(bound, Spec) for bound in bounds.values())
        absolute = all(not name.startswith("rel") for name in bounds) and len(bounds) == 2
        for number, axis in enumerate(self.axes):
            extent = data.shape[axis]
            if not fixed:
                shape[axis] = None
            elif extent is not None:
                start, stop = self.bounds(number, extent, bounds)
                shape[axis] = stop - start
            elif absolute and self.policy != "trim_to_shape":
                start, stop = self._resolve(number, 0, bounds)
                shape[axis] = stop - start
        return Spec(self.dtype, tuple(shape), data.layout)

    def bounds(self, number: int, extent: int, bounds: Mapping[str, Any]) -> tuple[int, int]:
        """First and last along one of the axes; they may lie outside where the policy allows it.

        Raises:
            ValueError: they lie outside, or in the wrong order.
        """
        start, stop = self._resolve(number, extent, bounds)
        if self.policy == "trim_to_shape":
            start, stop = min(max(start, 0), extent), min(max(stop, 0), extent)
        if stop < start:
            raise ValueError(f"the slice along axis {self.axes[number]} ends at {stop}, before it begins at {start}")
        if self.policy == "error" and not 0 <= start <= stop <= extent:
            raise ValueError(
                f"the slice from {start} to {stop} along axis {self.axes[number]} leaves the array, which has {extent}"
            )
        return start, stop

    def _resolve(self, number: int, extent: int, bounds: Mapping[str, Any]) -> tuple[int, int]:
        given = {name: float(np.ravel(bound)[number]) for name, bound in bounds.items()}
        relative = given.get("rel_start")
        start = given.get("start", 0.0) if relative is None else relative * extent
        stop = given.get("end", float(extent))
        if "rel_end" in given:
            stop = given["rel_end"] * extent
        elif "shape" in given:
            stop = start + given["shape"]
        elif "rel_shape" in given:
            stop = start + given["rel_shape"] * extent
        return _nearest(start), _nearest(stop)

    def _cut(self, xp: Any, data: Any, spans: Sequence[tuple[int, int]], first: int) -> Any:
        """Cut the axes, which count from `first`, and pad what lies outside."""
        cuts = [builtins.slice(None)] * data.ndim
        more = [(0, 0)] * data.ndim
        for axis, (start, stop) in zip(self.axes, spans, strict=True):
            extent = data.shape[axis + first]
            cuts[axis + first] = builtins.slice(min(max(start, 0), extent), min(max(stop, 0), extent))
            more[axis + first] = (max(0, min(0, stop) - start), max(0, stop - max(extent, start)))
        part = convert(xp, data[tuple(cuts)], self.dtype)
        if not any(map(any, more)):
            return part
        inside = xp.pad(xp.ones(part.shape, bool), more)
        shape = [1] * data.ndim
        shape[self.channels + first] = len(self.fill)
        fill = xp.asarray(np.asarray(self.fill, np.float32).reshape(shape))
        return xp.where(inside, xp.pad(part, more), convert(xp, fill, self.dtype))


@dataclass(frozen=True)
class SliceAlike(_Slice, BatchKernel):
    """The same bounds for all samples."""

    def batch(self, context: BatchContext, data: Any, **bounds: Any) -> Any:
        """A dense batch."""
        spans = [self.bounds(number, data.shape[axis + 1], bounds) for number, axis in enumerate(self.axes)]
        return self._cut(context.xp, data, spans, 1)


@dataclass(frozen=True)
class SliceEach(_Slice, SampleKernel):
    """Each sample has bounds of its own."""

    def sample(self, context: SampleContext, data: Array, **bounds: Any) -> Array:
        """One sample."""
        del context
        spans = [self.bounds(number, data.shape[axis], bounds) for number, axis in enumerate(self.axes)]
        return self._cut(np, data, spans, 0)


def _nearest(place: float) -> int:
    """The nearest whole number, halves away from zero."""
    return int(np.trunc(place + np.copysign(0.5, place)))


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
    axes: Sequence[int] | None = None,
    axis_names: str = "WH",
    normalized_anchor: bool = True,
    normalized_shape: bool = True,
    out_of_bounds_policy: str = "error",
    fill_values: float | Sequence[float] = 0.0,
    dtype: DALIDataType | Any = None,
    image_type: DALIImageType | None = None,
    output_dtype: DALIDataType | Any = None,
    **common: Unpack[Common],
) -> DataNode:
    """Cut a part out of arrays: all between a first and a last index, along some of the axes.

    Bounds are numbers per axis, in the order of `axes` or `axis_names`; fractions are rounded to the nearest index.

    Args:
        data: any dtype and shape.
        anchor: where the part begins, numbers per axis; a node or a constant. Floats count in parts of the extent
            unless `normalized_anchor` is False; integers are indices.
        shape_like: how large the part is, as `anchor`, with `normalized_shape`.
        start: where the part begins, indices.
        end: the first index behind it.
        shape: how large it is, in elements.
        rel_start: where the part begins, in parts of the extent.
        rel_end: where it ends, in parts of the extent.
        rel_shape: how large it is, in parts of the extent.
        axes: the numbers of the axes; negative ones count from the last.
        axis_names: their letters in the layout, where `axes` is not given.
        normalized_anchor: whether floats in `anchor` count in parts of the extent.
        normalized_shape: the same for `shape_like`.
        out_of_bounds_policy: what to do where the part leaves the array: "error", "pad" with `fill_values`, or
            "trim_to_shape".
        fill_values: one number, or one per channel (C, else the last axis).
        dtype: of the result, the input's by default; integers saturate.
        image_type: DALI's, without effect there and here.
        output_dtype: an older name of `dtype`.
        **common: what every operator takes.

    Returns:
        The parts, in the input's layout.

    Raises:
        DefinitionError: a bound given twice, axes that there are not, a part outside where that is known.
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
            kind = part.spec.dtype.kind if isinstance(part, DataNode) else np.asarray(part).dtype.kind
            name = names[1] if kind == "f" and relative else names[0]
            if given[name] is not None:
                raise DefinitionError(f"fn.slice: {name} is given twice")
            given[name] = part
    given = {name: bound for name, bound in given.items() if bound is not None}
    for names in (_STARTS, _ENDS):
        twice = [name for name in names if name in given]
        if len(twice) > 1:
            raise DefinitionError("fn.slice: the same bound is given twice", given=" and ".join(twice))
    if not given:
        raise DefinitionError("fn.slice needs to know where to begin or end", expected="start, end, shape, ...")
    numbers = axis_numbers(axes, None if axes is not None else axis_names, data.spec, "slice")
    for name, bound in given.items():
        count = (*bound.spec.shape, 1)[0] if isinstance(bound, DataNode) else np.size(bound)
        if count not in (len(numbers), None):
            raise DefinitionError(f"fn.slice: {name} has a number per axis", given=count, expected=len(numbers))
    one_of(out_of_bounds_policy, POLICIES, "fn.slice: out_of_bounds_policy")
    kind = SliceEach if any(isinstance(bound, DataNode) for bound in given.values()) else SliceAlike
    layout = data.spec.layout
    kernel = kind(
        numbers,
        layout.index("C") if "C" in layout else data.ndim - 1,
        POLICIES[out_of_bounds_policy],
        tuple(np.atleast_1d(np.asarray(fill_values, np.float64)).tolist()),
        result_dtype(data.spec.dtype, dtype, output_dtype),
    )
    return apply(kernel, data, common=common, **given)
