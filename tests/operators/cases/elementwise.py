"""Uses of the operators that compute each number by itself."""

import numpy as np
from case_data import FLAGS, FLOATS, FROM, HWC, IMAGES, INTEGERS, LABELS, NONZERO, RAGGED, SMALL, TRUTHS

from penstock import fn, math, types
from penstock.operators.elementwise import math_functions
from penstock.testing import OperatorCase

CASES = {
    "cast": [
        OperatorCase(lambda x: fn.cast(x, dtype=types.UINT8), [FLOATS * 300]),
        OperatorCase(lambda x: fn.cast(x, dtype=types.INT8), [INTEGERS * 2]),
        OperatorCase(lambda x: fn.cast(x, dtype=types.FLOAT16), [INTEGERS], full_scale=100),
        OperatorCase(lambda x: fn.cast(x, dtype=types.BOOL), [INTEGERS]),
        OperatorCase(
            lambda x: fn.cast(x, dtype=types.INT32), [np.float32([[3e9, -3e9, np.nan, np.inf, 0.5, -2.5]] * 4)]
        ),
        OperatorCase(lambda x: fn.cast(x, dtype=types.INT64), [INTEGERS]),
    ],
    "constant": [
        OperatorCase(lambda: fn.constant([[1, 2], [3, 4]])),
        OperatorCase(lambda: fn.constant(2.5)),
        OperatorCase(lambda x: (x * fn.constant(3), fn.constant(types.Constant(7, types.UINT8))), [INTEGERS]),
    ],
    "one_hot": [
        OperatorCase(lambda x: fn.one_hot(x, num_classes=10), [LABELS[:, 0]]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=300, dtype=types.UINT8, on_value=7, off_value=1), [SMALL]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5, axis=0), [SMALL]),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5, axis=-1, axis_name="C"), [LABELS], ("N",)),
        OperatorCase(lambda x: fn.one_hot(x, num_classes=5), [FLOATS * 3]),
        OperatorCase(lambda x: fn.one_hot(x), [LABELS[:, 0]]),
    ],
    "cast_like": [OperatorCase(lambda x, y: fn.cast_like(x * 90, y), [FLOATS, SMALL])],
    "full": [
        OperatorCase(lambda x: (fn.full(x, shape=[2, 7]), fn.full(2.5, shape=3, layout="C"), fn.full(x)), [FLOATS]),
        OperatorCase(lambda s: fn.full(7, shape=s), [FROM], ragged=False),
    ],
    "full_like": [
        OperatorCase(lambda x: (fn.full_like(x, 300.5), fn.full_like(x, [1, 2, 3])), [IMAGES], HWC),
        OperatorCase(lambda x, y: fn.full_like(x, y), [RAGGED, LABELS], ("HWC", "")),
    ],
    "ones": [OperatorCase(lambda: (fn.ones(shape=[2, 3]), fn.ones(dtype=types.UINT8)))],
    "ones_like": [OperatorCase(lambda x: (fn.ones_like(x), fn.ones_like(x, dtype=types.FLOAT)), [IMAGES], HWC)],
    "zeros": [
        OperatorCase(lambda: (fn.zeros(shape=[2, 3], layout="HW"), fn.zeros())),
        OperatorCase(lambda s: fn.zeros(shape=s, dtype=types.UINT8), [FROM], ragged=False),
    ],
    "zeros_like": [OperatorCase(lambda x: fn.zeros_like(x), [RAGGED], HWC)],
    "math.clamp": [
        OperatorCase(lambda x: (math.clamp(x, 0, 0.5), math.clamp(x, -1, 1)), [FLOATS]),
        OperatorCase(lambda x, y: math.clamp(x, y, 5), [INTEGERS, SMALL]),
    ],
}
ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "truediv": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "pow": lambda a, b: a**b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
BITWISE = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
}
for name, function in ARITHMETIC.items():
    positive = np.abs(FLOATS) + np.float32(0.5)
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(function, [positive, FLOATS]),
        OperatorCase(function, [INTEGERS, NONZERO if name != "pow" else NONZERO % 9 - 2]),
        OperatorCase(function, [SMALL, positive]),
        OperatorCase(lambda a, function=function: (function(a, 3), function(2.5, a)), [positive]),
        OperatorCase(function, [IMAGES, np.array([[1, 2, 3]] * 4, np.uint8)], ("HWC", "")),
    ]
for name, function in BITWISE.items():
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(function, [SMALL, SMALL[::-1]]),
        OperatorCase(lambda a, function=function: function(a, 2), [INTEGERS]),
    ]
CASES["arithmetic.and"].append(OperatorCase(lambda a, b: a & b, [TRUTHS, TRUTHS[::-1]]))
CASES["arithmetic.neg"] = [OperatorCase(lambda a: -a, [FLOATS]), OperatorCase(lambda a: -a, [SMALL])]
CASES["arithmetic.abs"] = [OperatorCase(abs, [FLOATS]), OperatorCase(abs, [INTEGERS])]
CASES["arithmetic.invert"] = [OperatorCase(lambda a: ~a, [TRUTHS]), OperatorCase(lambda a: ~a, [SMALL])]
for name in ("min", "max"):
    CASES[f"arithmetic.{name}"] = [
        OperatorCase(getattr(math, name), [FLOATS, FLOATS[::-1]]),
        OperatorCase(getattr(math, name), [INTEGERS, SMALL]),
    ]
for name in ("atan2", "fpow"):
    CASES[f"arithmetic.{name}"] = [OperatorCase(getattr(math, name), [SMALL + np.float32(1), FLOATS])]
for name in math_functions.FUNCTIONS:
    inside = np.clip(np.abs(FLOATS), 0.1, 0.9)  # where all but one are defined
    outside = inside + np.float32(1)
    CASES[f"math.{name}"] = [
        OperatorCase(getattr(math, name), [outside if name == "acosh" else inside]),
        OperatorCase(lambda x, name=name: getattr(math, name)(fn.stack(x, 1)), [FLAGS], full_scale=2),
    ]
CASES["arithmetic.lt"].append(
    OperatorCase(lambda a, b: (a < b, a > b, b >= a, a == b, b != a), [INTEGERS, INTEGERS[::-1].astype(np.uint32)])
)
