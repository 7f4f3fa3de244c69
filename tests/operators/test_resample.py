"""The compiled resampling equals its Python twin, and the axes say what slices of the result would."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.graph.operator import Scratch
from penstock.operators.geometry.resize import resized
from penstock.operators.image.lazy_image import LazyImage, lazy_image
from penstock.operators.image.random_window import RandomWindow
from penstock.operators.image.resample import Axis, resample, taps, whole
from penstock.types import DALIInterpType


@st.composite
def axes(draw, extent=None):
    extent = extent or draw(st.integers(1, 9))
    begin = draw(st.integers(0, extent - 1))
    end = draw(st.integers(begin + 1, extent))
    low, high = draw(st.floats(-2, 11)), draw(st.floats(-2, 11))
    size = draw(st.integers(1, 12))
    start = draw(st.integers(0, size - 1))
    length = draw(st.integers(1, size - start))
    high = low + 1.5 if abs(low - high) < 0.1 else high
    kind = int(draw(st.sampled_from(DALIInterpType)))
    return Axis(begin, end, low, high, size, start, length, draw(st.booleans()), kind, draw(st.booleans()))


@given(axes())
def test_taps_equal_their_twin_and_sum_to_one(axis):
    for mine, theirs in zip(taps(axis), taps.plain(axis), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-6)  # libm and LLVM differ in the last place of sin
    first, counts, weights = taps(axis)
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    assert (first >= axis.begin).all()
    assert (first + counts <= axis.end).all()


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@given(data=st.data())
def test_resample_equals_its_twin(dtype, channels, data):
    rows, columns = data.draw(axes(7)), data.draw(axes(6))
    pixels = np.random.default_rng(3).integers(0, 256, (7, 6 * channels)).astype(dtype)
    mean, factor = np.linspace(0, 9, channels, dtype=np.float32), np.linspace(1, 2, channels, dtype=np.float32)
    results = []
    for function in (resample, resample.plain):
        out = np.empty((rows.length, columns.length, channels), np.float32)
        function(pixels, channels, rows, columns, dtype == "uint8", mean, factor, np.float32(0.5), out)
        results.append(out)
    np.testing.assert_allclose(*results, rtol=1e-5, atol=2.001 if dtype == "uint8" else 1e-3)
    assert (abs(results[0] - results[1]) > 0.1).mean() < 0.02  # a rounding that fell to the other side


IMAGE = np.random.default_rng(1).integers(0, 256, (11, 13, 3), np.uint8)


@given(st.data())
def test_a_lazy_image_equals_the_steps_one_by_one(data):
    lazy, plain = lazy_image(IMAGE), IMAGE
    for step in data.draw(st.lists(st.sampled_from(["cut", "mirror", "turn", "resize"]), max_size=5)):
        if step == "cut":
            spans = {}
            for axis in (0, 1):
                first = data.draw(st.integers(0, plain.shape[axis] - 1))
                spans[axis] = (first, data.draw(st.integers(1, plain.shape[axis] - first)))
            (top, height), (left, width) = spans[0], spans[1]
            lazy, plain = lazy.cut(spans), plain[top : top + height, left : left + width]
        elif step == "mirror":
            lazy, plain = lazy.mirror(horizontal=True), plain[:, ::-1]
        elif step == "turn":
            lazy, plain = lazy.mirror(vertical=True), plain[::-1]
        else:
            sizes = [data.draw(st.integers(1, 15)) for _ in range(2)]
            new = [
                Axis(0, extent, 0.0, float(extent), size, 0, size, False, 1, size < extent)
                for extent, size in zip(plain.shape, sizes, strict=False)
            ]
            lazy, plain = resized(lazy, new, IMAGE.dtype), resized(plain.copy(), new, IMAGE.dtype).finish()
    assert lazy.shape == plain.shape
    assert np.array_equal(lazy.finish(), plain)
    out = np.empty(plain.shape, np.uint8)
    assert lazy.finish(out) is out
    assert np.array_equal(out, plain)


def test_a_finished_image_does_not_share_borrowed_memory():
    scratch = Scratch()
    borrowed = scratch.take(11 * 13 * 3)[: 11 * 13 * 3].reshape(IMAGE.shape)
    borrowed[:] = IMAGE
    result = LazyImage(borrowed, whole(11), whole(13), IMAGE.dtype).cut({0: (2, 5)}).finish()
    scratch.take(10)[:] = 0
    assert np.array_equal(result, IMAGE[2:7])


def test_scratch_memory_does_not_stay_huge():
    scratch = Scratch()
    assert scratch.take(1 << 27).size == 1 << 27
    assert scratch.take(10).size < 1 << 20
    assert scratch.take(10) is scratch.take(5)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32))
def test_windows_lie_in_the_image(height, width, seed):
    words = np.random.default_rng(seed).integers(0, 2**32, 22, np.uint32)
    window = RandomWindow((0.08, 1.0), (0.75, 4 / 3), 10)
    top, left, rows, columns = window(height, width, words)
    assert 0 <= top <= height - rows
    assert 0 <= left <= width - columns
    assert min(rows, columns) >= 1
    assert window(height, width, words) == (top, left, rows, columns)


def test_windows_have_the_area_and_ratio_asked_for():
    rng = np.random.default_rng(2)
    window = RandomWindow((0.2, 0.5), (0.5, 2.0), 10)
    sizes = np.array([window(200, 300, rng.integers(0, 2**32, 22, np.uint32))[2:] for _ in range(3000)])
    area, ratio = sizes.prod(1) / 60000, sizes[:, 1] / sizes[:, 0]
    assert 0.19 < area.min() < 0.21
    assert 0.49 < area.max() < 0.51
    assert abs(area.mean() - 0.35) < 0.01
    assert abs(np.log(ratio).mean()) < 0.08  # tall windows fit less often
    assert ratio.min() >= 0.5
    assert ratio.max() <= 2
