"""Inputs, checks and a base class that operators on boxes share."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, BatchKernel, DataNode, Input, Operator

# Inputs: a list of boxes per sample; boxes in samples of any rank, or in one flat list.
Boxes = Annotated[DataNode, Input(("float32",), shape=(None, 4), needs="boxes")]
AnyBoxes = Annotated[DataNode, Input(("float32",), ranks=range(1, 65), needs="boxes")]
BoxLabels = Annotated[DataNode | None, Input(ranks=range(1, 65), needs="one label per box")]


@dataclass(frozen=True)
class BoxOperator(Operator, BatchKernel):
    """Base of operators that change the coordinates of each box.

    Args:
        ltrb: If True, boxes are left, top, right, bottom; otherwise left, top, width, height.
    """

    ltrb: bool

    def infer(self, boxes: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input."""
        last = boxes.shape[-1]
        # DALI also takes all boxes of a sample as one flat list.
        if last is not None and (last % 4 if len(boxes.shape) == 1 else last != 4):
            raise DefinitionError("boxes must have four numbers each", given=boxes, expected="float32[n, 4]")
        return boxes

    def batch(self, context: BatchContext, boxes: Any, **arguments: Any) -> Any:
        """Compute in float32."""
        if boxes.shape[-1] % 4 or (boxes.ndim > 2 and boxes.shape[-1] != 4):
            raise ValueError(f"boxes must have four numbers each, and the samples have shape {boxes.shape[1:]}")
        flat = boxes.reshape(boxes.shape[0], -1, 4)
        columns = self.move(context.xp, *(flat[..., k] for k in range(4)), **arguments)
        return context.xp.stack(columns, axis=-1).reshape(boxes.shape)

    @abstractmethod
    def move(self, xp: Any, *columns: Any, **arguments: Any) -> Sequence[Any]:
        """Return the new columns of boxes.

        Args:
            xp: Array namespace.
            columns: Left, top, right and bottom, or left, top, width and height, (rows, n) each.
            arguments: Arguments of the operator, with an entry per row.
        """


def check_counts(boxes: NDArray[np.int64], others: NDArray[np.int64], what: str = "labels") -> None:
    """Check that each sample has one entry of other data, such as labels, per box.

    Raises:
        ValueError: The numbers of a sample differ.
    """
    for row in np.flatnonzero(boxes != others)[:1].tolist():
        raise ValueError(f"there are {boxes[row]} boxes and {others[row]} {what}")
