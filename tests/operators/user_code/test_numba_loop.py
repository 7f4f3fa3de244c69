"""The loop over a batch that numba compiles gives what Python gives, sample by sample."""

import functools

import numba
import numpy as np
import pytest

from penstock.operators.user_code import numba_batch_loop
from penstock.operators.user_code.function_identity import FunctionSnapshot
from penstock.operators.user_code.numba_batch_loop import run_as_python, run_loop, setup_as_python, setup_loop

RNG = np.random.default_rng(0)
DTYPES = (np.dtype(np.float32), 2), (np.dtype(bool), 1), (np.dtype(np.int64), 0)
INPUTS = (np.dtype(np.uint8), 2), (np.dtype(np.float64), 1)
SIZES = (4, 6), (1, 6), (3, 2)
FACTOR = 2


def three(out0, out1, out2, in0, in1):
    for i in range(in0.shape[0]):
        for j in range(1, in0.shape[1]):  # column 0 stays as it was
            out0[i, j] = FACTOR * in0[i, j] + in1[0]
    out1[0] = in0[0, 0] > in1[0]
    out2[()] += in0.shape[0]
    return in1.copy()


def three_of_all(outs0, outs1, outs2, ins0, ins1):
    for n in range(len(ins0)):
        three_compiled(outs0[n], outs1[n], outs2[n], ins0[n], ins1[n])
    outs2.reverse()
    outs2[0][()] += len(ins0)


def three_of_any(*arrays):
    three_compiled(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4])


def three_or_more(out0, out1, out2, in0, in1, unused=3):
    three_compiled(out0, out1, out2, in0, in1)


three_compiled = numba.njit(three)


def shapes_of(outs, ins):
    for row in range(len(outs[0])):
        for axis in range(2):
            outs[0][row][axis] = ins[0][row][1 - axis] + len(outs[0])
        outs[1][row][0] = ins[1][row][0]


def columns(*, ragged):
    """Inputs, and outputs full of what was there before."""
    sizes = SIZES if ragged else SIZES[:1] * 3
    ins = [[RNG.integers(0, 9, size, np.uint8) for size in sizes], [RNG.random(size[1]) for size in sizes]]
    outs = [[np.full(size, 7, np.float32) for size in sizes], [np.full(2, True) for _ in sizes], np.full(3, 7)]
    if not ragged:
        ins, outs = [np.stack(column) for column in ins], [np.stack(column) for column in outs]
    return outs, ins


@pytest.mark.slow
@pytest.mark.parametrize("ragged", [False, True], ids=["dense", "ragged"])
@pytest.mark.parametrize(
    ("run", "by_batch"),
    [
        (three, False),
        (three_compiled, False),
        (three_of_any, False),
        (three_or_more, False),
        (three_of_all, True),
    ],
    ids=["function", "compiled", "any arguments", "default", "by batch"],
)
def test_the_loop_equals_python(run, by_batch, ragged):
    outs, ins = columns(ragged=ragged)
    expected = [column.copy() if isinstance(column, np.ndarray) else [a.copy() for a in column] for column in outs]
    run_loop(FunctionSnapshot(run), DTYPES, INPUTS, by_batch=by_batch)(outs, ins)
    run_as_python(run, expected, ins, by_batch=by_batch)
    for mine, theirs in zip(outs, expected, strict=True):
        for sample, like in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(sample, like, strict=True)


@pytest.mark.parametrize("by_batch", [False, True], ids=["samples", "batch"])
def test_the_loop_over_shapes_equals_python(by_batch):
    ins = [np.array(SIZES), np.array(SIZES)[:, 1:].copy()]
    outs, expected = ([np.zeros((3, 2), np.int64), np.zeros((3, 1), np.int64)] for _ in range(2))
    setup_loop(FunctionSnapshot(shapes_of), 2, 2, by_batch=by_batch)(outs, ins)
    setup_as_python(shapes_of, expected, ins, by_batch=by_batch)
    for mine, theirs in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("by_batch", [False, True], ids=["samples", "batch"])
@pytest.mark.parametrize("writes", [False, True], ids=["reads", "writes"])
def test_only_a_function_that_writes_its_inputs_gets_copies(writes, by_batch, monkeypatch):
    def reads(out, given):
        out[0][:] = given[0] + 1

    def changes(out, given):
        given[0][:] += 1
        out[0][:] = given[0]

    def counted_copy(column):
        copied.append(column)
        return copy(column)

    copied, copy = [], numba_batch_loop._copy
    monkeypatch.setattr(numba_batch_loop, "_copy", counted_copy)
    kinds = ((np.dtype(np.float32), 1 if by_batch else 2),)
    loop = run_loop(FunctionSnapshot(changes if writes else reads), kinds, kinds, by_batch=by_batch)
    given = np.full((3, 2) if by_batch else (3, 1, 2), 4, np.float32)
    out = np.zeros_like(given)
    loop([out], [given])
    assert (given == 4).all()
    assert out[0].ravel().tolist() == [5, 5]
    assert len(copied) == writes


def test_what_is_compiled_is_compiled_once():
    def made(number):
        def run(out, given):
            out[0] = number * FACTOR * given[0]

        return FunctionSnapshot(run)

    kinds = ((np.dtype(np.float32), 1),)
    loop = run_loop(made(1), kinds, kinds, by_batch=False)
    assert run_loop(made(1), kinds, kinds, by_batch=False) is loop
    assert run_loop(made(2), kinds, kinds, by_batch=False) is not loop


def test_functions_around_the_same_one_are_not_the_same():
    @functools.wraps(three)
    def other(out0, out1, out2, in0, in1):
        three_compiled(out0, out1, out2, in0, in1)
        out1[1] = True

    outs, ins = columns(ragged=False)
    for run, last in ((functools.wraps(three)(lambda *_: None), False), (other, True)):
        run_loop(FunctionSnapshot(run), DTYPES, INPUTS, by_batch=False)(outs, ins)
        assert outs[1][:, 1].tolist() == [last] * 3


def test_a_global_that_has_changed_is_seen(monkeypatch):
    def run(out, given):
        out[0] = FACTOR * given[0]

    kinds = ((np.dtype(np.float32), 1),)
    for factor in (2, 3):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        out = np.zeros((1, 1), np.float32)
        run_loop(FunctionSnapshot(run), kinds, kinds, by_batch=False)([out], [np.ones_like(out)])
        assert out.item() == factor
