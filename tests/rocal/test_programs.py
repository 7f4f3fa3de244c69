"""rocAL's programs: what its pipelines and iterators give here, and where that differs from rocAL on purpose."""

import logging
import shutil
import threading

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from PIL import Image

from penstock.errors import ArgumentTypeError, ContextError, DefinitionError, SourceError, UsageError
from penstock.rocal import fn, types
from penstock.rocal.pipeline import Pipeline, pipeline_def
from penstock.rocal.plugin.jax import ROCALJaxIterator, ROCALPeekableIterator, convert_to_jax_array, get_spec_for_array
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.formats.caffe.caffe_source import write_caffe

COUNT = 66


def sharding(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), P("batch"))


def filled(folder, batch_size=2, shard=0, shards=1, seed=42, device_id=None, define=lambda images: images, **reader):
    pipeline = Pipeline(
        batch_size=batch_size, num_threads=1, device_id=shard if device_id is None else device_id, seed=seed + shard
    )
    with pipeline:
        images = fn.readers.cifar10(file_root=folder, shard_id=shard, num_shards=shards, **reader)
        pipeline.set_outputs(define(images))
    pipeline.build()
    return pipeline


def test_pipelines_may_be_defined_in_several_threads(tmp_path):
    for number in range(2):
        records = [bytes([number * 5 + label]) + bytes(3072) for label in range(4)]
        (tmp_path / f"{number}_batch.bin").write_bytes(b"".join(records))
    meeting, labels = threading.Barrier(2, timeout=60), {}

    def define(number):
        pipeline = Pipeline(batch_size=4)
        with pipeline:
            meeting.wait()
            images = fn.readers.cifar10(file_root=tmp_path, filename_prefix=f"{number}_batch")
            meeting.wait()
            pipeline.set_outputs(images)
        pipeline.run()
        labels[number] = pipeline.get_image_labels().tolist()

    threads = [threading.Thread(target=define, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert labels == {0: [0, 1, 2, 3], 1: [5, 6, 7, 8]}


def group(folder, count, **options):
    return [filled(folder, shard=k, shards=count, **options) for k in range(count)]


def numbers(images):
    """Which records they are."""
    return np.asarray(images).reshape(-1, 3, 32, 32)[:, 0, 0, 0].tolist()


def test_pipelines_whose_seeds_differ_visit_every_sample_once(cifar, caplog):
    with caplog.at_level(logging.INFO):
        iterator = ROCALJaxIterator(group(cifar, 3, random_shuffle=True), sharding(3))
    assert "the first one's, 42, orders all" in caplog.text
    assert len(iterator) == 11
    orders = []
    for _ in range(3):
        batches = [numbers(images) for images, _ in iterator]
        orders.append(sum(batches, []))
        assert sorted(orders[-1]) == list(range(COUNT))
        iterator.reset()
    assert len(set(map(tuple, orders))) == 3
    alone = ROCALJaxIterator(filled(cifar, batch_size=6, random_shuffle=True))
    assert sum([numbers(images) for images, _ in alone], []) == orders[0]  # what pipeline 0's seed gives
    other = ROCALJaxIterator(group(cifar, 3, random_shuffle=True, seed=43), sharding(3))
    assert sum([numbers(images) for images, _ in other], []) != orders[0]


def test_a_step_is_a_list_with_the_labels_last(cifar):
    def define(images):
        return fn.crop_mirror_normalize(images, output_dtype=types.FLOAT, output_layout=types.NCHW, std=255.0)

    iterator = ROCALJaxIterator(group(cifar, 3, define=define), sharding(3))
    step = next(iterator)
    assert isinstance(step, list)
    images, labels = step
    assert (images.shape, images.dtype, images.sharding) == ((6, 3, 32, 32), "float32", sharding(3))
    assert (labels.shape, labels.dtype, labels.sharding) == ((6,), "int32", sharding(3))
    assert labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.asarray(images[3, 1, 0, 0] * 255).round() == 6


def test_without_a_sharding_a_list_has_the_layout_of_pmap(cifar):
    images, labels = next(ROCALJaxIterator(group(cifar, 3)))
    assert (images.shape, labels.tolist()) == ((3, 2, 3, 32, 32), [[0, 1], [2, 3], [4, 5]])
    assert [shard.device for shard in images.addressable_shards] == jax.devices()[:3]
    images, labels = next(ROCALJaxIterator([filled(cifar, shard=k, shards=2, device_id=0) for k in range(2)]))
    assert (images.shape, len(images.devices())) == ((2, 2, 3, 32, 32), 1)
    images, labels = next(ROCALJaxIterator(filled(cifar, device_id=3)))
    assert (images.shape, labels.shape, images.devices()) == ((2, 3, 32, 32), (2,), {jax.devices()[3]})


def test_the_users_own_specification_counts(cifar):
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("batch", "model"))
    image_sharding = NamedSharding(mesh, P("batch"))
    images, labels = next(ROCALJaxIterator(group(cifar, 2), image_sharding))
    assert images.sharding == labels.sharding == image_sharding
    images, _ = next(ROCALJaxIterator(tuple(group(cifar, 4)), NamedSharding(mesh, P(("model", "batch")))))
    assert images.shape == (8, 3, 32, 32)
    with pytest.raises(UsageError, match="3 pipelines"):
        ROCALJaxIterator(group(cifar, 3), image_sharding)
    with pytest.raises(UsageError, match="NamedSharding"):
        ROCALJaxIterator(group(cifar, 2), "batch")


def test_epochs_begin_with_reset_also_in_the_middle(cifar):
    iterator = ROCALJaxIterator(filled(cifar, batch_size=8, last_batch_policy=types.LAST_BATCH_DROP))
    assert len(iterator) == COUNT // 8
    next(iterator)
    iterator.reset()
    assert numbers(next(iterator)[0]) == list(range(8))
    assert iterator.get_state()["epoch"] == 1
    assert len(list(iterator)) == COUNT // 8 - 1
    with pytest.raises(StopIteration):
        iterator.next()
    iterator.reset()
    iterator.reset()  # nothing has been taken
    assert iterator.get_state()["epoch"] == 2
    assert [len(list(iterator)) for _ in range(2)] == [COUNT // 8] * 2  # a loop begins the next epoch by itself


@pytest.mark.parametrize(
    ("reader", "count", "last"),
    [
        ({}, 9, [64, 65, 65, 65, 65, 65, 65, 65]),
        ({"pad_last_batch": False}, 9, [64, 65, 0, 1, 2, 3, 4, 5]),
        ({"last_batch_policy": types.LAST_BATCH_DROP}, 8, list(range(56, 64))),
        ({"last_batch_policy": types.LAST_BATCH_DROP, "pad_last_batch": False}, 8, list(range(56, 64))),
        ({"last_batch_policy": types.LAST_BATCH_PARTIAL}, 9, [64, 65]),
    ],
)
def test_the_last_batch(cifar, reader, count, last):
    batches = [numbers(images) for images, _ in ROCALJaxIterator(filled(cifar, batch_size=8, **reader))]
    assert (len(batches), batches[-1]) == (count, last)


def test_pipelines_must_agree_on_the_last_batch(cifar):
    two = [
        filled(cifar, shard=0, shards=2),
        filled(cifar, shard=1, shards=2, last_batch_policy=types.LAST_BATCH_DROP),
    ]
    with pytest.raises(UsageError, match="last batch differently"):
        ROCALJaxIterator(two, sharding(2))
    with pytest.raises(UsageError, match="one pipeline or a list"):
        ROCALJaxIterator([])


def test_seeds_decide_and_can_be_repeated(cifar):
    def order(seed):
        iterator = ROCALJaxIterator(filled(cifar, batch_size=COUNT, random_shuffle=True, seed=seed))
        return numbers(next(iterator)[0])

    assert order(1) == order(1) != order(2)
    assert order(1)[-1] != COUNT - 1 or order(2)[-1] != COUNT - 1  # the last record is shuffled, too
    assert order(-1) == order(0)  # that of shards in other programs


def test_files_are_read_in_the_order_of_their_names_from_sub_folders_too(cifar, tmp_path):
    inner = tmp_path / "root" / "cifar-10-batches-bin"
    inner.mkdir(parents=True)
    for name in ("data_batch_2.bin", "data_batch_1.bin", "batches.meta.txt"):
        shutil.copy(cifar / name, inner)
    images, _ = next(ROCALJaxIterator(filled(tmp_path / "root", batch_size=COUNT)))
    assert numbers(images) == list(range(COUNT))


def test_a_file_of_broken_records_is_refused(tmp_path):
    (tmp_path / "data_batch_3.bin").write_bytes(bytes(3074))
    with pytest.raises(SourceError, match=r"data_batch_3.bin(.|\n)*3074 bytes"):
        filled(tmp_path)


def test_one_hot_labels_have_no_axis_of_their_own(cifar):
    def define(images):
        assert fn.one_hot([], num_classes=10) == []
        return images

    _, labels = next(ROCALJaxIterator(group(cifar, 2, define=define), sharding(2)))
    assert (labels.shape, labels.dtype) == ((4, 10), "int32")
    assert labels.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_defaults_keep_what_comes_in(cifar):
    def outputs(define):
        return next(ROCALJaxIterator(filled(cifar, define=define)))[0]

    plain = outputs(lambda images: fn.crop_mirror_normalize(images))
    assert (plain.shape, plain.dtype) == ((2, 3, 32, 32), "float32")
    assert plain[0, 2, 0, :4].tolist() == [0, 1, 2, 3]  # not mirrored
    mirrored = outputs(lambda images: fn.crop_mirror_normalize(images, mirror=1, crop=[0, 0]))
    assert mirrored[0, 2, 0, -4:].tolist() == [3, 2, 1, 0]
    cropped = outputs(lambda images: fn.crop_mirror_normalize(images, crop_h=8, crop_w=4, output_layout=types.NHWC))
    assert cropped.shape == (2, 8, 4, 3)
    assert outputs(lambda images: fn.flip(images))[0, 2, 0, 0] == 0
    flipped = outputs(lambda images: fn.flip(images, horizontal=1, output_layout=types.NHWC, output_dtype=types.FLOAT))
    assert (flipped.shape, flipped.dtype, float(flipped[0, 0, 0, 2])) == ((2, 32, 32, 3), "float32", 31)
    assert outputs(lambda images: fn.center_crop(images, crop=[1, 4, 4])).shape == (2, 3, 4, 4)
    assert outputs(lambda images: fn.copy(fn.nop(images), device="gpu")).dtype == "uint8"


def test_arithmetic_and_numbers(cifar):
    def outputs(define):
        return np.asarray(next(ROCALJaxIterator(filled(cifar, define=define)))[0])

    def floats(images):
        return fn.crop_mirror_normalize(images, crop=(1, 1), crop_pos_x=0, crop_pos_y=0, output_dtype=types.FLOAT)

    doubled = outputs(lambda images: fn.tensor_mul_scalar_float(floats(images), scalar=2.0))
    summed = outputs(lambda images: fn.tensor_add_tensor_float(floats(images), floats(images)))
    assert np.array_equal(doubled, summed)
    assert doubled[1, :, 0, 0].tolist() == [2, 4, 0]
    assert np.array_equal(outputs(lambda images: fn.tensor_mul_scalar_float(images)), outputs(lambda images: images))
    with pytest.raises(DefinitionError, match="needs anchor"):
        filled(cifar, define=lambda images: fn.slice(images, shape=[5, 4]))
    means = outputs(lambda images: fn.normalize(floats(images), axes=[], stddev=0.0))
    assert np.abs(means.mean(axis=(1, 2, 3))).max() < 1e-6
    for axis in (0, 1):
        means = outputs(lambda images, axis=axis: fn.normalize(images, axes=[axis], seed=-1, bytes_per_sample_hint=[0]))
        assert np.abs(means.mean(axis=1 + axis)).max() < 1e-5
    for define in (fn.normalize, fn.tensor_mul_scalar_float, lambda images, **form: fn.copy(images, **form)):
        made = outputs(lambda images, define=define: define(images, rocal_tensor_output_type=types.FLOAT16))
        assert made.dtype == np.float16
    added = outputs(lambda images: fn.tensor_add_tensor_float(images, images, rocal_tensor_output_type=types.FLOAT))
    assert added.dtype == np.float32
    part = outputs(lambda images: fn.slice(images, anchor=[1, 2], shape=[5, 4]))
    assert part.shape == (2, 3, 4, 5)
    assert outputs(lambda images: fn.transpose(images, perm=[1, 2, 0])).shape == (2, 32, 32, 3)
    draws = outputs(lambda images: fn.uniform(range=[2.0, 3.0]))
    assert draws.min() >= 2
    assert outputs(lambda images: fn.random.normal(mean=5.0, stddev=0.0)).tolist() == [5, 5]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Twelve JPEGs of different sizes in three class folders."""
    rng = np.random.default_rng(1)
    root = tmp_path_factory.mktemp("photographs")
    for number in range(12):
        folder = root / "abc"[number // 4]
        folder.mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (40 + 3 * number, 60 - 2 * number, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg")
    return root


def classification(root, shard=0, shards=1, decode="image_slice", **reader):
    @pipeline_def(seed=3 + shard, num_threads=2, rocal_cpu=True)
    def definition():
        jpegs, labels = fn.readers.file(file_root=root)
        assert labels == []
        images = getattr(fn.decoders, decode)(
            jpegs,
            file_root=root,
            output_type=types.RGB,
            max_decoded_width=1000,
            decode_size_policy=types.USER_GIVEN_SIZE_ORIG,
            shard_id=shard,
            num_shards=shards,
            **reader,
        )
        images = fn.resize(images, resize_width=32, resize_height=24, scaling_mode=types.SCALING_MODE_DEFAULT)
        return fn.crop_mirror_normalize(
            images,
            crop=(24, 32),
            mirror=fn.random.coin_flip(probability=0.5),
            output_dtype=types.FLOAT16,
            output_layout=types.NHWC,
            mean=[120.0, 110.0, 100.0],
            std=[50.0, 50.0, 50.0],
        )

    return definition


@pytest.mark.parametrize("decode", ["image", "image_slice", "image_random_crop"])
def test_the_classification_sample(photographs, decode):
    made = [classification(photographs, k, 4, decode, random_shuffle=True)(batch_size=1, device_id=k) for k in range(4)]
    iterator = ROCALJaxIterator(made, sharding(4))
    seen = []
    for images, labels in iterator:
        assert (images.shape, images.dtype, len(images.devices())) == ((4, 24, 32, 3), "float16", 4)
        seen += labels.tolist()
    assert sorted(seen) == sorted([0, 1, 2] * 4)


def test_a_resize_may_mirror_and_normalise(photographs):
    @pipeline_def(batch_size=2)
    def definition():
        jpegs, _ = fn.readers.file(file_root=photographs, file_filters=["*.jpg"], file_list="", pad_last_batch=True)
        images = fn.decoders.image(jpegs)
        one = fn.resize_mirror_normalize(
            images, resize_shorter=20, resize_longer=0, mean=[10.0], std=[2.0], output_layout=types.NCHW, max_size=[]
        )
        one = fn.crop(one, crop=[20, 20], crop_d=1)
        two = fn.resize_crop_mirror(images, resize_width=30, resize_height=30, crop_w=16, crop_h=16, mirror=0)
        three = fn.resize(
            images,
            resize_width=20,
            resize_height=10,
            scaling_mode=types.SCALING_MODE_STRETCH,
            interpolation_type=types.CUBIC_INTERPOLATION,
        )
        jagged = fn.resize(images, resize_width=8, resize_height=8, antialias=False)
        return one, two, three, jagged, fn.resize(images, resize_width=8, resize_height=8)

    one, two, three, jagged, smooth, labels = next(ROCALJaxIterator(definition()))
    assert (one.shape, one.dtype) == ((2, 3, 20, 20), "float32")
    assert (two.shape, two.dtype, three.shape) == ((2, 16, 16, 3), "uint8", (2, 10, 20, 3))
    assert labels.tolist() == [0, 0]
    assert np.asarray(smooth).std() < 0.6 * np.asarray(jagged).std()  # noise, averaged or picked


@pytest.mark.parametrize(("name", "write"), [("caffe2", write_caffe2), ("caffe", write_caffe)])
def test_caffe_and_caffe2_have_labels_too(tmp_path, jpeg, name, write):
    read = getattr(fn.readers, name)
    write(tmp_path / "lmdb", ((jpeg(np.full((8, 8), n, np.uint8)), n) for n in range(6)))

    @pipeline_def(batch_size=3)
    def definition():
        jpegs, _ = read(path=tmp_path / "lmdb")
        return fn.decoders.image(jpegs, path=tmp_path, random_shuffle=False)

    assert [labels.tolist() for _, labels in ROCALJaxIterator(definition())] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(DefinitionError, match="boxes"), Pipeline(batch_size=1):
        read(path=tmp_path, bbox=True)


def test_peeking(cifar):
    iterator = ROCALPeekableIterator(group(cifar, 2, random_shuffle=True), sharding(2))
    plain = ROCALJaxIterator(group(cifar, 2, random_shuffle=True), sharding(2))
    spec = iterator.element_spec
    for images, labels in plain:
        coming = iterator.peek_async()
        for step in (iterator.peek(), coming.result(), iterator.next()):
            assert isinstance(step, list)
            assert np.array_equal(step[0], images)
            assert np.array_equal(step[1], labels)
            assert [get_spec_for_array(array) for array in step] == spec
    with pytest.raises(StopIteration):
        iterator.peek()
    iterator.reset()
    assert iterator.peek()[0].shape == (4, 3, 32, 32)
    with pytest.raises(UsageError, match="PARTIAL"):
        ROCALPeekableIterator(filled(cifar, batch_size=8, last_batch_policy=types.LAST_BATCH_PARTIAL))


def test_a_pipeline_runs_by_itself(cifar):
    pipeline = filled(cifar, batch_size=30)
    with pytest.raises(ContextError, match="labels"):
        pipeline.get_image_labels()
    assert pipeline.get_output_tensors() == []
    assert pipeline.get_remaining_images() == 90
    (images,) = pipeline.run()
    assert images.shape == (30, 3, 32, 32)
    assert pipeline.get_image_labels().tolist() == [n % 10 for n in range(30)]
    assert pipeline.get_remaining_images() == 60
    assert [pipeline.rocal_run() for _ in range(3)] == [0, 0, 1]
    assert pipeline.is_empty()
    with pytest.raises(StopIteration):
        pipeline.run()
    pipeline.rocal_reset_loaders()
    assert not pipeline.is_empty()
    assert numbers(pipeline.run()[0]) == list(range(30))
    assert pipeline.timing_info()["readers.cifar10"].samples
    pipeline.rocal_release()


def test_pipelines_nest_and_fail_as_exceptions(cifar):
    outer, inner = Pipeline(batch_size=2), Pipeline(batch_size=2)
    with outer:
        images = fn.readers.cifar10(file_root=cifar)
        with inner:
            inner.set_outputs(fn.readers.cifar10(file_root=cifar, filename_prefix="test_batch"))
        outer.set_outputs(fn.copy(images))
    assert [len(ROCALJaxIterator(pipeline)) for pipeline in (outer, inner)] == [33, 5]
    with pytest.raises(ContextError, match="outside a pipeline"):
        fn.readers.cifar10(file_root=cifar)
    with pytest.raises(ContextError, match="no outputs"):
        Pipeline(batch_size=2).build()
    with pytest.raises(DefinitionError, match="one reader"):
        filled(cifar, define=lambda images: fn.readers.cifar10(file_root=cifar))
    with pytest.raises(DefinitionError, match="shard_size"):
        filled(cifar, shard_size=4)
    with pytest.raises(DefinitionError, match="planar"):
        filled(cifar, image_type=types.RGB)
    with pytest.raises(ArgumentTypeError, match="'filename_prefix'"):
        filled(cifar, filename_prefx="x")
    with pytest.raises(ArgumentTypeError, match=r"fn\.readers\.file"):
        filled(cifar, define=fn.decoders.image)
    with pytest.raises(ArgumentTypeError, match="shard_id"):
        fn.readers.file(file_root=cifar, shard_id=0)


def test_options_without_effect_have_none(cifar):
    plain = Pipeline(batch_size=2, seed=1)
    told = Pipeline(
        batch_size=2,
        num_threads=3,
        seed=1,
        prefetch_queue_depth=3,
        rocal_cpu=True,
        mean=[1.0],
        std=[2.0],
        tensor_layout=types.NHWC,
        tensor_dtype=types.UINT8,
        reverse_channels=True,
        output_memory_type=types.DEVICE_MEMORY,
        max_streams=4,
    )
    told.set_seed(1)
    batches = []
    for pipeline in (plain, told):
        with pipeline:
            pipeline.set_outputs(fn.readers.cifar10(file_root=cifar, random_shuffle=True, stick_to_shard=False))
        batches.append(next(ROCALJaxIterator(pipeline)))
    assert np.array_equal(batches[0][0], batches[1][0])
    assert told.core.placement == "host"


def test_other_arrays_become_jax_arrays():
    memory = np.zeros(64, np.float32)
    start = -memory.ctypes.data % 64 // 4
    for shift in (0, 1):  # aligned memory, which JAX likes to share, and other
        array = memory[start + shift : start + shift + 6]
        array[:] = range(6)
        copied = convert_to_jax_array(array)
        array[:] = 0
        assert copied.tolist() == [0, 1, 2, 3, 4, 5]
