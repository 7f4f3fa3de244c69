"""Rows of columns, which are arrays or lists with an array per row."""

from typing import Any, cast

import numpy as np

from penstock.core import Column, Indices


def select_rows(column: Any, rows: slice | Indices) -> Any:
    """Return rows of a column, which may also be indices into an array."""
    if isinstance(column, list) and not isinstance(rows, slice):
        return [cast(list[Any], column)[row] for row in rows.tolist()]
    return cast(Any, column)[rows]


def scatter_column(column: Any, rows: Indices, values: Column) -> None:
    """Write values into rows of a column."""
    if isinstance(column, np.ndarray):
        column[rows] = values
    else:
        for row, sample in zip(rows.tolist(), values, strict=True):
            column[row] = sample
