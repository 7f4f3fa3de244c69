"""Masks of batches, which mostly have no False row: to put such a one on devices costs a part of a small batch."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import jax
import numpy as np

from penstock.core.columns import Array, Indices

_KEPT = 4
"""As many as a loop with some batches in flight holds at once."""

_ALONE = 2
"""How many references an array has that its pool alone holds, as `sys.getrefcount` counts them: its own is one."""


class RowMasks:
    """Puts masks on devices. Where all rows are True, an array that nobody holds any more is given out again.

    A mask belongs to whoever holds its batch: it may be donated, and no other batch has it.

    Args:
        put: how a column comes to the devices.

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
        self._whole: deque[jax.Array] = deque(maxlen=_KEPT)
        self._of: tuple[int, object] | None = None

    def put(self, rows: int, lost: Indices) -> jax.Array:
        """The mask of `rows` rows of this process, of which some are lost."""
        if len(lost):
            column = np.ones(rows, np.bool_)
            column[lost] = False
            return self._put(column)
        of = rows, cast(Any, jax.config).jax_default_device
        if of != self._of:
            self._whole.clear()
            self._of = of
        whole = self._whole
        for number in range(len(whole)):
            if sys.getrefcount(whole[number]) == _ALONE and not whole[number].is_deleted():
                return whole[number]
        whole.append(self._put(np.ones(rows, np.bool_)))
        return whole[-1]
