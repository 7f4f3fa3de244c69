"""Row masks. Most have no False row, so they are recycled: a transfer would be a large part of a small batch's cost."""

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from penstock.core import Array, Indices

# Masks to keep. A loop with several batches in flight holds about as many.
_MAX_MASKS = 4

# References to an array that only the pool holds, as `sys.getrefcount` counts them: the pool's, and its own argument.
_UNUSED_REFERENCES = 2


class RowMasks:
    """Puts masks on devices, and recycles masks without False rows that are not referenced any more.

    No two batches share a mask, because a user may donate it with its batch.

    Args:
        put: Puts a column on the devices.

    >>> masks, none = RowMasks(jax.device_put), np.array([], np.int64)
    >>> first = masks.put(3, none)
    >>> second, number = masks.put(3, none), id(first)
    >>> second is first
    False
    >>> del first
    >>> id(masks.put(3, none)) == number
    True
    """

    def __init__(self, put: Callable[[Array], jax.Array]) -> None:
        self._put = put
        self._masks: deque[jax.Array] = deque(maxlen=_MAX_MASKS)
        self._key: tuple[int, object] | None = None

    def put(self, rows: int, lost: Indices) -> jax.Array:
        """Return the mask of `rows` rows of this process.

        Args:
            rows: Number of rows.
            lost: Indices of the rows that are False.
        """
        if len(lost):
            column = np.ones(rows, np.bool_)
            column[lost] = False
            return self._put(column)
        key = rows, cast(Any, jax.config).jax_default_device
        if key != self._key:
            self._masks.clear()
            self._key = key
        masks = self._masks
        for number in range(len(masks)):
            if sys.getrefcount(masks[number]) == _UNUSED_REFERENCES and not masks[number].is_deleted():
                return masks[number]
        masks.append(self._put(np.ones(rows, np.bool_)))
        return masks[-1]
