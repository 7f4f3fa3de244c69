"""What operators on boxes share: their form, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError


def check_boxes(kind: str, boxes: Spec, *, lists: bool = True) -> None:
    """Check that a value holds boxes: float32, four numbers each.

    Args:
        kind: the operator's public name.
        boxes: what is known of the value.
        lists: whether a sample may have any number of axes, and be one long list of numbers; else it is (n, 4).

    Raises:
        ArgumentTypeError: another dtype.
        DefinitionError: another shape.
    """
    if boxes.dtype != np.float32:
        raise ArgumentTypeError(
            f"fn.{kind} takes boxes of float32", given=boxes, fix="fn.cast(boxes, dtype=types.FLOAT)"
        )
    axes, last = len(boxes.shape), boxes.shape[-1] if boxes.shape else 0
    fits = last is None or (last % 4 == 0 if axes == 1 and lists else last == 4)
    if not fits or not (axes >= 1 if lists else axes == 2):
        raise DefinitionError(f"fn.{kind}: a box has four numbers", given=boxes, expected="float32[n, 4]")


def check_counts(boxes: NDArray[np.int64], others: NDArray[np.int64], what: str = "labels") -> None:
    """Check that each sample has as many of something else as it has boxes.

    Raises:
        ValueError: one has not.
    """
    for row in np.flatnonzero(boxes != others)[:1].tolist():
        raise ValueError(f"there are {boxes[row]} boxes and {others[row]} {what}")


def corners(boxes: Any) -> list[Any]:
    """The four numbers of boxes, each (rows, boxes), for boxes of (rows, ..., 4) or (rows, 4 * n).

    Raises:
        ValueError: the last extent has no fours.
    """
    if boxes.shape[-1] % 4 or (boxes.ndim > 2 and boxes.shape[-1] != 4):
        raise ValueError(f"a box has four numbers, and the samples have shape {boxes.shape[1:]}")
    flat = boxes.reshape(boxes.shape[0], -1, 4)
    return [flat[..., k] for k in range(4)]
