"""Arguments of compiled loops."""

import ctypes

import numpy as np
import pytest

from penstock.native.argument_block import flatten_arguments, parse_kinds
from penstock.native.compiled import Compiled


def test_arrays_become_pointers_extents_and_distances():
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::-3]
    kinds, values = flatten_arguments([array])
    assert kinds == ((np.dtype("i2"), 2, "A"),)
    assert values == [array.ctypes.data, 4, 2, 2, 24, -6]


def test_kinds_tell_layouts_apart():
    array = np.zeros((3, 4), np.float32)
    memory = np.zeros(9, np.uint8)
    unaligned = memory[1:].view("f4")
    arrays = [array, array[:, :2], array.T, unaligned, np.float32(1), 1, 1.0, True, np.int8(1), np.bool_(True)]
    kinds, _ = flatten_arguments(arrays)
    assert [kind[2] for kind in kinds[:4]] == ["C", "A", "A", "U"]
    assert [kind.name for kind in kinds[4:]] == ["float32", "int64", "float64", "bool", "int8", "bool"]
    assert flatten_arguments([array])[0] == parse_kinds("f4[2]")
    assert flatten_arguments([np.float32(1), 1, True, np.int64(2), 0.5])[0] == parse_kinds("f4 i8 b1 i8 f8")


@pytest.mark.parametrize("argument", ["text", None, 1j, np.float16(1), (1, 2), [1]])
def test_other_arguments_are_refused(argument):
    with pytest.raises(TypeError, match="takes arrays and numbers"):
        flatten_arguments([argument])


def test_large_ints_are_refused():
    assert flatten_arguments([2**63 - 1])[1][-1] == 2**63 - 1
    with pytest.raises(OverflowError, match="64 bits"):
        flatten_arguments([2**63])


@Compiled
def copy_arguments(b1, i1, i2, i4, i8, u1, u2, u4, u8, f4, f8, none, grid, strided, unaligned, out, first, last):
    out[0], out[1], out[2], out[3], out[4] = b1, i1, i2, i4, i8
    out[5], out[6], out[7], out[8], out[9], out[10] = u1, u2, u4, u8, f4, f8
    out[11], out[12], out[13] = none.size, grid[1, 2], grid.shape[0] * 10 + grid.shape[1]
    out[14], out[15], out[16] = strided[1, 1], strided.shape[0] * 10 + strided.shape[1], unaligned[2]
    out[17], out[18], out[19] = first, last, grid.itemsize


@pytest.mark.parametrize("bound", [False, True])
def test_loops_receive_all_kinds_of_arguments(bound):
    numbers = [
        True, np.int8(-3), np.int16(-300), np.int32(-(2**31)), -(2**40), np.uint8(255), np.uint16(65535),
        np.uint32(2**32 - 1), np.uint64(2**52), np.float32(-0.5), 1e300,
    ]  # fmt: skip
    grid = np.arange(12, dtype=np.int16).reshape(3, 4)
    strided = np.arange(24, dtype=np.float32).reshape(4, 6)[::-2, ::3]
    unaligned = np.frombuffer(b"?" + np.arange(4, dtype=np.float64).tobytes(), np.float64, offset=1)
    out = np.zeros(20)
    arguments = [*numbers, np.zeros((0, 3), np.uint8), grid, strided, unaligned, out]
    if bound:
        copy_arguments.bind(*arguments)(-7, 2**40)
    else:
        copy_arguments(*arguments, -7, 2**40)
    expected = [*map(float, numbers), 0, grid[1, 2], 34, strided[1, 1], 22, 2, -7, 2**40, 2]
    assert out.tolist() == expected


def test_the_header_of_an_array_is_as_long_as_expected():
    array = np.zeros(3)
    assert ctypes.c_ssize_t.from_address(id(array) + object.__basicsize__).value == array.ctypes.data
