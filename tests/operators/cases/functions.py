"""Uses of the operators that call users' functions."""

from case_data import FILES, FLOATS, HWC, IMAGES, INTEGERS, RAGGED, SMALL

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "jax_function": [
        OperatorCase(lambda x: fn.jax_function(lambda a: a * 2 - 1)(x), [FLOATS]),
        OperatorCase(lambda x: fn.jax_function(lambda a: a[:, ::-1, 1:3])(x), [IMAGES], HWC),
        OperatorCase(
            lambda x, y: fn.jax_function(lambda a, b: (b, a.sum(axis=1)), num_outputs=2)(x, y), [FLOATS, SMALL]
        ),
        OperatorCase(lambda x: fn.cast(fn.jax_function(lambda a: a + 1)(x), dtype=types.FLOAT), [INTEGERS]),
    ],
    "python_function": [
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[::-1] * 2), [IMAGES], HWC),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: (a, a.max()), num_outputs=2), [FLOATS]),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[a > 3], dtype=types.UINT8, ndim=1), [SMALL]),
        OperatorCase(lambda x: fn.python_function(x, function=lambda a: a[:-1]), [FILES]),
        OperatorCase(
            lambda x: fn.python_function(
                x, function=lambda a: (a[::-1], [b[:1] for b in a]), num_outputs=2, batch_processing=True
            ),
            [RAGGED],
            HWC,
            mixes=True,
        ),
    ],
}
