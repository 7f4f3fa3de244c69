"""Tests of fn.cache: cached values equal computed ones, whatever changes between two looks at a sample."""

import gc
import os
import shutil

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from PIL import Image

from penstock import Pipeline, data_iterator, fn, pipeline_def, types
from penstock.errors import DefinitionError, ResourceError, UsageError
from penstock.testing import write_photographs

COUNT = 21


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("originals") / "photos", samples_per_class=COUNT // 3)


@pytest.fixture
def photos(originals, tmp_path):
    return shutil.copytree(originals, tmp_path / "photos")


def store(kind, folder):
    return {"memory": {"memory": "8 MiB"}, "path": {"path": folder.parent / "cache"}, "none": None}[kind]


def iterator(folder, cache, devices=1, batch_size=8, on_error="raise", **options):
    sharding = NamedSharding(jax.make_mesh((devices,), ("batch",)), PartitionSpec("batch"))
    names = ["images", "center", "labels", "size", *(["valid"] if on_error == "skip" else [])]

    @data_iterator(sharding=sharding, output_map=names, on_error=on_error, max_bad_rate=(1.0, 1000))
    def training():
        files, labels = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True, name="files")
        decoded = fn.decoders.image(files)
        images = fn.resize(decoded, resize_shorter=40)
        if cache is not None:
            images = fn.cache(images, **cache)
        crops = fn.random_resized_crop(images, size=(24, 24))
        crops = fn.crop_mirror_normalize(crops, mirror=fn.random.coin_flip(), mean=128.0, std=64.0)
        return crops, fn.crop(images, crop=(20, 20)), labels * 2, fn.shapes(decoded)

    return training(batch_size=batch_size, seed=1, num_threads=3, **options)


def epochs(batches, count=1):
    return [{name: np.asarray(value) for name, value in batch.items()} for _ in range(count) for batch in batches]


def check_same(results, expected):
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert result.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_array_equal(result[name], value, err_msg=name)


def hits_and_fills(batches):
    stats = batches.stats()
    return stats["cache: hits"].samples, stats["cache: fills"].samples if "cache: fills" in stats else 0


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("kind", ["memory", "path"])
def test_batches_are_the_same_with_and_without_a_cache(photos, kind, devices):
    reference = iterator(photos, None)
    expected = epochs(reference, 4)
    cached = iterator(photos, store(kind, photos), devices, read_threads=2)
    assert "read, unless cached" in cached.explain()
    check_same(epochs(cached, 2), expected[:6])
    state, before = cached.get_state(), cached.stats()
    check_same(epochs(cached), expected[6:9])
    later = cached.stats().since(before)
    assert later["cache: hits"].samples > 0
    assert not {"readers.file", "decoders.image + resize", "cache: fills"} & set(later)
    assert f"has {COUNT} samples" in cached.explain()
    # A state belongs to both definitions, and a resumed iterator may have an empty cache, or one of another run.
    cached.close()
    del cached
    gc.collect()
    again = iterator(photos, store(kind, photos), batch_size=8)
    again.set_state(state)
    check_same(epochs(again, 2), expected[6:])
    reference.set_state(state)
    check_same(epochs(reference), expected[6:9])
    assert (hits_and_fills(again)[1] >= COUNT) == (kind == "memory")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "path"])
def test_worker_processes_fill_a_cache(photos, kind):
    expected = epochs(iterator(photos, None), 3)
    with iterator(photos, store(kind, photos), num_processes=2) as cached:
        check_same(epochs(cached, 3), expected)
        assert hits_and_fills(cached)[0] > 0
    # Files are those of this process, too.
    with iterator(photos, store(kind, photos)) as cached:
        check_same(epochs(cached), expected[:3])
        assert (hits_and_fills(cached)[1] == 0) == (kind == "path")


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_bad_samples_are_not_stored(photos, policy):
    paths = sorted(photos.rglob("*.jpg"))
    for path in paths[3:12:4]:
        path.write_bytes(path.read_bytes()[:200])
    reference = iterator(photos, None, on_error=policy)
    expected = epochs(reference, 3)
    for kind in ("memory", "path"):
        cached = iterator(photos, store(kind, photos), on_error=policy)
        check_same(epochs(cached, 3), expected)
        assert f"has {COUNT - 3} samples" in cached.explain()
        assert cached.stats()["bad samples"] == reference.stats()["bad samples"]


@pytest.mark.filterwarnings("ignore:files of the data set have other sizes:penstock.errors.PenstockWarning")
@pytest.mark.parametrize("kind", ["memory", "path"])
def test_a_changed_file_is_computed_again(photos, kind):
    cached = iterator(photos, store(kind, photos))
    epochs(cached, 2)
    first, second = sorted(photos.rglob("*.jpg"))[:2]
    first.write_bytes(second.read_bytes())
    os.utime(second, ns=(10**18, 10**18))
    state = cached.get_state()
    cached.set_state(state)  # leaves out batches that were prepared before the change
    _, fills = hits_and_fills(cached)
    reference = iterator(photos, None)
    reference.set_state(state)
    check_same(epochs(cached, 2), epochs(reference, 2))
    assert hits_and_fills(cached)[1] >= fills + 2

    tolerant = iterator(photos, store(kind, photos), on_error="skip")
    epochs(tolerant, 2)
    first.unlink()
    tolerant.set_state(state)
    assert sum((~batch["valid"]).sum() for batch in epochs(tolerant)) == 1


def test_data_sets_that_differ_only_in_pixels_do_not_share_files(tmp_path):
    cache = store("path", tmp_path / "photos")
    for value in (50, 200):
        folder = tmp_path / str(value) / "class"
        folder.mkdir(parents=True)
        for number in range(4):
            image = Image.fromarray(np.full((50, 60, 3), value + number, np.uint8))
            image.save(folder / f"{number}.bmp")  # all files have the same size
            os.utime(folder / f"{number}.bmp", (0, 0))  # as with SOURCE_DATE_EPOCH
        check_same(epochs(iterator(folder.parent, cache)), epochs(iterator(folder.parent, None)))
    # A copy elsewhere has the same files.
    moved = shutil.copytree(tmp_path / "50", tmp_path / "moved")
    copied = iterator(moved, cache)
    check_same(epochs(copied), epochs(iterator(moved, None)))
    assert hits_and_fills(copied)[1] == 0


def test_iterators_of_a_process_share_a_cache_in_memory(photos):
    expected = epochs(iterator(photos, None), 2)
    first = iterator(photos, {"memory": 10**6})
    second = iterator(photos, {"memory": 60_000}, on_error="skip", batch_size=4)
    epochs(first)
    epochs(second)
    assert "has 21 samples" in second.explain()
    assert hits_and_fills(second)[0] >= COUNT
    check_same(epochs(first), expected[3:])
    # The samples of another folder are others, and have their own limit.
    other = iterator(shutil.copytree(photos, photos.parent / "copy"), {"memory": 10**6})
    epochs(other)
    assert hits_and_fills(other)[1] >= COUNT


def damage(data, index):
    content = bytearray(data.read_bytes())
    content[len(content) // 2 :: 700] = b"\x5a" * len(content[len(content) // 2 :: 700])
    data.write_bytes(content)


def shorten(data, index):
    os.truncate(data, data.stat().st_size * 2 // 3)


def shorten_index(data, index):
    os.truncate(index, 64 * 10 + 5)


def damage_index(data, index):
    content = bytearray(index.read_bytes())
    content[8::64] = bytes(len(content[8::64]))
    content[32 + 640] ^= 1
    index.write_bytes(content)


@pytest.mark.parametrize("how", [damage, shorten, shorten_index, damage_index])
def test_a_damaged_file_is_repaired(photos, how):
    cache = store("path", photos)
    expected = epochs(iterator(photos, None), 4)
    used = iterator(photos, cache)
    check_same(epochs(used, 2), expected[:6])
    how(*(next(cache["path"].glob(pattern)) for pattern in ("*.data", "*.index")))
    check_same(epochs(used), expected[6:9])  # while it is open
    opened = iterator(photos, cache)
    check_same(epochs(opened, 2), expected[:6])
    fills = hits_and_fills(opened)[1] + hits_and_fills(used)[1] - COUNT
    assert fills > 0
    complete = iterator(photos, cache)
    check_same(epochs(complete), expected[:3])
    assert hits_and_fills(complete)[1] == 0


def test_the_limit_is_kept(photos):
    expected = epochs(iterator(photos, None), 3)
    for cache in ({"memory": 60_000}, {"path": photos.parent / "cache", "limit": "60 kB"}):
        cached = iterator(photos, cache)
        check_same(epochs(cached, 3), expected)
        hits, fills = hits_and_fills(cached)
        assert hits > 0 < fills - COUNT
    assert 30_000 < sum(path.stat().st_size for path in cache["path"].iterdir()) <= 60_000
    # Other definitions have separate files in the folder, and count.
    other = iterator(photos, {**cache, "limit": 70_000}, on_error="skip")
    check_same(epochs(other), [{**batch, "valid": np.ones(8, bool)} for batch in expected[:3]])


def test_a_folder_that_cannot_be_used(photos):
    (photos.parent / "cache").write_bytes(b"")
    with pytest.raises(ResourceError, match="the cache cannot be opened"):
        iterator(photos, store("path", photos))


@pytest.mark.parametrize("placement", ["host", "device"])
def test_values_that_are_also_used_before_the_cache(placement):
    images = np.random.default_rng(1).integers(0, 256, (5, 6, 8, 3), np.uint8)

    def define(cached):
        data, labels = fn.readers.arrays((images, np.arange(5, dtype=np.int32)), layout=("HWC", ""), name="arrays")
        small = fn.resize(data, size=(4, 4))
        if labels == 2:
            half, number = fn.cast(small // 2, dtype="uint8"), labels
        else:
            half, number = small, labels + 7
        values = fn.slice(data, 0, 1 + labels, axes=[1]), half, fn.one_hot(labels, num_classes=5)
        ragged, half, hot = fn.cache(*values, memory=10**6) if cached else values
        turned = fn.rotate(half, angle=fn.cast(number, dtype="float32") * 9)
        random = fn.random_resized_crop(turned, size=(3, 3))
        moved = fn.permute_batch(labels, indices=[2, 0, 0])
        return data, ragged, fn.flip(half), hot, number, labels + 1, ragged + 1, random, moved

    make = pipeline_def(define, batch_size=3, seed=2, enable_conditionals=True, placement=placement)
    runs = [make(cached) for cached in (False, True)]
    for _ in range(4):
        expected, outputs = (run.run() for run in runs)
        for output, other in zip(outputs, expected, strict=True):
            for sample, reference in zip(output, other, strict=True):
                np.testing.assert_array_equal(np.asarray(sample), np.asarray(reference))
        np.asarray(outputs[1][0])[...] = 0  # a caller may write to what it receives
    assert runs[1].executor_statistics()["cache: hits"].samples > 0


def function(image):
    return image


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: fn.cache(fn.flip(x, horizontal=fn.random.coin_flip()), memory=1), "draws random numbers"),
        (lambda x: fn.cache(fn.external_source(lambda: [np.ones(2)]), memory=1), "is a stream"),
        (lambda x: fn.cache(fn.permute_batch(x, indices=[1, 0]), memory=1), "from its batch"),
        (lambda x: fn.cache(fn.jax_function(function)(x), memory=1), "cannot use a value of the device"),
        (lambda x: fn.cache(fn.io.file.read(fn.cast(x[0, 0], dtype="uint8")), memory=1), "reads more than its inputs"),
        (lambda x: fn.cache(fn.python_function(x, function=function), path="cache"), "is your code"),
        (lambda x: fn.cache(x, path="cache"), "are not in files"),
        (lambda x: fn.cache(fn.constant(3), memory=1), "one reader"),
        (lambda x: fn.cache(x, fn.readers.arrays(np.ones(2)), memory=1), "the samples of one reader"),
        (lambda x: (fn.cache(x, memory=1), fn.cache(x + 1, memory=1)), "has two caches"),
        (lambda x: fn.cache(fn.cache(x, memory=1), memory=1), "is a cache"),
        (lambda x: fn.cache(x), "memory= or path="),
        (lambda x: fn.cache(x, memory=1, path="cache"), "either memory= or path="),
        (lambda x: fn.cache(x, memory=1, limit=2), "limit is for files"),
        (lambda x: fn.cache(x, path="s3://bucket/cache"), "path must be a local folder"),
        (lambda x: fn.cache(x, memory=0), "memory must be positive"),
        (lambda x: fn.cache(memory=1), "no values"),
    ],
)
def test_what_cannot_be_cached(build, message):
    def definition():
        build(fn.readers.arrays(np.ones((2, 4, 4, 3), np.uint8), layout="HWC"))

    with pytest.raises(DefinitionError, match=rf"cache: .*{message}.*"):
        pipeline_def(definition, batch_size=2)()


def test_sizes_are_numbers_of_bytes():
    with pytest.raises(UsageError, match="memory is not a number of bytes"):
        pipeline_def(lambda: fn.cache(fn.readers.arrays(np.ones(2)), memory="much"), batch_size=2)()


def test_a_branch_before_the_cache_ends_there():
    def definition():
        value = fn.readers.arrays(np.arange(4, dtype=np.float32))
        if value > 1:
            double = value * 2
            moved = double + fn.random.uniform()
        else:
            double, moved = value, value
        return fn.cache(double, memory=1), moved

    with pytest.raises(DefinitionError, match="in a branch of a condition before a cache"):
        pipeline_def(definition, batch_size=2, enable_conditionals=True)().run()


def test_a_branch_has_no_cache():
    def definition():
        value = fn.readers.arrays(np.arange(4))
        if value > 1:
            value = fn.cache(value, memory=1)
        return value

    with pytest.raises(DefinitionError, match="in a branch of a condition"):
        pipeline_def(definition, batch_size=2, enable_conditionals=True)()


def test_a_function_that_writes_its_input_does_not_change_the_cache(tmp_path):
    def raised_first(out0, in0):
        in0.flat[0] += np.uint8(100)  # numba allows this even for read-only arrays
        out0[:] = in0

    for size in (2, 3):
        (tmp_path / f"{size}.bin").write_bytes(bytes([size] * size))
    pipeline = Pipeline(batch_size=2, seed=1)
    with pipeline:
        content, _ = fn.readers.file(files=sorted(map(str, tmp_path.iterdir())))
        kinds = dict(out_types=types.UINT8, in_types=types.UINT8, outs_ndim=1, ins_ndim=1)
        pipeline.set_outputs(fn.numba_function(fn.cache(content, memory="1 MiB"), run_fn=raised_first, **kinds))
    for _ in range(4):
        assert [np.asarray(sample).tolist() for sample in pipeline.run()[0]] == [[102, 2], [103, 3, 3]]
