"""What crosses from Python to machine code."""

import ctypes

import numpy as np
import pytest

from penstock.native import machine_code
from penstock.native.machine_code import MachineCode, flatten_arguments, parse_kinds


def test_code_is_packed_and_unpacked():
    code = MachineCode("symbol", ("floorf",), b"\x00\nbinary\n")
    assert MachineCode.unpack(code.pack()) == code


def test_arrays_become_pointers_extents_and_distances():
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::-3]
    kinds, values = flatten_arguments([array])
    assert kinds == ((np.dtype("i2"), 2, "A"),)
    assert values[2:] == [None, None, 4, 2, array.ctypes.data, 2, 2, 24, -6]


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


def test_code_that_calls_what_is_not_there_is_not_loaded():
    code = MachineCode("x", ("no_such_function_anywhere",), b"")
    assert machine_code.load_machine_code(code, ()) is None


def test_the_environment_names_compiler_and_processor(monkeypatch):
    machine_code.environment.cache_clear()
    first = machine_code.environment()
    for name, same in (("NUMBA_CACHE_DIR", True), ("NUMBA_NUM_THREADS", True), ("NUMBA_OPT", False)):
        monkeypatch.setenv(name, "1")
        machine_code.environment.cache_clear()
        assert (machine_code.environment() == first) is same
    monkeypatch.undo()
    machine_code.environment.cache_clear()


def test_code_compiled_ahead_is_for_processors_that_can_run_it(monkeypatch):
    class Without:
        def get_process_triple(self):
            return "x86_64-unknown-linux-gnu"

        def get_host_cpu_features(self):
            return dict.fromkeys(feature[1:] for feature in machine_code.BASELINE[1].split(",")) | {"avx2": False}

    monkeypatch.setattr(machine_code, "_llvm", Without)
    assert machine_code.environment_ahead.__wrapped__() is None


def test_the_header_of_an_array_is_as_long_as_expected():
    array = np.zeros(3)
    assert ctypes.c_ssize_t.from_address(id(array) + object.__basicsize__).value == array.ctypes.data
