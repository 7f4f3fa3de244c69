"""box_encoder: which anchor of a detector has to find which box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.graph.ir.argument_schema import as_numbers
from penstock.graph.ir.operator import BatchContext, HostBatchKernel, Operator
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.ragged import concatenate, flattened
from penstock.operators.boxes.anchor_matching import match
from penstock.operators.boxes.box_checks import check_boxes, check_counts

_FLOAT = np.dtype(np.float32)


@dataclass(frozen=True)
class BoxEncoder(Operator, HostBatchKernel):
    """Boxes and labels per anchor, as SSD is trained with them.

    Args:
        anchors: float32 (m, 4) as bytes: left, top, right, bottom.
        criteria: the overlap from which an anchor has to find a box.
        offset: whether boxes are said relative to their anchors.
        means: of such offsets.
        stds: their standard deviations.
        scale: by which boxes and anchors are multiplied first.
    """

    anchors: bytes
    criteria: float
    offset: bool
    means: tuple[float, ...]
    stds: tuple[float, ...]
    scale: float
    accepts_ragged: ClassVar[bool] = True

    def infer(self, boxes: Spec, labels: Spec) -> tuple[Spec, Spec]:
        """One of each per anchor."""
        check_boxes("box_encoder", boxes, lists=False)
        if labels.dtype != np.int32:
            raise ArgumentTypeError(
                "fn.box_encoder takes labels of int32", given=labels, fix="fn.cast(labels, dtype=types.INT32)"
            )
        count = len(self.anchors) // 16
        return Spec(_FLOAT, (count, 4)), Spec(labels.dtype, (count,))

    def batch(self, context: BatchContext, boxes: Any, labels: Any) -> Any:
        """In float32."""
        anchors = np.frombuffer(self.anchors, np.float32).reshape(-1, 4)
        (given, counts), (classes, shapes) = concatenate(boxes), flattened(labels)
        check_counts(counts, shapes.prod(axis=1))
        found = np.empty((context.rows, len(anchors)), np.int64)
        memory = np.empty(len(anchors), np.float32), np.empty(len(given), np.int64)
        match(given, counts, anchors, np.float32(self.criteria), *memory, found)
        own, result = _centred(anchors), np.zeros((*found.shape, 4), np.float32)
        if not self.offset:
            result[:] = own
        named = np.zeros(found.shape, np.int32)
        taken = np.nonzero(found >= 0)
        named[taken] = classes[found[taken]]
        wanted, anchor = _centred(given[found[taken]]), own[taken[1]]
        result[taken] = self._offsets(wanted, anchor) if self.offset else wanted
        return result, named

    def _offsets(self, boxes: Array, anchors: Array) -> Array:
        """How boxes differ from their anchors, both centre and size."""
        boxes, anchors = boxes * np.float32(self.scale), anchors * np.float32(self.scale)
        moved = (boxes[:, :2] - anchors[:, :2]) / anchors[:, 2:]
        with np.errstate(divide="ignore"):  # a box without extent
            grown = np.log(boxes[:, 2:] / anchors[:, 2:])
        return (np.concatenate([moved, grown], axis=1) - np.array(self.means, np.float32)) / np.array(
            self.stds, np.float32
        )


def _centred(boxes: Array) -> Array:
    """Corners as centre and size."""
    low, high = boxes[:, :2], boxes[:, 2:]
    return np.concatenate([(low + high) * np.float32(0.5), high - low], axis=1)


@operator("box_encoder")
def box_encoder(
    bboxes: DataNode,
    labels: DataNode,
    *,
    anchors: Sequence[float] | Sequence[Sequence[float]],
    criteria: float = 0.5,
    offset: bool = False,
    means: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
    stds: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    scale: float = 1.0,
) -> list[DataNode]:
    """Say for each anchor of a detector which box it has to find, as SSD is trained.

    An anchor has to find the box that it overlaps most, if by more than `criteria`; and each box is found by the
    anchor that overlaps it most, whatever the overlap.

    Args:
        bboxes: boxes, float32 (n, 4): left, top, right, bottom.
        labels: their classes, int32 (n,) or (n, 1).
        anchors: left, top, right and bottom of each anchor, in one list, or (m, 4).
        criteria: intersection over union, from 0 to 1.
        offset: whether boxes are said relative to their anchors: the difference of the centres in units of the
            anchor's size, and the logarithm of the ratio of the sizes.
        means: of these four numbers, which is subtracted.
        stds: by which they are divided then.
        scale: by which boxes and anchors are multiplied first.

    Returns:
        Per anchor a box, float32 (m, 4): the centre and the size; and a class, int32 (m,). An anchor without a box has
        class 0, and itself for a box, or zeros with `offset`.

    Raises:
        ArgumentTypeError: other dtypes.
        DefinitionError: anchors that are no boxes, an overlap outside of 0 to 1, standard deviations of 0.

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
    numbers = as_numbers("fn.box_encoder: anchors", anchors).astype(np.float32).reshape(-1)
    if not numbers.size or numbers.size % 4:
        raise DefinitionError("fn.box_encoder: an anchor has four numbers", given=f"{numbers.size} numbers")
    if not 0 <= criteria <= 1:
        raise DefinitionError("fn.box_encoder: criteria is an overlap", given=criteria, expected="from 0 to 1")
    if np.size(means) != 4 or np.size(stds) != 4 or not np.all(stds) or scale <= 0:
        raise DefinitionError(
            "fn.box_encoder: means and stds are four numbers each, stds and scale are not 0",
            given=f"means={means}, stds={stds}, scale={scale}",
        )
    how = (tuple(map(float, means)), tuple(map(float, stds)), float(scale))
    made = BoxEncoder(numbers.tobytes(), float(criteria), bool(offset), *how)
    return apply_many(made, bboxes, labels)
