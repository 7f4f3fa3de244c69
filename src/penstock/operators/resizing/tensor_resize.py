"""tensor_resize: any axes to another size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from penstock.core.spec import Shape, Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.layouts import SPATIAL, axis_numbers
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.axis_mapping import max_filter_support, where
from penstock.image.describe.steps import ImageInfo, ResampleStep, Step
from penstock.operators.resizing.filter_arguments import FILTER_SCHEMA, FilterArguments, filter_arguments
from penstock.operators.resizing.resize import Resize, cast_steps, resampled_dtype
from penstock.operators.resizing.target_size import Mode, Numbers, TargetSize
from penstock.operators.tensors.reshape import reshape
from penstock.types import DALIDataType

Rounding = Literal["round", "truncate", "ceil"]

_SCHEMA = {
    **{name: Argument(shape=(None,)) for name in ("sizes", "scales", "alignment", "roi_end")},
    "roi_start": Argument(shape=(None,), example=0),
    **FILTER_SCHEMA,
}


@dataclass(frozen=True)
class TensorSizing(TargetSize):
    """From the size of a tensor to what becomes of its axes, of which some are named.

    Args:
        named: the axes that the user's numbers are for.
        rounding: of extents that are not whole.
    """

    named: tuple[int, ...]
    rounding: Rounding

    @cached_property
    def axes(self) -> str:
        """All axes: those that are not named count in the average scale."""
        return self.layout

    @property
    def proportional(self) -> bool:
        """Whether all axes have one scale, those that are not named, too."""
        return self.mode in ("not_larger", "not_smaller")

    def shape(self, images: Spec, arguments: Mapping[str, Any]) -> Shape:
        """The shape of the result, as far as it is known before there is data."""
        if None not in images.shape and not any(isinstance(value, Spec) for value in arguments.values()):
            extents = [np.array([extent]) for extent in images.shape]
            one = {name: _SCHEMA[name].broadcast_rows(np, value, 1, varying=False) for name, value in arguments.items()}
            return tuple(int(part.size[0]) for part in self.parts(extents, one))
        if self.proportional:
            return (None,) * len(images.shape)
        result, given = list(images.shape), arguments.get("sizes")
        sizes: list[float] = [0.0] * len(self.named)
        if not (given is None or isinstance(given, Spec)):
            sizes = np.broadcast_to(np.asarray(given, np.float64), len(sizes)).tolist()
        for at, size in zip(self.named, sizes, strict=True):
            result[at] = int(self._rounded(np.float64(min(abs(size), self.max_size[at])))) if size else None
        return tuple(result)

    def bounds(self, images: Spec, arguments: Mapping[str, Any]) -> tuple[int, ...]:
        """The largest extents of the result; empty where they are not known."""
        result = list(self.shape(images, arguments))
        for at, limit in enumerate(self.max_size):
            if result[at] is None and limit < math.inf:
                result[at] = int(self._rounded(np.float64(limit)))
            elif result[at] is None and at not in self.named and not self.proportional:
                result[at] = images.max_shape[at]
        return bounds_or_none(result)

    def _rounded(self, sizes: Any) -> Any:
        if self.rounding == "round":
            return super()._rounded(sizes)
        down = self.rounding == "truncate"
        return np.maximum(1, np.floor(sizes) if down else np.ceil(sizes)).astype(np.int64)

    def _wanted(self, arguments: Mapping[str, Any], extents: NDArray[np.float64]) -> NDArray[np.float64]:
        wanted = extents.copy()
        named = list(self.named)
        if "sizes" in arguments:
            wanted[:, named] = arguments["sizes"]
        else:  # in float32, as in DALI: 0.1 of 10 is 1, not a little more
            scales = np.asarray(arguments["scales"], np.float32)
            wanted[:, named] = scales * extents[:, named].astype(np.float32)
        return wanted

    def _ranges(self, extents: NDArray[np.float64], arguments: Mapping[str, Any]) -> tuple[Any, Any]:
        if "roi_start" not in arguments:
            return super()._ranges(extents, arguments)
        low, high = np.zeros_like(extents), np.ones_like(extents) if self.relative else extents.copy()
        low[:, list(self.named)] = arguments["roi_start"]
        high[:, list(self.named)] = arguments["roi_end"]
        return super()._ranges(extents, {"roi_start": low, "roi_end": high})

    def _widened(
        self, low: Any, high: Any, sizes: Any, wanted: Any, backwards: Any, arguments: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        after = np.zeros_like(low)  # of axes that are not named the start stays, as in DALI
        after[:, list(self.named)] = arguments["alignment"]
        after = where(backwards, 1 - after, after)
        with np.errstate(divide="ignore", invalid="ignore"):
            length = (high - low) * sizes / wanted
        fixed = low + (high - low) * after
        return fixed - length * after, fixed + length * (1 - after)


@dataclass(frozen=True)
class TensorResize(Resize):
    """Resampling of the spatial axes of a layout, whatever they mean."""

    schema: ClassVar[Mapping[str, Argument]] = _SCHEMA

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """As the sizing says."""
        parts = self.sizing.parts(images.sizes, arguments)
        resampled = {at: part for at, part in enumerate(parts) if self.layout[at] in SPATIAL}
        furthest = max_filter_support(arguments["min_filter"], arguments["mag_filter"])
        return [ResampleStep(resampled, self.sizing.antialias, furthest), cast_steps(self.dtype)]


@operator("tensor_resize")
def tensor_resize(
    data: DataNode,
    *,
    sizes: Numbers | None = None,
    scales: Numbers | None = None,
    axes: int | Sequence[int] | None = None,
    axis_names: str | None = None,
    mode: Mode = "default",
    max_size: float | Sequence[float] | None = None,
    alignment: Numbers = 0.5,
    size_rounding: Rounding = "round",
    roi_start: Numbers | None = None,
    roi_end: Numbers | None = None,
    roi_relative: bool = False,
    subpixel_scale: bool = True,
    dtype: DALIDataType | Any = None,
    **arguments: Unpack[FilterArguments],
) -> DataNode:
    """Resize tensors along any axes, at most three that follow each other: `resize` for data that are no images.

    An axis that is not named keeps its extent, unless `mode` keeps proportions; it counts with the scale 1 where an
    extent that is 0 takes the average scale of all axes. Results are those of DALI within 1 for integers, and within
    2e-3 for floats.

    Args:
        data: uint8, int16, uint16 or float32, of any layout or none.
        sizes: the extents of the result along the named axes, in their order, or one number for all; 0 follows from
            the others, and a negative number mirrors. A node gives each sample its own.
        scales: in place of `sizes`, what the extents of the input are multiplied with, likewise.
        axes: the axes that all of these numbers are for; negative ones count from the back. All axes by default.
        axis_names: the same by the letters of the layout.
        mode: "default", "stretch", and with `sizes` "not_larger" or "not_smaller", which scale all axes alike, those
            that are not named included, as if their own size were asked for (see `resize`).
        max_size: a limit of extents, one for all named axes or one for each.
        alignment: which point of the input keeps its place where an extent is rounded: 0 for the start, 0.5 for the
            middle, 1 for the end; one number, or one per named axis. A node gives each sample its own.
        size_rounding: "round", "truncate" or "ceil": how extents become whole numbers.
        roi_start: where the part begins that is resized, one number for each named axis or one for all.
        roi_end: where it ends; before `roi_start` it is mirrored.
        roi_relative: whether the part is given in fractions of the extents.
        subpixel_scale: whether the part is widened or narrowed where an extent is rounded, so that the scale stays.
        dtype: of the result: FLOAT or the input's, which it is by default.
        **arguments: See `FilterArguments`.

    Returns:
        The resized tensors, in the input's layout.

    Raises:
        DefinitionError: neither `sizes` nor `scales`, or both; more than three axes from the first to the last that is
            resized; another number of values than axes; a dtype that cannot be resampled.
        SampleError: while running, an empty part.

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
    kind, rank, given = "tensor_resize", len(data.spec.shape), {"sizes": sizes, "scales": scales}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if len(values) != 1:
        raise DefinitionError(
            f"fn.{kind}: the size is given " + ("twice" if values else "nowhere"),
            given=", ".join(values) or None,
            expected="sizes or scales",
        )
    if rank == 0:
        raise DefinitionError(f"fn.{kind} resizes along axes", given="single numbers", expected="at least one axis")
    named = axis_numbers(axes, axis_names, data.spec, kind)
    proportional = mode in ("not_larger", "not_smaller")
    if proportional and scales is not None:
        raise DefinitionError(f"fn.{kind}: scales leave mode no choice", given=f"mode={mode!r}", fix="use sizes")
    if (roi_start is None) != (roi_end is None):
        raise DefinitionError(f"fn.{kind}: roi_start and roi_end are given together", given="one of them")
    if roi_start is not None:
        values |= {"roi_start": roi_start, "roi_end": roi_end}
    values["alignment"] = alignment
    if isinstance(max_size, DataNode):
        raise DefinitionError(f"fn.{kind}: max_size is the same for all samples", given="a node")
    for name, value in (*values.items(), ("max_size", 0.0 if max_size is None else max_size)):
        _check_count(value, len(named), name)
    first, last = (0, rank - 1) if proportional else (min(named), max(named))
    if first == last and rank > 1:  # as in DALI, an axis is not resized alone: to INTERP_GAUSSIAN it matters
        first, last = (first, last + 1) if last + 1 < rank else (first - 1, last)
    layout = _spatial(data.spec, range(first, last + 1))
    limits = np.full(rank, np.inf)
    if max_size is not None:
        limits[list(named)] = np.where(np.asarray(max_size) <= 0, np.inf, max_size)
    sizing = TensorSizing(
        layout,
        mode,
        tuple(limits.tolist()),
        bool(roi_relative),
        bool(subpixel_scale),
        bool(arguments.get("antialias", True)),
        named,
        size_rounding,
    )
    values |= filter_arguments(select_arguments(FilterArguments, arguments), kind)
    own = data.spec.layout
    relabelled = own not in ("", layout)
    operand = reshape(data, layout=layout) if relabelled else data
    made = apply(TensorResize(layout, resampled_dtype(data, dtype, kind), sizing), operand, **values)
    return reshape(made, layout=own) if own != made.spec.layout else made


def _spatial(spec: Spec, resized: range) -> str:
    """A layout in which exactly the axes that are resized are spatial: the input's, if it can be.

    Raises:
        DefinitionError: there are more than three.
    """
    if len(resized) > len(SPATIAL):
        raise DefinitionError(
            "fn.tensor_resize resizes at most three axes that follow each other",
            given=f"axes {resized[0]} to {resized[-1]} of a value of {len(spec.shape)} axes",
            fix="name those that change with axes=[...], and call it twice if need be",
        )
    letters = SPATIAL[-len(resized) :]
    before, after = resized[0], len(spec.shape) - resized[-1] - 1
    own = spec.layout
    if own and own[before : before + len(resized)] == letters and not set(SPATIAL) & set(own.replace(letters, "")):
        return own
    others = "FGIJKLMNOPQRSTUV"
    ends = others[before : before + after - 1] + "C" if after else ""
    return others[:before] + letters + ends


def _check_count(value: Any, axes: int, name: str) -> None:
    count = (*value.spec.shape, 1)[0] if isinstance(value, DataNode) else np.size(value)
    if count not in (1, axes, None):
        raise DefinitionError(
            f"fn.tensor_resize: {name} has a number for each named axis",
            given=f"{count} numbers",
            expected=f"{axes}, or one for all",
        )
