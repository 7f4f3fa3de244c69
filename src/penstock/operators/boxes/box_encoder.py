"""Operator that assigns boxes to anchors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, DataNode, HostBatchKernel, Input, Operator, Range, apply_many, operator
from penstock.graph.ir.argument_schema import as_numbers
from penstock.numerics.ragged import concatenate, flattened
from penstock.operators.boxes.anchor_matching import match
from penstock.operators.boxes.box_operator import Boxes, check_counts
from penstock.operators.number_arguments import as_floats

_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class BoxEncoder(Operator, HostBatchKernel):
    """Assignment of boxes and labels to anchors, as for training SSD.

    Args:
        anchors: float32 (m, 4) as bytes (hashable): left, top, right, bottom.
        criteria: Minimum IoU of an anchor and its box.
        offset: If True, boxes are encoded relative to their anchors.
        means: Means of the offsets.
        stds: Standard deviations of the offsets.
        scale: Factor for boxes and anchors before offsets are computed.
    """

    anchors: bytes
    criteria: float
    offset: bool
    means: tuple[float, ...]
    stds: tuple[float, ...]
    scale: float
    accepts_ragged: ClassVar[bool] = True

    def infer(self, boxes: Spec, labels: Spec) -> tuple[Spec, Spec]:
        """Return the specs of one box and one label per anchor."""
        count = len(self.anchors) // 16
        return Spec(_FLOAT, (count, 4)), Spec(labels.dtype, (count,))

    def batch(self, context: BatchContext, boxes: Any, labels: Any) -> Any:
        """Match and encode boxes, in float32."""
        anchors = np.frombuffer(self.anchors, np.float32).reshape(-1, 4)
        (numbers, counts), (classes, shapes) = concatenate(boxes), flattened(labels)
        check_counts(counts, shapes.prod(axis=1))
        matches = np.empty((context.rows, len(anchors)), np.int64)
        memory = np.empty(len(anchors), np.float32), np.empty(len(numbers), np.int64)
        match(numbers, counts, anchors, np.float32(self.criteria), *memory, matches)
        centered, result = _centered(anchors), np.zeros((*matches.shape, 4), np.float32)
        # DALI's values for anchors without a box: the anchor itself, or zeros for offsets.
        if not self.offset:
            result[:] = centered
        anchor_labels = np.zeros(matches.shape, np.int32)
        taken = np.nonzero(matches >= 0)
        anchor_labels[taken] = classes[matches[taken]]
        targets, anchor = _centered(numbers[matches[taken]]), centered[taken[1]]
        result[taken] = self._offsets(targets, anchor) if self.offset else targets
        return result, anchor_labels

    def _offsets(self, boxes: Array, anchors: Array) -> Array:
        """Return the offsets of boxes from their anchors; both are center and size."""
        boxes, anchors = boxes * np.float32(self.scale), anchors * np.float32(self.scale)
        shifts = (boxes[:, :2] - anchors[:, :2]) / anchors[:, 2:]
        with np.errstate(divide="ignore"):  # a box without extent gives -inf, as in DALI
            growth = np.log(boxes[:, 2:] / anchors[:, 2:])
        means, stds = np.array(self.means, np.float32), np.array(self.stds, np.float32)
        return (np.concatenate([shifts, growth], axis=1) - means) / stds


def _centered(boxes: Array) -> Array:
    """Convert boxes from corners to center and size."""
    low, high = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([(low + high) * np.float32(0.5), high - low], axis=1)


@operator("box_encoder")
def box_encoder(
    bboxes: Boxes,
    labels: Annotated[DataNode, Input(("int32",))],
    *,
    anchors: Sequence[float] | Sequence[Sequence[float]],
    criteria: Annotated[float, Range(0, 1)] = 0.5,
    offset: bool = False,
    means: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
    stds: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    scale: float = 1.0,
) -> list[DataNode]:
    """Assign ground-truth boxes to the anchors of a detector, as for training SSD.

    An anchor gets the box with the largest IoU, if it exceeds `criteria`. Each box also goes to its best anchor, at
    any IoU.

    Args:
        bboxes: Boxes, float32 (n, 4): left, top, right, bottom.
        labels: Classes of the boxes, int32 (n,) or (n, 1).
        anchors: Left, top, right, bottom of each anchor, as a flat list or (m, 4).
        criteria: Minimum intersection over union (IoU), from 0 to 1.
        offset: If True, return offsets: the difference of the centers in units of the anchor's size, and the logarithm
            of the ratio of the sizes.
        means: Means of the four offsets, subtracted from them.
        stds: Standard deviations of the four offsets, by which they are divided.
        scale: Factor for boxes and anchors before offsets are computed.

    Returns:
        Boxes, float32 (m, 4), as center and size; and classes, int32 (m,). An anchor without a box gets class 0 and its
        own coordinates, or zeros with `offset`.

    Raises:
        DefinitionError: Boxes are not float32, labels are not int32, `anchors` are not boxes, `criteria` is not from 0
            to 1, or an std is 0.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     boxes = fn.readers.arrays(np.float32([[[0, 0, 0.5, 0.25]]]))
        ...     labels = fn.readers.arrays(np.int32([[7]]))
        ...     boxes, labels = fn.box_encoder(boxes, labels, anchors=[0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1])
        ...     pipeline.set_outputs(boxes, labels)
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[[[0.25, 0.125, 0.5, 0.25], [0.75, 0.75, 0.5, 0.5]]], [[7, 0]]]
    """
    numbers = as_numbers("anchors", anchors).astype(np.float32)
    if not numbers.size or (numbers.size if numbers.ndim == 1 else numbers.shape[-1]) % 4:
        raise DefinitionError("anchors must have four numbers each", given=f"an array of shape {numbers.shape}")
    numbers = numbers.reshape(-1)
    if np.size(means) != 4 or np.size(stds) != 4 or not np.all(stds) or scale <= 0:
        raise DefinitionError(
            "means and stds must have four numbers each; stds must not be 0, scale must be positive",
            given=f"means={means}, stds={stds}, scale={scale}",
        )
    kernel = BoxEncoder(numbers.tobytes(), criteria, offset, as_floats(means), as_floats(stds), scale)
    return apply_many(kernel, bboxes, labels)
