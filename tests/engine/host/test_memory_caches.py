"""Caches in memory: programs of a process share one if it holds the same values, and its limit if that is uncertain."""

import shutil

import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.testing import write_photographs
from tests.support.memory_stores import end_event, ends

COUNT = 12
SAMPLE = 32 * 32 * 3


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("originals") / "photos", samples_per_class=COUNT // 3)


def negative(image):
    return 255 - image


def iterator(read, function=None, memory=10**6, **options):
    @data_iterator
    def training():
        images = read()
        if function is not None:
            images = fn.python_function(images, function=function)
        return {"images": fn.cache(images, memory=memory)}

    return training(batch_size=4, seed=1, **options)


def photographs(folder):
    def read():
        files, _ = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True)
        return fn.resize(fn.decoders.image(files), size=(32, 32))

    return read


def images(batches):
    return np.concatenate([np.asarray(batch["images"]) for batch in batches])


def hits(batches):
    return batches.stats()["cache: hits"].samples


@pytest.mark.parametrize("function", [None, negative])
def test_programs_with_the_same_values_share_a_store(photos, function, stores):
    one = iterator(photographs(photos), function)
    expected = images(one)
    other = iterator(photographs(photos), function)
    assert len(stores()) == 1
    np.testing.assert_array_equal(images(other), expected)
    assert hits(other) >= COUNT
    assert "readers.file" not in other.stats()
    end = end_event(*stores())
    del one, other
    assert ends(end)


def test_other_definitions_and_data_sets_have_their_own_limits(photos, tmp_path, stores):
    copied = shutil.copytree(photos, tmp_path / "photos")
    limit = COUNT * (SAMPLE + 320)
    held = [iterator(photographs(folder), memory=limit) for folder in (photos, copied)]
    held.append(iterator(lambda: fn.flip(photographs(photos)()), memory=limit))
    for batches in held:
        images(batches)
    assert [store.summary()[:10] for store in stores()] == ["12 samples"] * 3


def test_functions_of_one_name_share_only_the_limit(photos, stores):
    def adding(number):
        return lambda image: image + np.uint8(number)

    limit = (COUNT + COUNT // 2) * (SAMPLE + 320)
    held = [iterator(photographs(photos), adding(0), limit)]
    zero = images(held[0])
    held.append(iterator(photographs(photos), adding(1), limit))
    np.testing.assert_array_equal(images(held[1]), zero + np.uint8(1))
    first, second = stores()
    assert first.size == COUNT * (SAMPLE + 320)
    assert first.size + second.size == limit
    # The room of a program that ends is free.
    end = end_event(first)
    del held[0], first
    assert ends(end)
    images(held[0])  # some of its batches were prepared before
    images(held[0])
    assert second.size == COUNT * (SAMPLE + 320)


def test_arrays_share_only_the_limit(stores):
    arrays = np.zeros((COUNT, 32, 32, 3), np.uint8)
    limit = COUNT * (SAMPLE + 320)
    held = [iterator(lambda: fn.readers.arrays(arrays, layout="HWC"), memory=limit)]
    assert not images(held[0]).any()
    arrays[5] += 1  # which nothing notices, as long as the array is not in a file
    held.append(iterator(lambda: fn.readers.arrays(arrays, layout="HWC"), memory=limit))
    assert images(held[1]).any()
    assert len(stores()) == 2


def test_the_largest_limit_holds(photos):
    held = [iterator(photographs(photos), memory=limit) for limit in (1, COUNT * (SAMPLE + 320), 2)]
    images(held[0])  # some of its batches may have been prepared before
    images(held[0])
    assert "has 12 samples" in held[2].explain()


def test_comparisons_that_fail_share_only_the_limit(photos, stores):
    class Strange:
        def __call__(self, image):
            return image

        def __eq__(self, other):
            raise ValueError("ambiguous")

        __hash__ = None

    held = [iterator(photographs(photos), Strange()) for _ in range(2)]
    assert len(stores()) == 2
    assert len({id(store.budget) for store in stores()}) == 1
    np.testing.assert_array_equal(images(held[0]), images(held[1]))
