"""Operator that draws windows that overlap boxes enough."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Unpack

import numpy as np
from typing_extensions import TypedDict

from penstock.core import Array, Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph import (
    Argument,
    BatchContext,
    DataNode,
    HostBatchKernel,
    Input,
    Operator,
    Range,
    apply_many,
    operator,
)
from penstock.numerics.ragged import concatenate, entries, split
from penstock.numerics.splitmix64 import streams
from penstock.operators.boxes.box_operator import BoxLabels, check_counts
from penstock.operators.boxes.crop_search import MAX_ATTEMPTS, search_windows
from penstock.operators.number_arguments import as_floats

_FLOAT = np.dtype(np.float32)


class Windows(TypedDict, total=False):
    """Distribution of windows.

    Args:
        thresholds: Overlaps of which each `num_attempts` draws choose one; by default 0.
        threshold_type: Measure of overlap: "iou" (default), or "overlap" for the fraction of a box that is in the
            window.
        all_boxes_above_threshold: If True (default), every box must reach the threshold; otherwise one of them.
        allow_no_crop: If True (default), the whole image is one of the choices.
        num_attempts: Windows per choice; by default 1.
        total_num_attempts: Windows in all, after which the best one is used; by default 100000, after which it is
            an error.
        scaling: Range of the window's extents, relative to the image; by default [1, 1].
        aspect_ratio: Range of width / height, by default [1, 1]; for boxes in space also three ranges, for x/y, x/z and
            y/z.
        bbox_prune_threshold: Fraction of a box that must be in the window for the box to stay; None keeps boxes whose
            center is inside.
        quiet: DALI's option; it has no effect.
    """

    thresholds: Annotated[float | Sequence[float], Range(0, 1)]
    threshold_type: Literal["iou", "overlap"]
    all_boxes_above_threshold: bool
    allow_no_crop: bool
    num_attempts: Annotated[int, Range(1, MAX_ATTEMPTS)]
    total_num_attempts: Annotated[int, Range(1, MAX_ATTEMPTS)]
    scaling: Annotated[Sequence[float], Range(0, 1)]
    aspect_ratio: Annotated[Sequence[float], Range(0)]
    bbox_prune_threshold: Annotated[float | None, Range(0, 1)]
    quiet: bool


@dataclass(frozen=True)
class RandomBBoxCrop(Operator, HostBatchKernel):
    """Random window, the boxes in it, their labels and their indices.

    Args:
        thresholds: Overlaps; -1 for the whole image.
        relative: If True, overlap is a fraction of the box; otherwise IoU.
        every: If True, all boxes must reach the threshold; otherwise one.
        attempts: Attempts per threshold.
        total: Attempts in total; -1 for `MAX_ATTEMPTS`, and then an error.
        scaling: Smallest and largest extent.
        ratios: Smallest and largest ratio, one pair for all axes or one per pair of axes.
        prune: Fraction of a box that must be inside; -1 for its center.
        layout: Layout of a box, such as "xyXY".
        shapes: Index of each axis x, y, z in `input_shape` and `crop_shape`.
        indices: If True, the indices of the kept boxes are an output.
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

    @property
    def random_bits(self) -> int:
        """Two words: the seed of a generator, since the number of attempts is not known in advance."""
        return 2

    def infer(self, boxes: Spec, *labels: Spec, **_arguments: Any) -> tuple[Spec, ...]:
        """Return the specs of anchor, shape, boxes, labels and indices."""
        ndim = len(self.layout) // 2
        place = Spec(_FLOAT, (ndim,))
        kept = [Spec(label.dtype, (None, *label.shape[1:])) for label in labels]
        numbers = [Spec(np.dtype(np.int32), (None,))] if self.indices else []
        return (place, place, Spec(_FLOAT, (None, 2 * ndim)), *kept, *numbers)

    def batch(self, context: BatchContext, boxes: Any, *labels: Any, **arguments: Any) -> Any:
        """Search for windows, in float64, on the host: the number of attempts depends on the data."""
        (numbers, counts), rows, ndim = concatenate(boxes), context.rows, len(self.layout) // 2
        for label in labels:
            check_counts(counts, entries(label))
        corners = np.ascontiguousarray(self._corners(numbers))
        sizes, fixed = self._sizes(rows, ndim, **arguments)
        windows, outcomes = np.zeros((rows, 2 * ndim)), np.zeros(rows, np.int64)
        keep = np.zeros(len(numbers), np.bool_)
        attempts = np.array([self.attempts, MAX_ATTEMPTS if self.total < 0 else self.total])
        search_windows(
            *(corners, counts, streams(context.bits), np.array(self.thresholds), np.array(self.scaling)),
            *(np.array(self.ratios), sizes, fixed, attempts),
            *(self.relative, self.every, self.prune, np.zeros(3 * ndim), windows, keep, outcomes),
        )
        if self.total < 0 and not outcomes.all():
            raise ValueError(
                f"none of {MAX_ATTEMPTS} windows overlaps the boxes enough; total_num_attempts=50 uses the best of 50"
            )
        low, size = windows[:, :ndim], windows[:, ndim:] - windows[:, :ndim]
        kept, of_box = np.flatnonzero(keep), np.repeat(np.arange(rows), counts)
        row = of_box[kept]
        inside = self._inside(corners[kept], windows[row])
        # With the whole image, boxes keep their exact bits.
        inside = np.where((outcomes[row] == 2)[:, None], numbers[kept], inside)
        pixels = sizes if fixed.size else np.ones(ndim)
        anchor, shape = (low * pixels).astype(_FLOAT), (size * pixels).astype(_FLOAT)
        if fixed.size:
            anchor, shape = np.rint(anchor), np.rint(shape)
        stay = np.bincount(row, minlength=rows)
        of_kept = [split(concatenate(label)[0][kept], stay) for label in labels]
        indices = kept - (np.cumsum(counts) - counts)[row]
        result = [anchor, shape, split(inside, stay), *of_kept]
        return tuple([*result, split(indices.astype(np.int32), stay)] if self.indices else result)

    def _inside(self, corners: Array, windows: Array) -> Array:
        """Return boxes relative to their windows, clipped to them, in `layout`."""
        ndim = len(self.layout) // 2
        low, high = np.tile(windows[:, :ndim], 2), np.tile(windows[:, ndim:], 2)
        corners = (np.clip(corners, low, high) - low) / (high - low)
        columns = np.concatenate([corners, corners[:, ndim:] - corners[:, :ndim]], axis=1)
        letters = "".join(axes[:ndim] for axes in ("xyz", "XYZ", "WHD"))
        return columns[:, [letters.index(letter) for letter in self.layout]].astype(_FLOAT)

    def _sizes(self, rows: int, ndim: int, input_shape: Any = None, crop_shape: Any = None) -> tuple[Array, Array]:
        """Return the extents of images and windows, (rows, axes), in the order of the axes of a box."""
        extents: list[Array] = []
        for name, shape in (("input_shape", input_shape), ("crop_shape", crop_shape)):
            if shape is None:
                extents.append(np.zeros((rows, 0)))
                continue
            if shape.shape[1] != ndim:
                raise ValueError(f"{name} has {shape.shape[1]} numbers, and boxes have {ndim} axes")
            extents.append(np.ascontiguousarray(shape[:, list(self.shapes)], np.float64))
        image, window = extents
        return image if image.size else np.ones((rows, ndim)), window

    def _corners(self, boxes: Array) -> Array:
        """Return boxes as low and high corners, in the order x, y, z."""
        if boxes.ndim != 2 or boxes.shape[1] != len(self.layout):
            raise ValueError(f"boxes have shape {boxes.shape}, not (n, {len(self.layout)})")
        ndim = len(self.layout) // 2
        is_end = "X" in self.layout
        low, rest = (
            boxes[:, [self.layout.index(axis) for axis in axes[:ndim]]].astype(np.float64)
            for axes in ("xyz", "XYZ" if is_end else "WHD")
        )
        corners = np.concatenate([low, rest if is_end else low + rest], axis=1)
        # Accept an excess of 1e-5, such as from rounding; DALI 2.4 rejects any box outside [0, 1].
        outside = ((corners < -1e-5) | (corners > 1 + 1e-5)).any(axis=1)
        if outside.any():
            raise ValueError(f"box {boxes[outside][0].tolist()} leaves the image: coordinates must be from 0 to 1")
        return corners


_Shape = Annotated[Sequence[int] | DataNode | None, Argument(np.int64, (None,), low=1)]


@operator("random_bbox_crop")
def random_bbox_crop(
    bboxes: Annotated[DataNode, Input(("float32",), ranks=(2,), needs="boxes")],
    labels: BoxLabels = None,
    *,
    bbox_layout: str = "",
    ltrb: bool | None = None,
    input_shape: _Shape = None,
    crop_shape: _Shape = None,
    shape_layout: str = "",
    output_bbox_indices: bool = False,
    seed: int = -1,
    **windows: Unpack[Windows],
) -> list[DataNode]:
    """Draw a random window that overlaps the boxes of an image enough, and convert the boxes to it.

    Cut the window with `fn.slice` or `fn.decoders.image_slice`: ``fn.slice(images, anchor, shape)``.

    Args:
        bboxes: Boxes relative to the image, float32 (n, 4), or (n, 6) for volumes.
        labels: Labels of the boxes, (n, ...), any dtype; removed together with their boxes.
        bbox_layout: "xyXY" (default) for two corners, "xyWH" for a corner and the size, in any order; for volumes with
            z and Z or D.
        ltrb: DALI's older spelling: True for "xyXY", False for "xyWH".
        input_shape: Extents of the image, so that aspect ratios are those of pixels; numbers, or a node with a shape
            per sample.
        crop_shape: Extents of the window in pixels, instead of random ones; numbers, or a node. Needs `input_shape`. A
            window larger than the image contains the image at a random position.
        shape_layout: Order of `input_shape` and `crop_shape`, "WH" or "WHD" by default.
        output_bbox_indices: If True, also return the indices of the kept boxes.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.
        **windows: See `Windows`.

    Returns:
        Anchor and shape of the window, float32 (2,), relative to the image, or in pixels with `crop_shape`; the kept
        boxes, relative to the window and clipped to it; their labels, if you pass labels; their indices, int32, with
        `output_bbox_indices`.

    Raises:
        DefinitionError: Arguments are out of range or exclude each other.
        SampleError: At run time, a box leaves the image, or no window is valid after 100000 attempts.

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
    if ltrb is not None and bbox_layout:
        raise DefinitionError("ltrb and bbox_layout cannot be combined", given=f"both, {bbox_layout!r}")
    ndim = len(bbox_layout) // 2 or (bboxes.spec.shape[1] or 4) // 2
    layout = bbox_layout or "xyz"[:ndim] + ("WHD" if ltrb is False else "XYZ")[:ndim]
    spellings = [sorted("xyz"[:ndim] + ends[:ndim]) for ends in ("XYZ", "WHD")]
    if ndim not in (2, 3) or sorted(layout) not in spellings or bboxes.spec.shape[1] not in (None, 2 * ndim):
        raise DefinitionError(
            "bbox_layout must name the numbers of a box",
            given=short_repr(layout),
            expected="xyXY or xyWH, in any order",
        )
    axes = shape_layout or "WHD"[:ndim]
    if sorted(axes) != sorted("WHD"[:ndim]):
        raise DefinitionError("shape_layout must name all axes", given=short_repr(shape_layout), expected="WHD"[:ndim])
    fixed = crop_shape is not None
    if fixed and (input_shape is None or {"scaling", "aspect_ratio"} & set(windows) or windows.get("allow_no_crop")):
        raise DefinitionError(
            "crop_shape needs input_shape and excludes scaling, aspect_ratio and allow_no_crop",
            given=", ".join(sorted(windows)),
        )
    thresholds = as_floats(windows.get("thresholds", 0.0))
    if not thresholds:
        raise DefinitionError("thresholds must not be empty", given=thresholds, expected="at least one overlap")
    total = windows.get("total_num_attempts", -1)
    scaling = as_floats(windows.get("scaling", (1.0, 1.0)))
    if len(scaling) != 2 or scaling[0] > scaling[1]:
        raise DefinitionError("scaling must be a range of fractions", given=scaling, expected="0 <= a <= b <= 1")
    ratios = as_floats(windows.get("aspect_ratio", (1.0, 1.0)))
    pairs = tuple(zip(ratios[::2], ratios[1::2], strict=False))
    if len(ratios) not in ((2,) if ndim == 2 else (2, 6)) or any(low > high for low, high in pairs):
        raise DefinitionError("aspect_ratio must be ranges of ratios", given=ratios, expected="0 < a <= b")
    prune = windows.get("bbox_prune_threshold")
    kernel = RandomBBoxCrop(
        thresholds=thresholds if fixed or not windows.get("allow_no_crop", True) else (*thresholds, -1.0),
        relative=windows.get("threshold_type") == "overlap",
        every=bool(windows.get("all_boxes_above_threshold", True)),
        attempts=windows.get("num_attempts", 1),
        total=total,
        scaling=scaling,
        ratios=pairs,
        prune=-1.0 if prune is None else float(prune),
        layout=layout,
        shapes=tuple(axes.index(axis) for axis in "WHD"[:ndim]),
        indices=output_bbox_indices,
    )
    inputs = (bboxes,) if labels is None else (bboxes, labels)
    shapes: dict[str, Any] = {} if input_shape is None else {"input_shape": input_shape}
    shapes |= {"crop_shape": crop_shape} if fixed else {}
    return apply_many(kernel, *inputs, seed=seed, **shapes)
