"""The image engine: chains of steps in as few passes as possible equal the same steps one by one, bit by bit."""

from functools import partial

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from pipeline_runs import run as run_pipeline

from penstock import Pipeline, fn, types
from penstock.errors import InternalError
from penstock.image.describe.axis_mapping import most_taps, read_range
from penstock.image.describe.pass_builder import PassBuilder
from penstock.image.describe.steps import (
    CastStep,
    CropStep,
    FillStep,
    MirrorStep,
    ResampleAxis,
    ResampleStep,
    ScaleStep,
    TransposeStep,
)
from penstock.image.execute import pass_executor
from penstock.image.execute.pass_executor import PassExecutor
from penstock.image.execute.value_pass import prepare
from penstock.image.kernels.filter_taps import LENGTH, filter_taps
from penstock.image.kernels.resample_rows import scratch
from penstock.image.kernels.strided_images import StridedImages
from penstock.native.compiled import Compiled
from penstock.operators.resizing.resize import Resize
from penstock.types import INTERP_CUBIC, INTERP_LANCZOS3, INTERP_LINEAR, INTERP_TRIANGULAR, DALIInterpType

IMAGES = np.random.default_rng(1).integers(0, 256, (3, 11, 13, 3), np.uint8)
DTYPES = [np.dtype(name) for name in ("uint8", "int8", "int16", "float32", "float16", "int32", "bool")]


def passes(images, layout, steps):
    visit = PassBuilder(
        np.broadcast_to(np.array(images.shape[1:]), (len(images), images.ndim - 1)), layout, images.dtype
    )
    visit.add(steps)
    return visit.passes


def run(images, work):
    for each in work:
        out = np.empty((len(images), *each.shapes[0]), each.dtype)
        executor = PassExecutor(each, prepare(each), StridedImages.of_batch(out))
        executor.bind(StridedImages.of_batch(images), slice(0, len(images)))
        executor.run(slice(0, len(images)))
        images = out
    return images


def one_by_one(images, layout, steps):
    """Each step as a visit of its own, but for what belongs together: what leaves the image, and what fills it in."""
    group = []
    for step in steps:
        group.append(step)
        if (isinstance(step, CropStep) and step.may_exceed) or (
            isinstance(step, ResampleStep) and images.dtype != np.float32
        ):
            continue
        work = passes(images, layout, group)
        images, layout = run(images, work), "".join(axis.letter for axis in work[-1].axes)
        group = []
    return images


@st.composite
def chains(draw):
    """A chain of steps that can follow each other, for `IMAGES`."""
    sizes, letters, dtype, steps = [11, 13, 3], list("HWC"), np.dtype(np.uint8), []
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    for kind in draw(
        st.lists(st.sampled_from(["cut", "pad", "mirror", "resize", "scale", "cast", "turn"]), max_size=6)
    ):
        places = [letters.index("H"), letters.index("W")]
        some = rng.permutation(3)[: rng.integers(1, 4)].tolist()
        if kind == "cut":
            for at in some:
                length = int(rng.integers(1, sizes[at] + 1))
                steps.append(CropStep(at, rng.integers(0, sizes[at] - length + 1, 3), np.full(3, length)))
                sizes[at] = length
        elif kind == "pad":
            for at in some:
                length = int(rng.integers(1, 15))
                steps.append(CropStep(at, rng.integers(-4, 5, 3), np.full(3, length), may_exceed=True))
                sizes[at] = length
            steps.append(FillStep(rng.integers(0, 2, (3, sizes[letters.index("C")])).astype(dtype)))
        elif kind == "mirror":
            steps.append(MirrorStep(int(rng.integers(0, 3)), rng.random(3) < 0.5))
        elif kind == "resize" and dtype.name in ("uint8", "int16", "float32"):
            parts = {}
            for at in places:
                size = int(rng.integers(1, 15))
                low, high = rng.uniform(-1, 3, 3), rng.uniform(4, 9, 3)
                parts[at] = ResampleAxis(low, high, np.full(3, size), rng.choice([int(f) for f in DALIInterpType], 3))
                sizes[at] = size
            steps += [ResampleStep(parts, bool(rng.random() < 0.5)), CastStep(dtype, halves_up=dtype == np.uint8)]
        elif kind == "scale" and dtype.kind in "iuf":
            steps.append(
                ScaleStep(
                    rng.normal(size=(3, sizes[letters.index("C")])).astype(np.float32),
                    rng.normal(size=(1, 1)).astype(np.float32),
                    0.5,
                )
            )
            dtype = np.dtype(np.float32)
        elif kind == "cast":
            dtype = DTYPES[int(rng.integers(0, len(DTYPES)))]
            steps.append(CastStep(dtype))
        elif kind == "turn":
            order = tuple(rng.permutation(3).tolist())
            letters, sizes = [letters[at] for at in order], [sizes[at] for at in order]
            steps.append(TransposeStep(order))
    return steps


@given(chains())
def test_a_chain_equals_its_steps_one_by_one(steps):
    fused = run(IMAGES, passes(IMAGES, "HWC", steps))
    plain = one_by_one(IMAGES, "HWC", steps)
    assert fused.dtype == plain.dtype
    assert np.array_equal(fused, plain, equal_nan=fused.dtype.kind == "f")


@pytest.mark.parametrize(
    "last", [MirrorStep(2, np.array([True, False, True])), CropStep(2, np.array([1, 0, 1]), np.full(3, 2))]
)
@pytest.mark.parametrize("fill", [False, True])
def test_numbers_per_channel_belong_to_the_channels_before_a_step_along_them(fill, last):
    steps = [
        *[CropStep(0, np.full(3, -2), np.full(3, 13), may_exceed=True), FillStep(np.uint8([[1, 2, 3]]))][: 2 * fill],
        ScaleStep(np.float32([[1, 2, 3]]), np.float32([[1, 10, 100]])),
        last,
    ]
    assert np.array_equal(run(IMAGES, passes(IMAGES, "HWC", steps)), one_by_one(IMAGES, "HWC", steps))


def test_channels_of_normalized_images_can_be_sliced():
    def normalized(images):
        return fn.crop_mirror_normalize(images, mean=[1.0, 2.0, 3.0], std=[1.0, 0.1, 0.01], output_layout="HWC")

    with Pipeline(batch_size=3) as plain:
        plain.set_outputs(normalized(fn.readers.arrays(IMAGES, layout="HWC")))
    with Pipeline(batch_size=3) as fused:
        images = fn.readers.arrays(IMAGES, layout="HWC")
        fused.set_outputs(fn.slice(normalized(images), start=[1], end=[3], axes=[2]))
    assert np.array_equal(fused.run()[0].as_array(), plain.run()[0].as_array()[..., 1:])


def test_slices_of_channels_may_differ_in_start_and_number():
    starts, ends = np.array([[1], [0], [2]]), np.array([[3], [3], [3]])
    with Pipeline(batch_size=3) as pipeline:
        images, start, end = fn.readers.arrays((IMAGES, starts, ends), layout=["HWC", "", ""])
        pipeline.set_outputs(fn.slice(fn.cast(images, dtype=types.FLOAT), start=start, end=end, axes=[2]))
    for result, image, (start,), (end,) in zip(pipeline.run()[0], IMAGES, starts, ends, strict=True):
        assert np.array_equal(result, image[..., start:end])


@given(chains())
def test_the_compiled_loops_equal_their_twins(steps):
    work = passes(IMAGES, "HWC", steps)
    compiled = run(IMAGES, work)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(pass_executor, "copy_windows", pass_executor.copy_windows.python_function)
        patch.setattr(Compiled, "bind", lambda loop, *given: partial(loop._call_bound_python, given))
        plain = run(IMAGES, work)
    if compiled.dtype.kind == "f":
        np.testing.assert_allclose(compiled, plain, rtol=1e-2, atol=1e-2 * max(1.0, np.nanmax(abs(plain), initial=0)))
    else:
        assert (abs(compiled.astype(int) - plain.astype(int)) > 1).mean() < 0.02  # libm and LLVM differ in a last place


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("one_fill", [True, False])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("ragged", [False, True])
def test_windows_that_are_moved_as_lines_are_numpys(channels, one_fill, mirrored, ragged):
    fills = [7] if one_fill else [7, 8, 9, 10][:channels]
    rng = np.random.default_rng(channels)
    images = [rng.integers(0, 256, (height, width, channels), np.uint8) for height, width in ((5, 9), (12, 2), (5, 9))]
    images = images if ragged else images[::2]

    def define(x):
        x = fn.slice(x, start=(-1, 1), shape=(8, 6), axes=(0, 1), out_of_bounds_policy="pad", fill_values=fills)
        return fn.flip(x, horizontal=mirrored)

    options = {"num_threads": 1, "exec_async": False, "placement": "host"}
    (outputs,) = run_pipeline(define, images if ragged else np.stack(images), layout="HWC", **options)
    for image, made in zip(images, outputs, strict=True):
        wanted = np.empty((8, 6, channels), np.uint8)
        wanted[:] = fills
        inside = image[:7, 1:7]
        wanted[1 : 1 + inside.shape[0], : inside.shape[1]] = inside
        np.testing.assert_array_equal(made, wanted[:, ::-1] if mirrored else wanted)


@pytest.mark.parametrize("mirrored", [[False, False], [False, True], [True, False], [True, True]])
@pytest.mark.parametrize("wide", [7, 300])  # the second is wider than the memory in which mirrored lines are prepared
@pytest.mark.parametrize("longer", [0, 5, -3])  # a row of the result beside one of the image
@pytest.mark.parametrize("each", [1, 6], ids=["terms of all", "terms of each"])
def test_windows_that_are_normalised_into_planes_equal_their_steps(mirrored, wide, longer, each):
    rng = np.random.default_rng(wide)
    images = rng.integers(0, 256, (6, 9, wide, 3), np.uint8)
    rows, columns = np.array([0, -2, 3, -9, 12, -4]), np.array([0, 3, -4, 2, -5, -wide])
    cuts = [
        CropStep(0, rows, np.full(6, 8), may_exceed=True),
        CropStep(1, columns, np.full(6, wide + longer), may_exceed=True),
        FillStep(rng.integers(0, 256, (each, 3)).astype(np.uint8)),
    ]
    mirrors = [MirrorStep(axis, np.array([turned] * 5 + [False])) for axis, turned in enumerate(mirrored)]
    mean, factor = rng.normal(size=(2, each, 3)).astype(np.float32)
    steps = [*cuts, *mirrors, ScaleStep(mean, factor, 0.5), TransposeStep((2, 0, 1))]
    work = passes(images, "HWC", steps)
    assert len(work) == 1
    np.testing.assert_array_equal(run(images, work), one_by_one(images, "HWC", steps))


FLOATS = st.floats(width=32)


@given(st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=2), FLOATS, st.sampled_from([1, 3]), st.booleans())
def test_bytes_are_scaled_to_floats_as_by_numpy(numbers, shift, channels, cut):
    images = np.stack([np.arange(256, dtype=np.uint8).reshape(16, 16, 1)] * len(numbers)).repeat(channels, axis=3)
    mean, factor = np.float32(numbers).T[:, :, None]
    fill, place, size = np.uint8([[7]]), (-2 if cut else 0), (21 if cut else 16)
    cuts = [CropStep(axis, np.full(len(images), place), np.full(len(images), size), may_exceed=True) for axis in (0, 1)]
    work = passes(images, "HWC", [*cuts, FillStep(fill), ScaleStep(mean, factor, shift)])
    assert len(work) == 1
    windows = np.full((len(images), 21, 21, channels), 7, np.float32)
    windows[:, 2:18, 2:18] = images
    windows = windows if cut else windows[:, 2:18, 2:18]
    with np.errstate(all="ignore"):
        wanted = (windows - mean[:, None, None]) * factor[:, None, None] + np.float32(shift)
    np.testing.assert_array_equal(run(images, work), wanted)


def test_rows_do_not_depend_on_each_other():
    steps = [CropStep(0, np.array([0, 2, 5]), np.array([6, 6, 6])), MirrorStep(1, np.array([True, False, True]))]
    alone = [
        run(IMAGES[n : n + 1], [each.take(slice(n, n + 1)) for each in passes(IMAGES, "HWC", steps)]) for n in range(3)
    ]
    assert np.array_equal(run(IMAGES, passes(IMAGES, "HWC", steps)), np.concatenate(alone))


def test_a_window_a_mirror_and_a_normalisation_are_one_pass():
    rows = np.zeros(3, int)
    crop = [CropStep(0, rows - 2, rows + 9, may_exceed=True), FillStep(np.zeros((1, 1))), MirrorStep(1, rows > 0)]
    colour = [ScaleStep(np.ones((1, 3)), np.ones((1, 3))), CastStep(np.dtype(np.int8)), TransposeStep((2, 0, 1))]
    assert len(passes(IMAGES, "HWC", [*crop, *colour])) == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_what_a_window_left_out_does_not_come_back_in_a_larger_one(axis):
    rows = np.zeros(3, int)
    steps = [
        CropStep(axis, rows + 3, rows + 4),
        CropStep(axis, rows - 2, rows + 9, may_exceed=True),
        FillStep(np.zeros((1, 1), np.uint8)),
    ]
    assert np.array_equal(run(IMAGES, passes(IMAGES, "HWC", steps)), one_by_one(IMAGES, "HWC", steps))


def test_padding_without_a_fill_in_its_pass_is_refused():
    rows = np.zeros(3, int)
    padded = [CropStep(0, rows - 2, rows + 9, may_exceed=True), CastStep(np.dtype(np.int32))]
    with pytest.raises(InternalError, match="between a padded window and its fill"):
        passes(IMAGES, "HWC", [*padded, FillStep(np.zeros((1, 1), np.int32))])


@given(st.data())
def test_taps_sum_to_one_and_lie_in_the_image(data):
    extent, size = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 12))
    low, kind = data.draw(st.floats(-2, 11)), int(data.draw(st.sampled_from(list(DALIInterpType))))
    part = ResampleAxis(
        np.array([low]), np.array([low + data.draw(st.floats(0.5, 9))]), np.array([size]), np.array([kind])
    )
    images = np.zeros((1, extent, 1, 1), np.uint8)
    (work,) = passes(images, "HWC", [ResampleStep({0: part}, data.draw(st.booleans()))])
    numbers = work.axes[0].numbers.matrix()
    most = most_taps(work.axes[0].numbers)
    first, counts, weights = np.empty(size, np.int64), np.empty(size, np.int64), np.empty((size, most), np.float32)
    filter_taps(numbers[0], first, counts, weights)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    assert (first >= 0).all()
    assert (first + counts <= extent).all()
    assert counts.max() <= most
    assert scratch(numbers, numbers, most, 1)[2].size == 4 * int(numbers[0, LENGTH])


@pytest.mark.parametrize("kind", list(DALIInterpType))
@pytest.mark.parametrize(
    ("extent", "size", "begins"), [(30000, 29737, 0.0), (500, 224, 31.5), (60, 224, 7.25), (375, 31, -0.5)]
)
@pytest.mark.parametrize("antialias", [False, True])
def test_taps_lie_in_the_footprint(kind, extent, size, begins, antialias):
    ends = extent - begins  # the largest extent is one at which centres in float32 drift
    for low, high in ((begins, ends), (ends, begins)):
        part = ResampleAxis(np.array([low]), np.array([high]), np.array([size]), np.array([int(kind)]))
        (work,) = passes(np.zeros((1, extent, 1, 1), np.uint8), "HWC", [ResampleStep({0: part}, antialias=antialias)])
        for start, length in ((0, 1), (0, size), (size - 20, 15), (size - 1, 1)):
            wanted = work.axes[0].numbers._replace(start=np.array([start]), length=np.array([length]))
            first, counts = np.empty(length, np.int64), np.empty(length, np.int64)
            filter_taps(wanted.matrix()[0], first, counts, np.empty((length, most_taps(wanted)), np.float32))
            (begin,), (end,) = read_range(wanted)
            assert begin <= first.min()
            assert (first + counts).max() <= end
            if kind in (INTERP_LINEAR, INTERP_CUBIC, INTERP_TRIANGULAR, INTERP_LANCZOS3):  # no more is decoded
                assert first.min() - begin <= 1
                assert end - (first + counts).max() <= 1


def test_what_is_the_same_for_every_batch_is_described_once(monkeypatch):
    described = []
    original = Resize.describe
    monkeypatch.setattr(Resize, "describe", lambda self, *a, **k: described.append(1) or original(self, *a, **k))
    data = np.arange(6 * 4 * 4 * 3, dtype=np.uint8).reshape(6, 4, 4, 3)
    with Pipeline(2, seed=1, exec_async=False) as pipeline:
        images = fn.readers.arrays(data)
        pipeline.set_outputs(fn.resize(images, size=[3, 5]), fn.resize(images, size=fn.random.uniform(range=[2, 6])))
    first = [pipeline.run()[0].as_array() for _ in range(3)]
    assert len(described) == 1 + 3
    assert len({batch.tobytes() for batch in first}) == 3


def test_files_of_the_same_sizes_are_described_once(monkeypatch):
    described = []
    original = Resize.describe
    monkeypatch.setattr(Resize, "describe", lambda self, *a, **k: described.append(1) or original(self, *a, **k))
    images = [np.full((height, 8, 3), 20 * number, np.uint8) for number, height in enumerate([4, 6, 4, 6, 6, 4])]
    files = [np.frombuffer(simplejpeg.encode_jpeg(image), np.uint8) for image in images]
    files = np.stack([np.pad(file, (0, 2000 - len(file))) for file in files])
    with Pipeline(2, seed=1, exec_async=False) as pipeline:
        decoded = fn.decoders.image(fn.readers.arrays(files))
        pipeline.set_outputs(fn.resize(decoded, size=[3, 5]))
    results = [image for _ in range(3) for image in pipeline.run()[0].as_array()]
    assert len(described) == 1 + 1  # the third batch has other sizes
    for image, result in zip(images, results, strict=True):
        assert abs(result.astype(int) - int(image[0, 0, 0])).max() <= 2


@pytest.mark.parametrize("cache", [1, 200, 1 << 18])
def test_images_of_any_sizes_are_the_same_in_any_groups(cache, monkeypatch):
    monkeypatch.setattr("penstock.image.execute.row_executor.CACHE", cache)
    draw = np.random.default_rng(0)
    shapes = [(5, 7, 3), (1, 9, 3), (8, 2, 1), (6, 6, 3), (12, 11, 1)]
    images = [draw.integers(0, 256, shape, np.uint8) for shape in shapes]
    images[1] = images[1][:, ::-1]  # not in one piece
    flipped, resized = run_pipeline(
        lambda data: (fn.flip(data), fn.resize(fn.flip(data), resize_y=4)), images, layout="HWC", num_threads=1
    )
    for number, image in enumerate(images):
        assert np.array_equal(flipped[number], image[:, ::-1])
        (alone,) = run_pipeline(
            lambda data: fn.resize(fn.flip(data), resize_y=4), np.ascontiguousarray(image)[None], layout="HWC"
        )
        assert np.array_equal(resized[number], alone[0])


@pytest.mark.parametrize("layout", ["HWC", ""])
@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("work", ["resize", "normalize"])
def test_axes_with_other_letters_have_other_roles(work, perm, layout):
    """A transposition that keeps the layout: height, width and channels are other axes after it."""

    def after(x, extents):
        if work == "resize":
            return fn.resize(x, size=[20, 17], dtype=types.FLOAT)
        return fn.crop_mirror_normalize(x, crop=(3, 2), mean=list(range(extents[perm[2]])), output_layout="HWC")

    def define(x):
        turned = fn.transpose(x, perm=perm, transpose_layout=False)
        return after(turned, IMAGES.shape[1:])

    (fused,) = run_pipeline(define, IMAGES, layout=layout)
    alone = IMAGES.transpose(0, *(1 + axis for axis in perm)).copy()
    (expected,) = run_pipeline(lambda x: after(x, IMAGES.shape[1:]), alone, layout=layout)
    np.testing.assert_array_equal(fused, expected)
