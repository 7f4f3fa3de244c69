"""Compiled loops equal their Python twins, and shortcuts equal the plain path, bit by bit."""

import gc
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InternalError
from penstock.native import code_cache, machine_code
from penstock.native.c_function import CFunction
from penstock.native.compiled import Compiled, precompile
from penstock.sources.order.sample_order import SampleOrder

numbers = st.floats(-1e4, 1e4, width=32)


@Compiled
def scale_and_shift(values, mean, factor, shift, out):
    for i in range(values.shape[0]):
        out[i] = (np.float32(values[i]) - mean) * factor + shift


@given(numbers, numbers, numbers, st.integers(0, 50), st.sampled_from(["u1", "i2", "f4", "f2"]))
def test_scale_and_shift_equals_its_twin(mean, factor, shift, count, dtype):
    values = np.random.default_rng(count).integers(0, 100, count).astype(dtype)
    compiled, plain = np.empty(count, np.float32), np.empty(count, np.float32)
    terms = np.float32(mean), np.float32(factor), np.float32(shift)
    if dtype == "f2":
        values = values.astype(np.float32)
    scale_and_shift(values, *terms, compiled)
    scale_and_shift.python_function(values, *terms, plain)
    assert np.array_equal(compiled, plain)


@given(numbers, numbers, st.sampled_from([0.0, 0.5, -3.25]))
def test_scale_and_shift_equals_numpy(mean, factor, shift):
    values = np.arange(240, dtype=np.uint8).reshape(2, 4, 10, 3)
    mean, factor, shift = np.float32([mean, factor, shift])
    flat = np.empty(values.shape, np.float32)
    scale_and_shift(values.reshape(-1), mean, factor, shift, flat.reshape(-1))
    assert np.array_equal(flat, (values.astype(np.float32) - mean) * factor + shift)


@Compiled
def sum_of_range(values, out, first, last):
    out[0] = values.shape[0]
    for i in range(first, min(last, values.shape[0])):
        out[0] += values[i]


@pytest.mark.parametrize("as_python", [False, True])
def test_bound_loop_takes_another_first_array(monkeypatch, as_python):
    monkeypatch.setattr("penstock.native.compiled._AS_PYTHON", as_python)
    total = np.empty(1, np.float32)
    bound = sum_of_range.bind(np.arange(10, dtype=np.float32), total)
    for arrays, expected in (((), 10 + 7 + 8), ((np.float32([1, 2, 3] * 5)[:11],), 11 + 2 + 3), ((), 10 + 7 + 8)):
        bound(7, 9, *arrays)
        assert total[0] == expected


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
@given(start=st.integers(0, 20_000), count=st.integers(1, 300), length=st.integers(3, 9000), epoch=st.integers(0, 4))
def test_spans_equal_positions(shuffle, shards, start, count, length, epoch):
    order = SampleOrder(length, shuffle, 5, shards=shards, shard=shards - 1)
    positions = np.arange(start, start + count)
    assert np.array_equal(order.index_range(epoch, start, count), order.indices(epoch, positions))
    assert np.array_equal(order.index_range_over_epochs(start, count), order.indices_over_epochs(positions))


TWO = 2
OUTER = """
import sys, numpy as np
from penstock.numerics.random_bits import expand_bits
assert expand_bits(np, np.zeros((2, 2), np.uint32), 3)[0].shape == (2, 3)
print("numba" in sys.modules)
"""


@Compiled
def double(x: float) -> float:
    return x * TWO


@Compiled
def doubled(values, count, out):
    for i in range(count):
        out[i] = double(values[i])


TWICE = True


@Compiled
def maybe_double(x: float) -> float:
    if TWICE:
        return double(x)
    return x


@Compiled
def maybe_doubled(values, count, out):
    for i in range(count):
        out[i] = maybe_double(values[i])


def as_if_new(function):
    """The function as another process would have it."""
    return Compiled(function.__wrapped__)


@pytest.fixture
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "penstock"


def process(*, path=None, **environment):
    """Another process that calls a compiled loop, with nothing that would tell where to keep it."""
    names = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    path = path or str(Path(code_cache.__file__).parents[2])
    environment = inherited | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", OUTER], env=environment, text=True, **pipes)


@pytest.mark.slow
def test_numba_is_needed_by_the_first_process_only(tmp_path):
    together = [process(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    said = [one.communicate() for one in together]
    assert ("True\n", "") in said
    assert set(said) <= {("True\n", ""), ("False\n", "")}  # one that begins late finds what the other has kept
    (kept,) = (tmp_path / "penstock").iterdir()
    assert kept.suffix == ".code"
    assert process(NUMBA_CACHE_DIR=str(tmp_path)).communicate() == ("False\n", "")


def test_where_nothing_can_be_kept_loops_are_compiled_in_memory(tmp_path):
    package = tmp_path / "penstock"
    shutil.copytree(
        Path(code_cache.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__", "ahead")
    )
    (package / "native" / "__pycache__").write_text("no folder")  # permissions would not stop root
    done = process(path=str(tmp_path), HOME=os.devnull)
    out, said = done.communicate()
    assert (out, done.returncode) == ("True\n", 0), said
    assert said.count("compiled loops cannot be cached") == 1
    assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="files have no such permissions on Windows")
@pytest.mark.parametrize("open_to", ["everybody", "its owner"])
def test_code_that_others_can_replace_is_compiled_again(tmp_path, open_to):
    if open_to == "its owner" and os.geteuid() != 0:
        pytest.skip("only root changes who owns a file")
    assert process(NUMBA_CACHE_DIR=str(tmp_path)).communicate() == ("True\n", "")
    assert process(NUMBA_CACHE_DIR=str(tmp_path)).communicate() == ("False\n", "")
    if open_to == "everybody":
        (tmp_path / "penstock").chmod(0o777)
    else:
        os.chown(tmp_path / "penstock", 12345, 12345)
    out, said = process(NUMBA_CACHE_DIR=str(tmp_path)).communicate()
    assert out == "True\n"
    assert said.count(f"machine code is neither loaded from {tmp_path / 'penstock'} nor cached there") == 1


def test_what_is_damaged_is_compiled_anew(places):
    values, out = np.arange(4.0), np.empty(4)
    as_if_new(doubled)(values, 4, out)
    (file,) = places.iterdir()
    file.write_bytes(file.read_bytes()[:-5])
    as_if_new(doubled)(values, 3, out)
    assert out.tolist() == [0, 2, 4, 6]
    assert code_cache.read_code(file.stem) is not None


def test_what_is_kept_is_not_compiled(places, monkeypatch):
    as_if_new(doubled)(np.arange(4.0), 4, np.empty(4))
    monkeypatch.setattr(machine_code, "compile_loop", None)
    out = np.empty(4)
    as_if_new(doubled)(np.arange(4.0), 4, out)
    assert out.tolist() == [0, 2, 4, 6]


def test_what_is_compiled_ahead_is_found(places, tmp_path, monkeypatch):
    environment = machine_code.environment_ahead()
    if environment is None:
        pytest.skip("nothing is compiled ahead for this processor")
    monkeypatch.setattr(code_cache, "AHEAD", tmp_path)
    mark = precompile("f8[1] i8 f8[1]")
    for name, data in mark(as_if_new(doubled)).precompiled(environment).items():
        code_cache.write_code_to(tmp_path, name, data)
    monkeypatch.setattr(machine_code, "compile_loop", None)
    out = np.empty(4)
    mark(as_if_new(doubled))(np.arange(4.0), 4, out)
    assert out.tolist() == [0, 2, 4, 6]
    assert not places.exists()


def test_the_key_covers_constants_and_what_is_called(monkeypatch):
    before = as_if_new(doubled).digest
    assert as_if_new(doubled).digest == before
    monkeypatch.setitem(globals(), "double", as_if_new(double))
    assert as_if_new(doubled).digest == before
    monkeypatch.setitem(globals(), "TWO", 3)
    monkeypatch.setitem(globals(), "double", as_if_new(double))
    assert as_if_new(doubled).digest != before


def test_a_variant_has_other_constants_in_all_that_it_calls(places):
    values, out = np.arange(4.0), np.empty(4)
    for twice, expected in ((True, [0, 2, 4, 6]), (False, [0, 1, 2, 3])):
        variant = maybe_doubled.variant(TWICE=twice)
        assert variant is maybe_doubled.variant(TWICE=twice)
        for form in (variant, variant.python_function):
            form(values, 4, out)
            assert out.tolist() == expected
    assert maybe_doubled.variant(TWICE=False).digest != maybe_doubled.digest
    assert maybe_doubled.variant(TWICE=True).digest == maybe_doubled.digest


def test_variants_share_the_loops_that_do_not_depend_on_the_constants():
    assert double.variant(TWICE=False) is double
    assert as_if_new(doubled).variant(TWICE=False)._function.__globals__["double"] is double


def test_what_a_variant_does_not_need_is_not_compiled(places, monkeypatch):
    monkeypatch.setitem(globals(), "double", Compiled(lambda x: "no number"))
    function = as_if_new(maybe_double)
    monkeypatch.setitem(globals(), "maybe_double", function)
    out = np.empty(4)
    as_if_new(maybe_doubled).variant(TWICE=False)(np.arange(4.0), 4, out)
    assert out.tolist() == [0, 1, 2, 3]


@Compiled
def shifted(x: int) -> float:
    return x + 0.5


@Compiled
def counted(out):
    at = 0  # numba knows this number, but not the next one
    for i in range(3):
        out[i] = shifted(at)
        at += i


absolute = CFunction("labs", "i8", "i8")


@Compiled
def distances(values, count, out):
    for i in range(count):
        out[i] = absolute(values[i])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_pauses_while_numba_compiles(places, monkeypatch, enabled):
    during, compile_loop = [], machine_code.compile_loop

    def compiling(*arguments):
        during.append(gc.isenabled())
        return compile_loop(*arguments)

    monkeypatch.setattr(machine_code, "compile_loop", compiling)
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        as_if_new(distances)(np.array([-3]), 1, np.zeros(1, np.int64))
        assert during == [False]
        assert gc.isenabled() == enabled
        with pytest.raises(InternalError, match="returns something"):
            as_if_new(shifted)(1)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_functions_of_the_c_library(places):
    values, out = np.array([-3, 2]), np.zeros(2, np.int64)
    loop = as_if_new(distances)
    loop(values, 2, out)
    assert out.tolist() == [3, 2]
    as_if_new(distances)(values[::-1].copy(), 2, out)  # from the cache
    assert out.tolist() == [2, 3]
    distances.python_function(values, 2, out)
    assert out.tolist() == [3, 2]
    assert absolute.exists
    assert not CFunction("no_such_function", "i8", "i8").exists
    assert CFunction("llabs", "i8", "i8").digest != absolute.digest


def test_a_constant_does_not_make_another_form_of_the_loop_that_takes_it(places, monkeypatch):
    monkeypatch.setitem(globals(), "shifted", as_if_new(shifted))
    out = np.empty(3)
    as_if_new(counted)(out)
    assert out.tolist() == [0.5, 0.5, 1.5]
    assert len(shifted.numba_function.overloads) == 1


def test_a_variant_is_compiled_ahead_with_the_others(places):
    if machine_code.environment_ahead() is None:
        pytest.skip("nothing is compiled ahead for this processor")
    mark = precompile("f8[1] i8 f8[1]", variants=[{"TWICE": True}, {"TWICE": False}])
    codes = [form.precompiled("here") for form in mark(as_if_new(maybe_doubled)).forms]
    assert len(set().union(*codes)) == 2


@given(st.integers(0, 40), st.integers(-3, 3).filter(bool))
def test_arrays_of_any_strides(count, step):
    values = np.arange(200.0)[100::step][:count]
    out = np.zeros((count, 2))
    doubled(values, len(values), out[:, 1])
    assert np.array_equal(out[: len(values), 1], 2 * values)
    assert not out[:, 0].any()


def test_threads_may_be_first_together(places):
    function, results = as_if_new(doubled), [np.empty(3) for _ in range(4)]
    threads = [threading.Thread(target=function, args=(np.arange(3.0), 3, out)) for out in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out.tolist() for out in results] == [[0, 2, 4]] * 4


def test_arguments_go_by_position():
    with pytest.raises(TypeError, match="by position"):
        doubled(np.arange(3.0), count=3, out=np.empty(3))


@Compiled
def allocates(out):
    out[:] = np.zeros(3)


@Compiled
def returns(out):
    return out[0]


@Compiled
def raises(out):
    if out[0] == 0:
        raise ValueError


@Compiled
def reshapes(out):
    out.reshape(3, 1)[0, 0] = 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (allocates, "cannot be compiled"),
        (returns, "returns something"),
        (raises, "raised an exception"),
        (reshapes, "needs numba at run time"),
    ],
)
def test_what_machine_code_cannot_do_is_refused(function, message):
    with pytest.raises(InternalError, match=message):
        function(np.zeros(3))


def test_what_is_no_constant_is_refused():
    variable = 3

    def closure(out):
        out[0] = variable

    with pytest.raises(TypeError, match="outer function"):
        _ = Compiled(closure).digest

    def array(out):
        out[0] = NAMES[0]

    with pytest.raises(TypeError, match="numbers as constants"):
        _ = Compiled(array).digest


NAMES = ["x"]
