"""CRC-32C, the checksum of TFRecord files.

The Castagnoli polynomial, bit-reversed, computed eight bytes at a time by tables: Kounavis and Berry, "A Systematic
Approach to Building High Performance Software-based CRC Generators", 2005.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from penstock.data.source import Array
from penstock.native.compiled import Compiled, ahead

_POLYNOMIAL = 0x82F63B78
_LANE = 1024
"""Bytes, of which four times as many are read at once."""


def crc32c(data: Array, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The checksum of each part ``data[start:stop]`` of an array of bytes.

    >>> crc32c(np.frombuffer(b"..123456789", np.uint8), np.array([2]), np.array([11])).tolist() == [0xE3069283]
    True
    """
    result = np.empty(len(starts), np.uint32)
    _checksums(data, starts, stops, _tables(), result)
    return result


def masked_crc32c(data: Array, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The checksums as TFRecord files hold them: rotated by 15 bits, plus a constant."""
    plain = crc32c(data, starts, stops)
    return (plain >> np.uint32(15) | plain << np.uint32(17)) + np.uint32(0xA282EAD8)


@functools.cache
def _tables() -> NDArray[np.uint32]:
    """Per byte value, its remainder when 0 to 7 more bytes follow; per byte of a remainder, what it is a lane later.

    Shape (12, 256).
    """
    tables = np.empty((12, 256), np.uint64)
    row = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        row = row >> np.uint64(1) ^ (row & np.uint64(1)) * np.uint64(_POLYNOMIAL)
    tables[0] = row
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> np.uint64(8) ^ row[before & np.uint64(255)]
    later = np.arange(256, dtype=np.uint64) << np.array([[0], [8], [16], [24]], np.uint64)
    for _ in range(_LANE):
        later = later >> np.uint64(8) ^ row[later & np.uint64(255)]
    tables[8:] = later
    return tables.astype(np.uint32)


@ahead("u1[1] i8[1] i8[1] u4[2] u4[1]")
@Compiled
def _checksums(data: Array, starts: Array, stops: Array, tables: Array, out: Array) -> None:
    byte = np.uint64(255)
    for part in range(starts.shape[0]):
        at, stop = starts[part], stops[part]
        crc = np.uint64(0xFFFFFFFF)
        while at + 4 * _LANE <= stop:  # four lanes at once: none waits for another's tables
            second, third, fourth = np.uint64(0), np.uint64(0), np.uint64(0)
            for place in range(at, at + _LANE, 8):
                crc = _eight(data, place, tables, crc)
                second = _eight(data, place + _LANE, tables, second)
                third = _eight(data, place + 2 * _LANE, tables, third)
                fourth = _eight(data, place + 3 * _LANE, tables, fourth)
            crc = _later(_later(_later(crc, tables) ^ second, tables) ^ third, tables) ^ fourth
            at += 4 * _LANE
        while at + 8 <= stop:
            crc = _eight(data, at, tables, crc)
            at += 8
        while at < stop:
            crc = np.uint64(tables[0, (crc ^ np.uint64(data[at])) & byte]) ^ crc >> np.uint64(8)
            at += 1
        out[part] = np.uint32(crc ^ np.uint64(0xFFFFFFFF))


@Compiled
def _eight(data: Array, place: int, tables: Array, crc: np.uint64) -> np.uint64:
    """The remainder eight bytes later."""
    byte, at = np.uint64(255), np.uint64(place)  # without a sign: no place counts from the end
    word = np.uint64(data[at])
    word |= np.uint64(data[at + np.uint64(1)]) << np.uint64(8)
    word |= np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
    word |= np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
    word |= np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
    word |= np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
    word |= np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
    word |= np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
    word ^= crc
    crc = np.uint64(tables[7, word & byte])
    crc ^= np.uint64(tables[6, word >> np.uint64(8) & byte])
    crc ^= np.uint64(tables[5, word >> np.uint64(16) & byte])
    crc ^= np.uint64(tables[4, word >> np.uint64(24) & byte])
    crc ^= np.uint64(tables[3, word >> np.uint64(32) & byte])
    crc ^= np.uint64(tables[2, word >> np.uint64(40) & byte])
    crc ^= np.uint64(tables[1, word >> np.uint64(48) & byte])
    return crc ^ np.uint64(tables[0, word >> np.uint64(56)])


@Compiled
def _later(crc: np.uint64, tables: Array) -> np.uint64:
    """What a remainder is a lane of zeros later."""
    byte = np.uint64(255)
    low = np.uint64(tables[8, crc & byte]) ^ np.uint64(tables[9, crc >> np.uint64(8) & byte])
    return low ^ np.uint64(tables[10, crc >> np.uint64(16) & byte]) ^ np.uint64(tables[11, crc >> np.uint64(24)])
