"""random_bbox_crop: a random window that shows enough of the objects, and the boxes in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypedDict, Unpack

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.arguments.argument_groups import select_arguments
from penstock.graph.arguments.argument_marks import Doc
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import BatchContext, HostBatchKernel, Operator
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.ragged import concatenate, entries, split
from penstock.numerics.splitmix64 import streams
from penstock.operators.argument_limits import Attempts
from penstock.operators.boxes.box_checks import check_counts
from penstock.operators.boxes.crop_search import PATIENCE, search_windows

_FLOAT = np.dtype(np.float32)


class Windows(TypedDict, total=False):
    """Distribution of windows."""

    thresholds: Annotated[
        float | Sequence[float],
        Doc("Overlaps of which each `num_attempts` draws choose one; by default 0."),
    ]
    threshold_type: Annotated[
        str,
        Doc('Measure of overlap: "iou" (default), or "overlap" for the fraction of a box that is in the window.'),
    ]
    all_boxes_above_threshold: Annotated[
        bool,
        Doc("If True (default), every box must reach the threshold; otherwise one of them."),
    ]
    allow_no_crop: Annotated[bool, Doc("If True (default), the whole image is one of the choices.")]
    num_attempts: Annotated[Attempts, Doc("Windows per choice; by default 1.")]
    total_num_attempts: Annotated[
        Attempts,
        Doc("Windows in all, after which the best one is used; -1 (default) for 100000, after which it is an error."),
    ]
    scaling: Annotated[Sequence[float], Doc("Range of the window's extents, relative to the image; by default [1, 1].")]
    aspect_ratio: Annotated[
        Sequence[float],
        Doc("Range of width / height, by default [1, 1]; for boxes in space also three ranges, for x/y, x/z and y/z."),
    ]
    bbox_prune_threshold: Annotated[
        float | None,
        Doc(
            "Fraction of a box that must be in the window for the box to stay; None keeps boxes whose center is inside."
        ),
    ]
    quiet: Annotated[bool, Doc("DALI's option; it has no effect.")]


@dataclass(frozen=True)
class RandomBBoxCrop(Operator, HostBatchKernel):
    """A window, the boxes in it, what belongs to these, and their numbers.

    Args:
        thresholds: the overlaps; -1 for the whole image.
        relative: whether overlaps are parts of boxes.
        every: whether all boxes count.
        attempts: per threshold.
        total: in all; -1 for as many as it takes.
        scaling: least and greatest extent.
        ratios: least and greatest, a pair for all axes or one for each two of them.
        prune: the part of a box that has to be inside; -1 for its centre.
        layout: what the numbers of a box are.
        shapes: per axis x, y, z its place in shapes that are given.
        indices: whether the numbers of the boxes that stay are an output.
    """

    thresholds: tuple[float, ...]
    relative: bool
    every: bool
    attempts: int
    total: int
    scaling: tuple[float, ...]
    ratios: tuple[tuple[float, float], ...]
    prune: float
    layout: str
    shapes: tuple[int, ...]
    indices: bool
    accepts_ragged: ClassVar[bool] = True
    schema: ClassVar[Mapping[str, Argument]] = {
        "input_shape": Argument(np.int64, (None,), low=1),
        "crop_shape": Argument(np.int64, (None,), low=1),
    }

    @property
    def random_bits(self) -> int:
        """Two, from which a generator makes as many as it takes."""
        return 2

    def infer(self, boxes: Spec, *labels: Spec, **_arguments: Any) -> tuple[Spec, ...]:
        """Two corners' worth of numbers, and as many boxes as stay."""
        ndim = len(self.layout) // 2
        place = Spec(_FLOAT, (ndim,))
        kept = [Spec(each.dtype, (None, *each.shape[1:])) for each in labels]
        numbers = [Spec(np.dtype(np.int32), (None,))] if self.indices else []
        return (place, place, Spec(_FLOAT, (None, 2 * ndim)), *kept, *numbers)

    def batch(self, context: BatchContext, boxes: Any, *labels: Any, **arguments: Any) -> Any:
        """Searched for in float64."""
        (given, counts), rows, ndim = concatenate(boxes), context.rows, len(self.layout) // 2
        for each in labels:
            check_counts(counts, entries(each))
        corners = self._corners(given)
        sizes, fixed = self._sizes(rows, ndim, **arguments)
        windows, found = np.zeros((rows, 2 * ndim)), np.zeros(rows, np.int64)
        keep = np.zeros(len(given), np.bool_)
        attempts = np.array([self.attempts, PATIENCE if self.total < 0 else self.total])
        search_windows(
            *(corners, counts, streams(context.bits), np.array(self.thresholds), np.array(self.scaling)),
            *(np.array(self.ratios), sizes, fixed, attempts),
            *(self.relative, self.every, self.prune, np.zeros(3 * ndim), windows, keep, found),
        )
        if self.total < 0 and not found.all():
            raise ValueError(
                f"none of {PATIENCE} windows shows enough of the boxes; total_num_attempts=50 takes the best of 50"
            )
        low, size = windows[:, :ndim], windows[:, ndim:] - windows[:, :ndim]
        kept, of_box = np.flatnonzero(keep), np.repeat(np.arange(rows), counts)
        row = of_box[kept]
        inside = self._inside(corners[kept], windows[row])
        inside = np.where((found[row] == 2)[:, None], given[kept], inside)
        pixels = sizes if fixed.size else np.ones(ndim)
        anchor, shape = (low * pixels).astype(_FLOAT), (size * pixels).astype(_FLOAT)
        if fixed.size:
            anchor, shape = np.rint(anchor), np.rint(shape)
        stay = np.bincount(row, minlength=rows)
        of_kept = [split(concatenate(each)[0][kept], stay) for each in labels]
        numbers = kept - (np.cumsum(counts) - counts)[row]
        result = [anchor, shape, split(inside, stay), *of_kept]
        return tuple([*result, split(numbers.astype(np.int32), stay)] if self.indices else result)

    def _inside(self, corners: Array, windows: Array) -> Array:
        """Boxes relative to their windows, and cut off at the edges."""
        ndim = len(self.layout) // 2
        low, high = np.tile(windows[:, :ndim], 2), np.tile(windows[:, ndim:], 2)
        return self._spelled((np.clip(corners, low, high) - low) / (high - low))

    def _sizes(self, rows: int, ndim: int, input_shape: Any = None, crop_shape: Any = None) -> tuple[Array, Array]:
        """The sizes of images and windows, (rows, axes), in the order of a box's axes."""
        given: list[Array] = []
        for name, shape in (("input_shape", input_shape), ("crop_shape", crop_shape)):
            if shape is not None and shape.shape[1] != ndim:
                raise ValueError(f"{name} has {shape.shape[1]} numbers, and boxes {ndim} axes")
            none = np.zeros((rows, 0))
            given.append(none if shape is None else np.ascontiguousarray(shape[:, list(self.shapes)], np.float64))
        image, window = given
        return image if image.size else np.ones((rows, ndim)), window

    def _corners(self, boxes: Array) -> Array:
        """Boxes as low corner, high corner, in the order x, y, z."""
        if boxes.ndim != 2 or boxes.shape[1] != len(self.layout):
            raise ValueError(f"boxes have shape {boxes.shape}, not (n, {len(self.layout)})")
        ndim = len(self.layout) // 2
        low = boxes[:, [self.layout.index(axis) for axis in "xyz"[:ndim]]].astype(np.float64)
        ends, sizes = "XYZ"[:ndim], "WHD"[:ndim]
        is_end = ends[0] in self.layout
        rest = boxes[:, [self.layout.index(axis) for axis in (ends if is_end else sizes)]].astype(np.float64)
        corners = np.concatenate([low, rest if is_end else low + rest], axis=1)
        outside = ((corners < -1e-5) | (corners > 1 + 1e-5)).any(axis=1)
        if outside.any():
            raise ValueError(f"box {boxes[outside][0].tolist()} leaves the image: numbers are from 0 to 1")
        return corners

    def _spelled(self, corners: Array) -> Array:
        """The inverse of `_corners`."""
        ndim = len(self.layout) // 2
        low, high = corners[:, :ndim], corners[:, ndim:]
        columns = {**dict(zip("xyz", low.T, strict=False)), **dict(zip("XYZ", high.T, strict=False))}
        columns |= dict(zip("WHD", (high - low).T, strict=False))
        return np.stack([columns[letter] for letter in self.layout], axis=1).astype(_FLOAT)


@operator("random_bbox_crop")
def random_bbox_crop(
    bboxes: DataNode,
    labels: DataNode | None = None,
    *,
    bbox_layout: str = "",
    ltrb: bool | None = None,
    input_shape: Sequence[int] | DataNode | None = None,
    crop_shape: Sequence[int] | DataNode | None = None,
    shape_layout: str = "",
    output_bbox_indices: bool = False,
    seed: int = -1,
    **arguments: Unpack[Windows],
) -> list[DataNode]:
    """Draw a window that shows enough of the objects in an image, and move their boxes into it.

    `fn.slice`, and `fn.decoders.image_slice`, cut it out of the image: ``fn.slice(images, anchor, shape)``.

    Args:
        bboxes: boxes relative to the image, float32 (n, 4); (n, 6) in space.
        labels: what belongs to boxes, (n, ...) of any dtype, from which the same are taken.
        bbox_layout: what a box's numbers are: "xyXY", the default, has two corners, "xyWH" a corner and the size, in
            any order; with z, Z and D in space.
        ltrb: False for "xyWH", DALI's older spelling.
        input_shape: the size of the image, by which ratios are those of pixels; a node gives each sample its own.
        crop_shape: the size of the window in pixels, which then is not drawn; likewise. Needs `input_shape`. Along an
            axis where it is larger than the image, the image lies somewhere inside of it.
        shape_layout: the order of their numbers, "WH" or "WHD" by default.
        output_bbox_indices: whether the numbers of the boxes that stay are one more output.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.
        **arguments: See `Windows`.

    Returns:
        The window's corner and its size, float32 (2,), relative to the image, in pixels with `crop_shape`; the boxes
        that stay, relative to the window and cut off at its edges; their labels, if labels are given; their numbers,
        int32, if wanted.

    Raises:
        DefinitionError: arguments that are out of range, or exclude each other.
        SampleError: while running, a box that leaves the image, or no window after 100000 attempts.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     boxes = fn.readers.arrays(np.float32([[[0.25, 0.25, 0.5, 0.5], [0.5, 0, 1, 0.5]]]))
        ...     anchor, shape, boxes = fn.random_bbox_crop(boxes, scaling=[0.3, 1.0], thresholds=[0.1, 0.3])
        ...     pipeline.set_outputs(anchor, shape, boxes)
        >>> [output.as_array().shape[2:] for output in pipeline.run()]
        [(), (), (4,)]
    """
    kind, windows = "fn.random_bbox_crop", select_arguments(Windows, arguments)
    if bboxes.spec.dtype != _FLOAT or len(bboxes.spec.shape) != 2:
        raise ArgumentTypeError(f"{kind} takes boxes of float32", given=bboxes.spec, expected="float32[n, 4]")
    if ltrb is not None and bbox_layout:
        raise DefinitionError(f"{kind} takes ltrb= or bbox_layout=", given=f"both, {bbox_layout!r}")
    ndim = len(bbox_layout) // 2 or (bboxes.spec.shape[1] or 4) // 2
    layout = bbox_layout or "xyz"[:ndim] + ("WHD" if ltrb is False else "XYZ")[:ndim]
    spellings = [sorted("xyz"[:ndim] + ends[:ndim]) for ends in ("XYZ", "WHD")]
    if ndim not in (2, 3) or sorted(layout) not in spellings or bboxes.spec.shape[1] not in (None, 2 * ndim):
        raise DefinitionError(
            f"{kind}: bbox_layout names the numbers of a box",
            given=short_repr(layout),
            expected="xyXY or xyWH, in any order",
        )
    axes = shape_layout or "WHD"[:ndim]
    if sorted(axes) != sorted("WHD"[:ndim]):
        raise DefinitionError(
            f"{kind}: shape_layout names the axes", given=short_repr(shape_layout), expected="WHD"[:ndim]
        )
    shapes = {"input_shape": input_shape, "crop_shape": crop_shape}
    fixed = crop_shape is not None
    if fixed and (input_shape is None or {"scaling", "aspect_ratio"} & set(windows) or windows.get("allow_no_crop")):
        raise DefinitionError(
            f"{kind}: crop_shape needs input_shape and excludes scaling, aspect_ratio and allow_no_crop",
            given=", ".join(sorted(windows)),
        )
    made = _operator(kind, windows, ndim, layout, tuple(axes.index(axis) for axis in "WHD"[:ndim]), fixed=fixed)
    made = RandomBBoxCrop(**made, indices=bool(output_bbox_indices))
    inputs = (bboxes,) if labels is None else (bboxes, labels)
    given: dict[str, Any] = {name: shape for name, shape in shapes.items() if shape is not None}
    return apply_many(made, *inputs, seed=seed, **given)


def _operator(
    kind: str, windows: Windows, ndim: int, layout: str, shapes: tuple[int, ...], *, fixed: bool
) -> dict[str, Any]:
    """The fields of the operator, checked."""
    thresholds = [float(value) for value in np.atleast_1d(windows.get("thresholds", [0.0]))]
    if not thresholds or not all(0 <= value <= 1 for value in thresholds):
        raise DefinitionError(
            f"{kind}: thresholds are overlaps", given=thresholds, expected="from 0 to 1, at least one"
        )
    overlap = windows.get("threshold_type", "iou")
    if overlap not in ("iou", "overlap"):
        raise DefinitionError(
            f"{kind}: no such threshold_type", given=short_repr(overlap), expected="'iou' or 'overlap'"
        )
    attempts, total = windows.get("num_attempts", 1), windows.get("total_num_attempts", -1)
    if attempts < 1 or total == 0:
        raise DefinitionError(f"{kind}: there is at least one attempt", given=f"{attempts} of {total}")
    scaling = tuple(map(float, windows.get("scaling", (1.0, 1.0))))
    if len(scaling) != 2 or not 0 <= scaling[0] <= scaling[1] <= 1:
        raise DefinitionError(f"{kind}: scaling is two parts of the image", given=scaling, expected="0 <= a <= b <= 1")
    ratios = np.asarray(windows.get("aspect_ratio", (1.0, 1.0)), np.float64).reshape(-1)
    if len(ratios) not in ((2,) if ndim == 2 else (2, 6)) or (ratios[::2] > ratios[1::2]).any() or ratios.min() < 0:
        raise DefinitionError(f"{kind}: aspect_ratio is pairs of ratios", given=ratios.tolist(), expected="0 < a <= b")
    prune = windows.get("bbox_prune_threshold")
    if prune is not None and not 0 <= prune <= 1:
        raise DefinitionError(f"{kind}: bbox_prune_threshold is a share of a box", given=prune, expected="from 0 to 1")
    whole = [] if fixed or not windows.get("allow_no_crop", True) else [-1.0]
    return {
        "thresholds": (*thresholds, *whole),
        "relative": overlap == "overlap",
        "every": bool(windows.get("all_boxes_above_threshold", True)),
        "attempts": int(attempts),
        "total": int(total),
        "scaling": scaling,
        "ratios": tuple((float(a), float(b)) for a, b in ratios.reshape(-1, 2)),
        "prune": -1.0 if prune is None else float(prune),
        "layout": layout,
        "shapes": shapes,
    }
