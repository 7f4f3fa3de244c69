"""Image operators keep their contract at any size, at the limits of their arguments, and on any number of devices."""

import jax
import numpy as np
import pytest
from extreme_uses import BYTES, USES, types
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import penstock
from penstock import data_iterator, fn
from penstock.testing import OperatorCase, check_operator

EDGES = np.float32([[-1, 0, 1], [-2, 0.5, 2], [-1, 0, 1]])
TILTED = [0.9, -0.3, 1.5, 0.25, 1.1, -0.75, 0.001, -0.002, 1]
WITHOUT_LIMITS = {
    "clahe": lambda x: fn.clahe(x, tiles_x=8, tiles_y=1, clip_limit=40.0),
    "dilate": lambda x: fn.dilate(x, mask_size=[1, 9], anchor=[0, -1]),
    "erode": lambda x: fn.erode(x, mask_size=5, border_mode="reflect", iterations=2),
    "fast_resize_crop_mirror": lambda x: fn.fast_resize_crop_mirror(x, size=[9, 300], crop=(9, 3), mirror=1),
    "filter": lambda x: fn.filter(x, EDGES, border="wrap", anchor=[2, 0]),
    "jitter": lambda x: fn.jitter(x, nDegree=9),
    "lookup_table": lambda x: fn.lookup_table(x, keys=[0, 255], values=[7, 300], dtype=penstock.types.UINT8),
    "median_blur": lambda x: fn.median_blur(x, window_size=[5, 1]),
    "noise.salt_and_pepper": lambda x: fn.noise.salt_and_pepper(x, prob=1.0),
    "random_resized_crop": lambda x: fn.random_resized_crop(x, size=[3, 50], random_area=[0.01, 1.0]),
    "sphere": lambda x: fn.sphere(x, fill_value=9.0),
    "tensor_resize": lambda x: fn.tensor_resize(x, sizes=[1, 77], axes=[0, 1]),
    "warp_perspective": lambda x: fn.experimental.warp_perspective(x, matrix=TILTED, border_mode="reflect_101"),
}
EXTENTS = st.tuples(st.integers(1, 3000), st.integers(1, 40), st.booleans())


def builds(name):
    """The ways in which an operator is used, as functions of images."""
    if name in WITHOUT_LIMITS:
        return [WITHOUT_LIMITS[name]]
    use = USES[name]

    def build(arguments):
        return lambda x: getattr(fn, name)(x, **types(penstock, use.always | arguments))

    return [build(arguments) for arguments in use.several]


def images(count, extents):
    """Smooth images of any size."""
    high, wide, lying = extents
    height, width = (wide, high) if lying else (high, wide)
    y, x = np.linspace(0, 120, height)[:, None], np.linspace(0, 100, width)[None]
    return np.stack([np.stack([y + x + 7 * n, y + 0 * x, 240 - x - y], axis=-1) for n in range(count)]).astype(BYTES)


NAMES = [*(name for name, use in USES.items() if BYTES in use.dtypes), *WITHOUT_LIMITS]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name in USES and name != "normalize"])
@settings(max_examples=4)
@given(extents=EXTENTS, number=st.integers(0, 100))
def test_any_size(name, extents, number):
    uses = builds(name)
    check_operator(
        OperatorCase(uses[number % len(uses)], [images(4, extents)], ("HWC",), 2e3, rounds=True),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_batches_do_not_depend_on_devices(name):
    samples = images(8, (40, 9, False))

    def made(devices):
        mesh = jax.make_mesh((devices,), ("batch",), devices=jax.devices()[:devices])

        @data_iterator(output_map=["x"], sharding=NamedSharding(mesh, P("batch")))
        def pipeline():
            return builds(name)[0](fn.readers.arrays(samples, layout="HWC"))

        return np.asarray(next(iter(pipeline(batch_size=8, seed=3, placement="device")))["x"])

    np.testing.assert_array_equal(made(1), made(8))
