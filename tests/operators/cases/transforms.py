"""Uses of the operators that make affine maps."""

import numpy as np

from penstock import fn
from penstock.testing import OperatorCase

RNG = np.random.default_rng(4)
PLANE = RNG.normal(size=(4, 2, 3)).astype(np.float32)
SPACE = RNG.normal(size=(4, 3, 4)).astype(np.float32)
PAIRS = RNG.uniform(0.5, 2, (4, 2)).astype(np.float32)
TRIPLES = RNG.uniform(0.5, 2, (4, 3)).astype(np.float32)
ANGLES = np.float32([0, 30, -200, 75])


def case(build, *inputs):
    return OperatorCase(build, list(inputs), [""] * len(inputs), full_scale=30, ragged=False)


CASES = {
    "transforms.translation": [
        case(lambda: fn.transforms.translation(offset=[1, 2, 3])),
        case(lambda m, t: fn.transforms.translation(m, offset=t), PLANE, PAIRS),
        case(lambda m: fn.transforms.translation(m, offset=[1, 2], reverse_order=True), PLANE),
    ],
    "transforms.scale": [
        case(lambda: fn.transforms.scale(scale=2, ndim=3)),
        case(lambda m, s: fn.transforms.scale(m, scale=s, center=s), PLANE, PAIRS),
        case(lambda m: fn.transforms.scale(m, scale=3, center=[1, 2, 3], reverse_order=True), SPACE),
    ],
    "transforms.rotation": [
        case(lambda: fn.transforms.rotation(angle=30)),
        case(lambda m, a, c: fn.transforms.rotation(m, angle=a, center=c), PLANE, ANGLES, PAIRS),
        case(lambda m, a, x: fn.transforms.rotation(m, angle=a, axis=x, center=[1, 2, 3]), SPACE, ANGLES, TRIPLES),
    ],
    "transforms.shear": [
        case(lambda: fn.transforms.shear(angles=[20, 30])),
        case(lambda m, s: fn.transforms.shear(m, shear=s, center=[3, 4]), PLANE, PAIRS),
        case(lambda m: fn.transforms.shear(m, shear=[1, 2, 3, 4, 5, 6], reverse_order=True), SPACE),
    ],
    "transforms.crop": [
        case(lambda: fn.transforms.crop(from_start=[1, 2], from_end=3)),
        case(lambda m, a: fn.transforms.crop(m, from_start=3, from_end=a, absolute=True), PLANE, PAIRS),
        case(lambda m, a: fn.transforms.crop(m, to_start=a, to_end=5, reverse_order=True), SPACE, TRIPLES),
    ],
    "transforms.combine": [
        case(lambda m: fn.transforms.combine(m, fn.transforms.scale(scale=[1, 2]), m), PLANE),
        case(lambda m: fn.transforms.combine(m, np.float32(SPACE[0]), reverse_order=True), SPACE),
    ],
}
