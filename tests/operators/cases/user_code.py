"""Uses of the operators that call users' functions on the host."""

import numpy as np

from penstock import fn, types
from penstock.testing import OperatorCase

RNG = np.random.default_rng(0)
FLOATS = RNG.normal(size=(4, 7)).astype(np.float32)
FILES = [RNG.integers(0, 256, size, np.uint8) for size in (9, 5, 300, 1)]


def doubles(out0, in0):
    for n in range(len(in0)):
        out0[n] = 2 * in0[n]


def doubles_all(outs, ins):
    for out0, in0 in zip(outs, ins):  # noqa: B905  # numba knows no `strict`
        for n in range(len(in0)):
            out0[n] = 2 * in0[n]


def longer(outs, ins):
    for row in range(len(outs[0])):
        outs[0][row][0] = ins[0][row][0] + 3


def doubled(x, run_fn=doubles, **options):
    return fn.numba_function(
        x, run_fn=run_fn, out_types=types.FLOAT, in_types=types.FLOAT, outs_ndim=1, ins_ndim=1, **options
    )


CASES = {
    "dl_tensor_python_function": [
        OperatorCase(
            lambda x: fn.dl_tensor_python_function(x, function=lambda a: a.__dlpack__(), batch_processing=False),
            [FLOATS],
        ),
        OperatorCase(
            lambda x: fn.dl_tensor_python_function(x, function=lambda a: [np.from_dlpack(b)[1:] for b in a]),
            [FILES],
            mixes=True,
        ),
    ],
    "numba_function": [
        OperatorCase(doubled, [FLOATS]),
        OperatorCase(lambda x: doubled(x, setup_fn=longer), [FLOATS]),
        OperatorCase(lambda x: doubled(x, doubles_all, batch_processing=True), [FLOATS], mixes=True),
    ],
}
