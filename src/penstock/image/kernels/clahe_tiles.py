"""Compiled loop for contrast-limited adaptive histogram equalization (CLAHE) of bytes."""

from typing import Any

import numpy as np

from penstock.core import Array
from penstock.image.kernels.plane_io import mirror_index
from penstock.native.compiled import Compiled, precompile


@Compiled
def round_to_byte(value: Any) -> Any:
    """Round to the nearest byte, as a float; halves to even."""
    return min(max(np.rint(value), np.float32(0)), np.float32(255))


@Compiled
def fill_tables(
    plane: Array, channel: int, channels: int, tiles: Array, limit: int, bins: Array, counts: Array, tables: Array
) -> None:
    """Compute the lookup table of each tile.

    Args:
        plane: uint8 (height, width * channels).
        channel: Index of the channel to equalize.
        channels: Number of channels.
        tiles: int64 (4,), number of tiles along columns and rows, then the height and width of a tile.
        limit: Largest count of a bin; 0 for no limit.
        bins: int64 (256,), bin of each byte.
        counts: int32 (number of bins,); overwritten.
        tables: float32 (tiles, number of bins); overwritten.
    """
    height, width = plane.shape[0], plane.shape[1] // channels
    number = counts.shape[0]
    scale = np.float32(255) / np.float32(tiles[2] * tiles[3])
    for tile in range(tables.shape[0]):
        first_row, first_column = tile // tiles[1] * tiles[2], tile % tiles[1] * tiles[3]
        counts[:] = 0
        for y in range(first_row, first_row + tiles[2]):
            row = plane[y if y < height else mirror_index(y, height)]
            # Tiles may extend past the image, which is mirrored there. The usual part without mirroring has its own
            # loop.
            inside = min(max(width - first_column, 0), tiles[3])
            for x in range(np.uint64(first_column), np.uint64(first_column + inside)):
                counts[np.uint64(bins[row[x * np.uint64(channels) + np.uint64(channel)]])] += 1
            for x in range(first_column + inside, first_column + tiles[3]):
                counts[bins[row[mirror_index(x, width) * channels + channel]]] += 1
        # Counts above the limit are cut off and redistributed evenly. As in OpenCV, a remainder goes to every `step`-th
        # bin.
        if limit > 0:
            above, most = 0, np.int32(limit)
            for value in range(number):
                above += max(counts[value] - most, 0)
                counts[value] = min(counts[value], most)
            rest = above % number
            step = max(number // max(rest, 1), 1)
            more = np.int32(above // number)
            for value in range(number):
                counts[value] += more
            for k in range(rest):
                counts[k * step] += 1
        total = np.int32(0)
        for value in range(number):
            total += counts[value]
            counts[value] = total
        table = tables[tile]
        for value in range(number):
            table[value] = round_to_byte(np.float32(counts[value]) * scale)


@precompile("u1[3] i8 i8 i8[1] i8 i4[2] f4[1] i4[2] f4[1] i8[1] i4[1] f4[2] u1[3]")
@Compiled
def equalize_tiles(
    planes: Array,
    channel: int,
    channels: int,
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
    """Equalize one channel of planes of bytes, interpolating between the tables of the four nearest tiles.

    Args:
        planes: uint8 (planes, height, width * channels).
        channel: Index of the channel.
        channels: Number of channels.
        tiles: int64 (4,), number of tiles along columns and rows, then the height and width of a tile.
        limit: Largest count of a bin; 0 for no limit.
        rows: int32 (2, height), tiles above and below each row of pixels.
        down: float32 (height,), weight of the tile below.
        columns: int32 (2, width), tiles to the left and right of each column.
        across: float32 (width,), weight of the tile to the right.
        bins: int64 (256,), bin of each byte.
        counts: int32 (number of bins,); overwritten.
        tables: float32 (tiles, number of bins); overwritten.
        out: uint8, shape of `planes`; may be the same array.
    """
    one = np.float32(1)
    for n in range(planes.shape[0]):
        fill_tables(planes[n], channel, channels, tiles, limit, bins, counts, tables)
        for y in range(planes.shape[1]):
            below, row, result = down[y], planes[n, y], out[n, y]
            first, second = rows[0, y] * tiles[1], rows[1, y] * tiles[1]
            top, bottom = tables[first : first + tiles[1]], tables[second : second + tiles[1]]
            for x in range(np.uint64(across.shape[0])):
                at = x * np.uint64(channels) + np.uint64(channel)
                value = np.uint64(bins[row[at]])
                left, right, beside = np.uint64(columns[0, x]), np.uint64(columns[1, x]), across[x]
                upper = top[left, value] * (one - beside) + top[right, value] * beside
                lower = bottom[left, value] * (one - beside) + bottom[right, value] * beside
                result[at] = round_to_byte(upper * (one - below) + lower * below)
