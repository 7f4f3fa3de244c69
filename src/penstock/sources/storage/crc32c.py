"""CRC-32C, the checksum of TFRecord files.

The Castagnoli polynomial, bit-reversed, computed eight bytes at a time by tables: Kounavis and Berry, "A Systematic
Approach to Building High Performance Software-based CRC Generators", 2005. Tables are slow, so long data are shortened
before: a multiple of the polynomial that has few terms, all of them powers of 256, says at which later bytes each byte
may be added instead, and such additions are done many at once.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array
from penstock.native.compiled import Compiled, precompile

_POLYNOMIAL = 0x82F63B78
_FIRST, _SECOND, _THIRD, _FOURTH, _REACH = map(np.uint64, (555, 575, 613, 716, 801))
"""How many bytes later the same byte has the same remainder, all of them added."""
_BLOCK = np.uint64(4096)
"""Bytes that are shortened at once."""


def crc32c(data: Array, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The checksum of each part ``data[start:stop]`` of an array of bytes.

    >>> crc32c(np.frombuffer(b"..123456789", np.uint8), np.array([2]), np.array([11])).tolist() == [0xE3069283]
    True
    """
    result = np.empty(len(starts), np.uint32)
    _checksums(data, starts, stops, _tables(), np.empty(_REACH + _BLOCK, np.uint8), result)
    return result


def masked_crc32c(data: Array, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The checksums as TFRecord files hold them: rotated by 15 bits, plus a constant."""
    plain = crc32c(data, starts, stops)
    return (plain >> np.uint32(15) | plain << np.uint32(17)) + np.uint32(0xA282EAD8)


@functools.cache
def _tables() -> NDArray[np.uint32]:
    """Per byte value, its remainder when 0 to 7 more bytes follow. Shape (8, 256)."""
    tables = np.empty((8, 256), np.uint32)
    row = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        row = row >> np.uint32(1) ^ (row & np.uint32(1)) * np.uint32(_POLYNOMIAL)
    tables[0] = row
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> np.uint32(8) ^ row[before & np.uint32(255)]
    return tables


@precompile("u1[1] i8[1] i8[1] u4[2] u1[1] u4[1]")
@Compiled
def _checksums(data: Array, starts: Array, stops: Array, tables: Array, sums: Array, out: Array) -> None:
    for part in range(starts.shape[0]):
        at, stop = np.uint64(starts[part]), np.uint64(stops[part])
        crc = np.uint64(0xFFFFFFFF)
        if stop - at >= np.uint64(2) * _BLOCK:
            for place in range(_REACH):
                sums[place] = np.uint8(255) if place < np.uint64(4) else np.uint8(0)  # what `crc` is, as bytes before
            while stop - at >= _BLOCK + _REACH:
                _shorten(data, at, sums)
                at += _BLOCK
            for place in range(_REACH):
                sums[_REACH + place] = data[at + place]
            for distance in (_FIRST, _SECOND, _THIRD, _FOURTH, _REACH):
                for place in range(distance):
                    sums[_REACH + place] ^= sums[_REACH - distance + place]
            crc = _by_tables(sums, _REACH, _REACH + _REACH, tables, np.uint64(0))
            at += _REACH
        out[part] = np.uint32(_by_tables(data, at, stop, tables, crc) ^ np.uint64(0xFFFFFFFF))


@Compiled
def _shorten(data: Array, at: np.uint64, sums: Array) -> None:
    """Add a block of bytes, and what is due from the bytes before it, to the bytes that follow."""
    for place in range(_BLOCK):
        due = sums[place] ^ sums[place + (_REACH - _FOURTH)] ^ sums[place + (_REACH - _THIRD)]
        due ^= sums[place + (_REACH - _SECOND)] ^ sums[place + (_REACH - _FIRST)]
        sums[place + _REACH] = data[at + place] ^ due
    for place in range(_REACH):
        sums[place] = sums[_BLOCK + place]


@Compiled
def _by_tables(data: Array, at: np.uint64, stop: np.uint64, tables: Array, crc: np.uint64) -> np.uint64:
    """The remainder after some more bytes."""
    byte, one, eight = np.uint64(255), np.uint64(1), np.uint64(8)
    while at + eight <= stop:
        word = np.uint64(data[at])
        word |= np.uint64(data[at + one]) << np.uint64(8)
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
        crc ^= np.uint64(tables[0, word >> np.uint64(56)])
        at += eight
    while at < stop:
        crc = np.uint64(tables[0, (crc ^ np.uint64(data[at])) & byte]) ^ crc >> eight
        at += one
    return crc
