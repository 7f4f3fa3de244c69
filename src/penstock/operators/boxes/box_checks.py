"""Checks of boxes, common to all operators on boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Spec
from penstock.errors import ArgumentTypeError, DefinitionError


def check_boxes(kind: str, boxes: Spec, *, lists: bool = True) -> None:
    """Check that a value holds boxes: float32, four numbers each.

    Args:
        kind: Public name of the operator.
        boxes: Spec of the value.
        lists: If True, samples may have any number of axes, or be one flat list; otherwise they are (n, 4).

    Raises:
        ArgumentTypeError: If the dtype is not float32.
        DefinitionError: If the shape is not that of boxes.
    """
    if boxes.dtype != np.float32:
        raise ArgumentTypeError(
            f"fn.{kind} takes boxes of float32", given=boxes, fix="fn.cast(boxes, dtype=types.FLOAT)"
        )
    axes, last = len(boxes.shape), boxes.shape[-1] if boxes.shape else 0
    fits = last is None or (last % 4 == 0 if axes == 1 and lists else last == 4)
    if not fits or not (axes >= 1 if lists else axes == 2):
        raise DefinitionError("boxes must have four numbers each", given=boxes, expected="float32[n, 4]")


def check_counts(boxes: NDArray[np.int64], others: NDArray[np.int64], what: str = "labels") -> None:
    """Check that each sample has one entry of other data, such as labels, per box.

    Raises:
        ValueError: If the numbers of a sample differ.
    """
    for row in np.flatnonzero(boxes != others)[:1].tolist():
        raise ValueError(f"there are {boxes[row]} boxes and {others[row]} {what}")


def corners(boxes: Any) -> list[Any]:
    """Return the four columns (rows, n) of boxes (rows, ..., 4) or (rows, 4 * n).

    Raises:
        ValueError: If the last extent is not a multiple of four.
    """
    if boxes.shape[-1] % 4 or (boxes.ndim > 2 and boxes.shape[-1] != 4):
        raise ValueError(f"boxes must have four numbers each, and the samples have shape {boxes.shape[1:]}")
    flat = boxes.reshape(boxes.shape[0], -1, 4)
    return [flat[..., k] for k in range(4)]
