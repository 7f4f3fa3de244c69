"""Uses of the operators that draw random numbers."""

import numpy as np
from case_data import FLAGS, FLOATS, FROM, HWC, IMAGES, PLACES, RAGGED

from penstock import fn, types
from penstock.testing import OperatorCase

CASES = {
    "random.coin_flip": [
        OperatorCase(lambda: fn.random.coin_flip()),
        OperatorCase(lambda: fn.random.coin_flip(probability=0.2, shape=[3, 2], dtype=types.UINT8)),
        OperatorCase(lambda p: fn.random.coin_flip(probability=p, shape=20), [PLACES]),
        OperatorCase(lambda x: fn.random.coin_flip(x, seed=3), [FLOATS], ragged=False),
        OperatorCase(lambda x: fn.random.coin_flip(x, probability=0.2), [RAGGED]),
    ],
    "random.normal": [
        OperatorCase(lambda: fn.random.normal(), full_scale=6),
        OperatorCase(lambda: fn.random.normal(mean=100, stddev=50, dtype=types.UINT8, shape=[3, 3])),
        OperatorCase(lambda m, s: fn.random.normal(mean=m, stddev=s, shape=7), [PLACES, PLACES], ("", ""), 6),
        OperatorCase(lambda x: fn.random.normal(x, seed=3), [FLOATS], full_scale=6, ragged=False),
        OperatorCase(lambda x, m: fn.random.normal(x, mean=m), [RAGGED, PLACES]),
    ],
    "random.keys": [OperatorCase(lambda: fn.random.keys()), OperatorCase(lambda: fn.random.keys(seed=3))],
    "random.uniform": [
        OperatorCase(lambda: fn.random.uniform()),
        OperatorCase(lambda: fn.random.uniform(range=[1, 2], shape=[3, 4]), full_scale=2),
        OperatorCase(lambda: fn.random.uniform(range=[0, 300], dtype=types.UINT8, shape=100)),
        OperatorCase(lambda: fn.random.uniform(values=[1.5, 2.5, 7], shape=9)),
        OperatorCase(
            lambda lo: fn.random.uniform(range=fn.cast(lo, dtype=types.FLOAT), shape=5),
            [np.array([[0, 1], [5, 6], [-3, 9], [100, 200]], np.int32)],
            full_scale=200,
        ),
        OperatorCase(lambda x: fn.random.uniform(values=x, shape=5), [FLOATS]),
        OperatorCase(lambda x: fn.random.uniform(x), [FLOATS], ragged=False),
        OperatorCase(lambda s: fn.random.uniform(range=[0, 9], shape=s + 1), [FROM], ragged=False),
        OperatorCase(lambda x, p: fn.random.uniform(x, values=p), [RAGGED, FROM.astype(np.float32)]),
    ],
    "random.beta": [
        OperatorCase(lambda: fn.random.beta()),
        OperatorCase(lambda a: fn.random.beta(alpha=a + 0.1, beta=2, shape=[3, 5]), [PLACES]),
        OperatorCase(lambda s: fn.random.beta(alpha=0.2, shape=s + 1), [FROM], ragged=False),
    ],
    "random.choice": [
        OperatorCase(lambda: (fn.random.choice(5, shape=[3, 3]), fn.random.choice([1.5, 2.5, 3.5]))),
        OperatorCase(lambda x: fn.random.choice(x, p=[0.1, 0.2, 0, 0.3, 0.4, 0], shape=7), [IMAGES], HWC, ragged=False),
        OperatorCase(lambda x: fn.random.choice(x, x, seed=3), [RAGGED], HWC),
        OperatorCase(
            lambda n, p: fn.random.choice(n * 0 + 3, p=p, shape=9), [FLAGS, np.float32([[0.2, 0.3, 0.5]] * 4)]
        ),
    ],
}
