"""Image operators keep their contract at any size, at the limits of their arguments, and on any number of devices."""

import inspect

import jax
import numpy as np
import pytest
from cases import CASES
from extreme_uses import BYTES, USES, types
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import penstock
from penstock import data_iterator, fn
from penstock.graph.tracing.registry import lookup, registered
from penstock.testing import OperatorCase, check_operator

EDGES = np.float32([[-1, 0, 1], [-2, 0.5, 2], [-1, 0, 1]])
TILTED = [0.9, -0.3, 1.5, 0.25, 1.1, -0.75, 0.001, -0.002, 1]
BACKWARDS = [-1, 0, 30, 0, -1, 20, 0, 0.01, 1]
LINEAR, CUBIC, LANCZOS = (penstock.types.INTERP_LINEAR, penstock.types.INTERP_CUBIC, penstock.types.INTERP_LANCZOS3)
MAPS = (np.random.default_rng(1).uniform(-9, 50, (2, 4, 9, 50)) // 0.125 / 8).astype(np.float32)
TABLE = {"keys": [0, 7, 255], "values": [-7, 1e9, 300], "default_value": 3.7}


def grey(x):
    """One channel of images, as a Bayer filter leaves it: of even extents."""
    return fn.reinterpret(fn.pad(x[:, :, :1], axis_names="HW", align=2), layout="HWC")


def map_of(number):
    return fn.constant(MAPS[number], dtype=penstock.types.FLOAT)


OTHERS = {
    "clahe": [
        lambda x: fn.clahe(x, tiles_x=8, tiles_y=1, clip_limit=40.0),
        lambda x: fn.clahe(x, tiles_x=1, tiles_y=8, clip_limit=0.0, luma_only=False),
        lambda x: fn.clahe(x, tiles_x=50, tiles_y=50, clip_limit=1e-3, bins=1),
        lambda x: fn.clahe(x, tiles_x=2, tiles_y=3, clip_limit=1e6, bins=1 << 16),
    ],
    "debayer": [
        lambda x: fn.debayer(grey(x), blue_position=[0, 1]),
        lambda x: fn.debayer(grey(x), blue_position=[1, 1], algorithm="default_npp"),
    ],
    "dilate": [
        lambda x: fn.dilate(x, mask_size=[1, 9], anchor=[0, -1]),
        lambda x: fn.dilate(x, mask_size=[201, 1], border_mode="wrap", iterations=3),
        lambda x: fn.dilate(x, mask_size=2, anchor=[1, 0], iterations=100),
    ],
    "erode": [
        lambda x: fn.erode(x, mask_size=5, border_mode="reflect", iterations=2),
        lambda x: fn.erode(x, mask_size=[3, 60], border_mode="reflect_101"),
        lambda x: fn.erode(x, mask_size=[2, 1], border_mode="replicate", anchor=[0, 0], iterations=9),
    ],
    "fast_resize_crop_mirror": [
        lambda x: fn.fast_resize_crop_mirror(x, size=[9, 300], crop=(9, 3), mirror=1),
        lambda x: fn.fast_resize_crop_mirror(x, resize_x=1, resize_y=1, crop=(1, 1), mirror=3),
        lambda x: fn.fast_resize_crop_mirror(
            x, size=[3001, 7], crop=(3001, 7), crop_pos_x=1, crop_pos_y=1, mirror=2, antialias=True
        ),
    ],
    "filter": [
        lambda x: fn.filter(x, EDGES, border="wrap", anchor=[2, 0]),
        lambda x: fn.filter(x, np.float32([[1e4]]), border="reflect_1001"),
        lambda x: fn.filter(x, np.full((41, 2), 0.01, np.float32), border="clamp", dtype=penstock.types.FLOAT),
        lambda x: fn.filter(x, EDGES, np.uint8(255), border="constant"),
    ],
    "jitter": [
        lambda x: fn.jitter(x, nDegree=9),
        lambda x: fn.jitter(x, nDegree=1),
        lambda x: fn.jitter(x, nDegree=10000, fill_value=300.0, mask=1),
    ],
    "lookup_table": [
        lambda x: fn.lookup_table(x, keys=[0, 255], values=[7, 300], dtype=penstock.types.UINT8),
        lambda x: fn.lookup_table(x, **TABLE, dtype=penstock.types.INT32),
        lambda x: fn.lookup_table(x, **TABLE),
    ],
    "median_blur": [
        lambda x: fn.median_blur(x, window_size=[5, 1]),
        lambda x: fn.median_blur(x, window_size=3),
        lambda x: fn.median_blur(x, window_size=[1, 17]),
    ],
    "multi_paste": [
        lambda x: fn.multi_paste(x, fn.flip(x), in_anchors_rel=[[0, 0], [0.5, 1]]),
        lambda x: fn.multi_paste(x, in_anchors_rel=[[0.9, 0.0]], shapes_rel=[[0.1, 1.0]]),
        lambda x: fn.multi_paste(x, x, shapes=[[1, 1], [0, 0]], out_anchors=[[0, 0], [7, 3]], output_size=[7, 3]),
    ],
    "noise.gaussian": [
        lambda x: fn.noise.gaussian(x, stddev=1.0, mean=-0.5),
        lambda x: fn.noise.gaussian(x, stddev=1e4, mean=1e6),
        lambda x: fn.noise.gaussian(x, stddev=0.0),
    ],
    "noise.salt_and_pepper": [
        lambda x: fn.noise.salt_and_pepper(x, prob=1.0),
        lambda x: fn.noise.salt_and_pepper(x, prob=0.0, per_channel=True),
        lambda x: fn.noise.salt_and_pepper(x, prob=0.3, salt_vs_pepper=0.1, salt_val=300, pepper_val=-1),
        lambda x: fn.noise.salt_and_pepper(x, prob=0.7, salt_vs_pepper=1.0, per_channel=True),
    ],
    "noise.shot": [
        lambda x: fn.noise.shot(x, factor=20.0),
        lambda x: fn.noise.shot(x, factor=0.0),
        lambda x: fn.noise.shot(x, factor=1e-3),
        lambda x: fn.noise.shot(x, factor=1e6),
    ],
    "random_resized_crop": [
        lambda x: fn.random_resized_crop(x, size=[3, 50], random_area=[0.01, 1.0]),
        lambda x: fn.random_resized_crop(x, size=[1, 1], random_area=[1.0, 1.0], num_attempts=1),
        lambda x: fn.random_resized_crop(x, size=[60, 2], random_aspect_ratio=[0.01, 100.0], interp_type=LANCZOS),
    ],
    "remap": [
        lambda x: fn.remap(x, map_of(0), map_of(1)),
        lambda x: fn.remap(x, map_of(0) * 100.0, map_of(1), interp=penstock.types.INTERP_NN),
        lambda x: fn.remap(x, map_of(0), map_of(1) - 0.25, interp=CUBIC),
    ],
    "sphere": [
        lambda x: fn.sphere(x, fill_value=9.0),
        lambda x: fn.sphere(x, fill_value=-300.0, interp_type=LINEAR),
    ],
    "tensor_resize": [
        lambda x: fn.tensor_resize(x, sizes=[1, 77], axes=[0, 1]),
        lambda x: fn.tensor_resize(x, sizes=[-30, 0], axis_names="HW", interp_type=CUBIC, antialias=False),
        lambda x: fn.tensor_resize(x, scales=0.001, axes=[0, 1], interp_type=LANCZOS, size_rounding="ceil"),
        lambda x: fn.tensor_resize(x, sizes=60, max_size=70, axes=[-3], roi_start=2.0, roi_end=-1.0, alignment=0),
    ],
    "warp_perspective": [
        lambda x: fn.warp_perspective(x, matrix=TILTED, border_mode="reflect_101"),
        lambda x: fn.warp_perspective(x, matrix=BACKWARDS, size=[1, 1], fill_value=300.0, inverse_map=False),
        lambda x: fn.warp_perspective(x, matrix=BACKWARDS, border_mode="wrap", pixel_origin="center"),
        lambda x: fn.warp_perspective(x, matrix=TILTED, size=[50, 9], border_mode="reflect", interp_type=CUBIC),
    ],
}
"""Uses of the operators whose limits are not compared with DALI's, or that it has on GPUs alone."""

FAR = 2e4
"""Full scale of floats: a place among thousands of pixels is known to a 10000th, and colours change steeply there."""
EXTENTS = st.tuples(st.integers(1, 3000), st.integers(1, 40), st.booleans())


def builds(name):
    """The ways in which an operator is used, as functions of images."""
    use = USES.get(name)
    if use is None:
        return OTHERS[name]

    def build(arguments):
        return lambda x: getattr(fn, name)(x, **types(penstock, use.always | arguments))

    return [build(arguments) for arguments in use.several]


def between(build):
    """Between two others that images are turned by, so that there is something to fuse it with."""
    return lambda x: fn.flip(build(fn.flip(x)), vertical=1)


def images(count, extents):
    """Smooth images of any size."""
    high, wide, lying = extents
    height, width = (wide, high) if lying else (high, wide)
    y, x = np.linspace(0, 120, height)[:, None], np.linspace(0, 100, width)[None]
    return np.stack([np.stack([y + x + 7 * n, y + 0 * x, 240 - x - y], axis=-1) for n in range(count)]).astype(BYTES)


NAMES = [*(name for name, use in USES.items() if BYTES in use.dtypes), *OTHERS]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2)
@given(extents=EXTENTS, number=st.integers(0, 100))
def test_any_size(name, extents, number):
    build = builds(name)[number % len(builds(name))]
    build = between(build) if number // 10 % 2 else build
    mixes = name == "normalize"  # over a batch
    check_operator(OperatorCase(build, [images(4, extents)], ("HWC",), FAR, rounds=True, mixes=mixes))


def on_devices(count, names, build, columns, layouts):
    """What uses of operators give, in one definition, for a batch of 8 that so many devices share."""
    mesh = jax.make_mesh((count,), ("batch",), devices=jax.devices()[:count])

    @data_iterator(size=-1, sharding=NamedSharding(mesh, P("batch")))
    def pipeline():
        made = build(*fn.readers.arrays(tuple(columns), layout=list(layouts)))
        several = [tuple(one) if isinstance(one, tuple | list) else (one,) for one in made]
        return {
            f"{name} {number}": output
            for name, outputs in zip(names, several, strict=True)
            for number, output in enumerate(outputs)
        }

    batch = next(iter(pipeline(batch_size=8, seed=3, placement="device")))
    return {name: np.asarray(values) for name, values in batch.items()}


def check_devices(names, *definition):
    """Compare one device with eight."""
    one, eight = (on_devices(count, names, *definition) for count in (1, 8))
    assert one.keys() == eight.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, eight[name], err_msg=name)


def groups(names, size=12):
    """Operators that share a definition: it starts, and is compiled, once for all of them."""
    return [pytest.param(names[first : first + size], id=names[first]) for first in range(0, len(names), size)]


@pytest.mark.slow
@pytest.mark.parametrize("names", groups(NAMES))
def test_batches_do_not_depend_on_devices(names):
    check_devices(names, lambda x: [builds(name)[0](x) for name in names], [images(8, (40, 9, False))], ["HWC"])


def dense(case):
    return case.inputs and all(isinstance(column, np.ndarray) for column in case.inputs)


# Samples of bbox_rotate and zeros differ in shape, which an iterator does not deliver; dump_image writes files.
NOT_DELIVERED = {"bbox_rotate", "zeros", "dump_image"}
OTHER_OPERATORS = [name for name in CASES if name not in {*NAMES, *NOT_DELIVERED} and any(map(dense, CASES[name]))]


@pytest.mark.slow
@pytest.mark.parametrize("names", groups(OTHER_OPERATORS))
def test_other_operators_do_not_depend_on_devices(names):
    cases = [next(filter(dense, CASES[name])) for name in names]
    columns = [np.concatenate([column[:4]] * 2) for case in cases for column in case.inputs]
    layouts = [layout for case in cases for layout in [*case.layouts, *[""] * len(case.inputs)][: len(case.inputs)]]

    def build(*nodes):
        left = list(nodes)
        return [case.build(*(left.pop(0) for _ in case.inputs)) for case in cases]

    check_devices(names, build, columns, layouts)


def test_every_operator_on_images_is_used_above():
    families = ("color", "cropping", "filters", "noise", "resizing", "warping")
    images = tuple(f"penstock.operators.{family}." for family in families)
    # Other tests of this process may have registered operators of their own.
    homes = {name: inspect.unwrap(lookup(name)).__module__ + "." for name in registered()}
    assert {name for name, home in homes.items() if home.startswith(images)} <= set(NAMES)


@pytest.mark.parametrize("name", ["resize", "random_resized_crop"])
@pytest.mark.parametrize("shape", [(0, 0, 3), (0, 5, 3), (5, 0, 3)], ids=str)
def test_images_without_pixels_are_refused(name, shape):
    images = [np.ones((4, 5, 3), np.uint8), np.ones(shape, np.uint8)]
    with penstock.Pipeline(2) as pipeline:
        pipeline.set_outputs(getattr(fn, name)(fn.external_source(lambda: images, layout="HWC"), size=[2, 3]))
    with pytest.raises(penstock.errors.SampleError, match="has no pixels to resize"):
        pipeline.run()
