"""Random windows: inside the image, with the area and ratio asked for, the same for the same bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.image.describe.random_window import RandomWindow, draw_windows


def windows(window, heights, widths, seed=0):
    bits = np.random.default_rng(seed).integers(0, 2**32, (len(heights), window.random_bits), np.uint32)
    return window(np.array(heights), np.array(widths), bits)


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=5), st.integers(0, 2**32))
def test_windows_lie_in_the_image(sizes, seed):
    heights, widths = (np.array(side) for side in zip(*sizes, strict=True))
    top, left, rows, columns = windows(RandomWindow((0.08, 1.0), (0.75, 4 / 3), 10), heights, widths, seed)
    assert (top >= 0).all()
    assert (top <= heights - rows).all()
    assert (left >= 0).all()
    assert (left <= widths - columns).all()
    assert min(rows.min(), columns.min()) >= 1


def test_windows_have_the_area_and_ratio_asked_for():
    _, _, rows, columns = windows(RandomWindow((0.2, 0.5), (0.5, 2.0), 10), [200] * 3000, [300] * 3000)
    area, ratio = rows * columns / 60000, columns / rows
    assert 0.19 < area.min() < 0.21
    assert 0.49 < area.max() < 0.51
    assert abs(area.mean() - 0.35) < 0.015  # large windows fit less often
    assert abs(np.log(ratio).mean()) < 0.08  # tall windows fit less often
    assert ratio.min() >= 0.5
    assert ratio.max() <= 2


@given(st.integers(0, 2**32), st.sampled_from([(0.08, 1.0, 0.75, 1.33), (0.01, 0.02, 3.0, 9.0), (0.9, 1.0, 0.1, 0.2)]))
def test_the_compiled_draw_equals_its_twin(seed, limits):
    rng = np.random.default_rng(seed)
    sizes, bits = rng.integers(1, 400, (4, 2)), rng.integers(0, 2**32, (4, 12), np.uint32)
    compiled, plain = np.empty((4, 4), np.int64), np.empty((4, 4), np.int64)
    draw_windows(sizes, bits, np.array(limits), compiled)
    draw_windows.python_function(sizes, bits, np.array(limits), plain)
    assert np.array_equal(compiled, plain)
