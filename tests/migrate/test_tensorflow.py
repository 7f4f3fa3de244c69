"""What docs/how-to/migrate/tf-data.md says of TensorFlow, compared with it where it is installed."""

import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
from migration_tables import (
    check_difference,
    correspondences,
    differences,
    ours_on,
    photographs,
    programs,
    unknown_names,
)

from penstock import data_iterator, fn, pipeline_def
from penstock.testing import write_photographs

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (dependency group migration)")

PAGE = "tf-data.md"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return photographs(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("row", correspondences(PAGE), ids=str)
def test_every_name_exists(row):
    assert row.theirs
    for code in row.theirs:
        assert code.startswith(("tf.", "dataset."))
        assert unknown_names(code, {"tf": tf, "dataset": tf.data.Dataset.range(2)}) == []


@pytest.mark.parametrize(("theirs", "ours", "documented"), differences(PAGE))
def test_the_largest_difference_is_as_documented(theirs, ours, documented, pictures):
    results = [np.asarray(eval(theirs, {"tf": tf, "image": pixels}), np.float64).ravel() for pixels in pictures]
    check_difference(
        *map(np.concatenate, (results, [ours_on(pixels, ours).ravel() for pixels in pictures])), documented
    )


def test_the_border_makes_the_difference_with_antialiasing(pictures):
    for pixels in pictures:
        theirs = np.asarray(tf.image.resize(pixels, (48, 60), antialias=True))
        ours = fn.resize(pixels, size=(48, 60), dtype=np.float32)
        assert np.abs(theirs - ours)[2:-2, 2:-2].max() < 0.001


def test_pixels_of_files(tmp_path):
    for path in sorted(write_photographs(tmp_path, samples_per_class=2).rglob("*.jpg")):
        data = tf.io.read_file(str(path))
        default, accurate = (
            np.asarray(tf.io.decode_jpeg(data, channels=3, dct_method=method)) for method in ("", "INTEGER_ACCURATE")
        )
        np.testing.assert_array_equal(accurate, fn.decoders.image(path))
        np.testing.assert_array_equal(default, fn.decoders.image(path, use_fast_idct=True))
        assert 0 < np.abs(default.astype(int) - accurate).max() <= 8


def test_a_shuffle_buffer_is_not_a_shuffle():
    order = np.array(list(tf.data.Dataset.range(1000).shuffle(10, seed=1).as_numpy_iterator()))
    assert (order - np.arange(1000)).max() <= 9

    @data_iterator
    def shuffled():
        return {"x": fn.readers.arrays(np.arange(1000), random_shuffle=True)}

    assert (np.asarray(next(shuffled(batch_size=1000, seed=1))["x"]) - np.arange(1000)).max() > 800


def test_areas_of_random_crops_differ():
    tf.random.set_seed(0)
    options = {"area_range": (0.08, 1.0), "aspect_ratio_range": (0.75, 4 / 3), "min_object_covered": 0.0}
    theirs = []
    for _ in range(1000):
        _, size, _ = tf.image.sample_distorted_bounding_box(
            (375, 500, 3), tf.zeros((1, 0, 4)), use_image_if_no_bounding_boxes=True, **options
        )
        theirs.append(int(size[0]) * int(size[1]) / (375 * 500))

    @pipeline_def(batch_size=4000, num_threads=1, seed=1)
    def windows():
        return fn.random_crop_generator(fn.readers.arrays(np.tile(np.int32([375, 500]), (4000, 1))))

    _, shape = (output.as_array() for output in windows().run())
    assert 0.31 < np.median(theirs) < 0.37
    assert 0.4 < np.median(shape.prod(axis=1) / (375 * 500)) < 0.45


def test_shares_of_mixtures():
    parts = [tf.data.Dataset.range(1000), tf.data.Dataset.range(10_000, 11_000)]
    mixed = tf.data.Dataset.sample_from_datasets(parts, weights=[0.75, 0.25], seed=1).take(400)
    stream = np.array(list(mixed.as_numpy_iterator()))
    assert np.abs(np.cumsum(stream >= 10_000) - 0.25 * np.arange(1, 401)).max() > 2


def test_the_program_prints_what_ours_prints(tmp_path):
    (theirs,) = [code for runs, code in programs(PAGE) if not runs]
    (ours,) = [code for runs, code in programs(PAGE) if runs]
    outputs = []
    for code in (ours, theirs):  # ours writes the photographs
        program = [sys.executable, "-c", code]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=True)
        outputs.append(done.stdout.splitlines())
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) == 6
