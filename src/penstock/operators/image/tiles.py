"""Adaptive histogram equalisation of bytes: a compiled loop over planes."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead
from penstock.operators.image.planes import mirrored


@Compiled
def nearest(value: Any) -> Any:
    """The nearest byte, as a float; halves go to the even neighbour."""
    return min(max(np.rint(value), np.float32(0)), np.float32(255))


@Compiled
def fill_tables(plane: Array, tiles: Array, limit: int, bins: Array, counts: Array, tables: Array) -> None:
    """What becomes of each bin of bytes in each tile.

    Args:
        plane: uint8 (height, width).
        tiles: int64 (4,): how many tiles there are along columns and rows, and how many pixels they have.
        limit: how many pixels of a bin count; 0 for all.
        bins: int64 (256,): the bin of each byte.
        counts: int64 (number of bins,); overwritten.
        tables: float32 (tiles, number of bins); overwritten.
    """
    height, width = plane.shape
    number = counts.shape[0]
    scale = np.float32(255) / np.float32(tiles[2] * tiles[3])
    for tile in range(tables.shape[0]):
        first_row, first_column = tile // tiles[1] * tiles[2], tile % tiles[1] * tiles[3]
        counts[:] = 0
        for y in range(first_row, first_row + tiles[2]):
            row = plane[y if y < height else mirrored(y, height)]
            for x in range(first_column, first_column + tiles[3]):
                counts[bins[row[x if x < width else mirrored(x, width)]]] += 1
        if limit > 0:
            above = 0
            for value in range(number):
                above += max(counts[value] - limit, 0)
                counts[value] = min(counts[value], limit)
            rest = above % number
            step = max(number // max(rest, 1), 1)
            counts += above // number
            for k in range(rest):
                counts[k * step] += 1
        total = 0
        for value in range(number):
            total += counts[value]
            tables[tile, value] = nearest(np.float32(total) * scale)


@ahead("u1[3] i8[1] i8 i4[2] f4[1] i4[2] f4[1] i8[1] i8[1] f4[2] u1[3]")
@Compiled
def equalize_tiles(
    planes: Array,
    tiles: Array,
    limit: int,
    rows: Array,
    down: Array,
    columns: Array,
    across: Array,
    bins: Array,
    counts: Array,
    tables: Array,
    out: Array,
) -> None:
    """Planes of bytes, each pixel by the tables of the four tiles around it.

    Args:
        planes: uint8 (planes, height, width).
        tiles: int64 (4,): how many tiles there are along columns and rows, and how many pixels they have.
        limit: how many pixels of a bin count; 0 for all.
        rows: int32 (2, height): the tiles above and below each row of pixels.
        down: float32 (height,): the weight of the latter.
        columns: int32 (2, width): the tiles left and right of each column.
        across: float32 (width,): the weight of the latter.
        bins: int64 (256,): the bin of each byte.
        counts: int64 (number of bins,); overwritten.
        tables: float32 (tiles, number of bins); overwritten.
        out: uint8 (planes, height, width).
    """
    one = np.float32(1)
    for n in range(planes.shape[0]):
        fill_tables(planes[n], tiles, limit, bins, counts, tables)
        for y in range(planes.shape[1]):
            top, bottom, below = rows[0, y] * tiles[1], rows[1, y] * tiles[1], down[y]
            for x in range(planes.shape[2]):
                value = bins[planes[n, y, x]]
                left, right, beside = columns[0, x], columns[1, x], across[x]
                upper = tables[top + left, value] * (one - beside) + tables[top + right, value] * beside
                lower = tables[bottom + left, value] * (one - beside) + tables[bottom + right, value] * beside
                out[n, y, x] = nearest(upper * (one - below) + lower * below)
