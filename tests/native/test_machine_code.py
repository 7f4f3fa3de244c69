"""Compilation, storage and loading of machine code."""

from penstock.native import machine_code
from penstock.native.machine_code import MachineCode


def test_code_is_packed_and_unpacked():
    code = MachineCode("symbol", ("floorf",), b"\x00\nentry\n", b"\x00\nloop\n")
    assert MachineCode.unpack(code.pack()) == code


def test_code_that_calls_what_is_not_there_is_not_loaded():
    code = MachineCode("x", ("no_such_function_anywhere",), b"", b"")
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
