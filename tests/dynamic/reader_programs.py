"""Programs with readers in dynamic mode, which differ between DALI and Penstock in the module `ndd` alone.

Each takes the module and a folder of `write_data`, and returns tensors and batches.
"""

import io
import itertools
import tarfile

import numpy as np
from dynamic_programs import jpeg


def write_data(folder):
    """Write 7 small JPEGs in two classes, and 5 arrays."""
    for number in range(7):
        path = folder / "images" / ("cats" if number < 4 else "dogs") / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(16 + 8 * number, 24).tobytes())
    with tarfile.open(folder / "images.tar", "w") as archive:
        for number in range(5):
            for name, data in ((f"{number}.jpg", jpeg(16, 16).tobytes()), (f"{number}.cls", bytes([number]))):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    (folder / "arrays").mkdir()
    for number in range(5):
        np.save(folder / "arrays" / f"{number}.npy", np.full((2, number + 1), number, np.float32))
    return folder


def _labels(epoch):
    return [labels for _, labels in epoch]


def two_epochs(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    return [x for _ in range(2) for x in _labels(reader.next_epoch(batch_size=3))]


def padded_epochs(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"), pad_last_batch=True)
    return [x for _ in range(2) for x in _labels(reader.next_epoch(batch_size=3))]


def single_samples(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    return [x for _ in range(2) for x in _labels(reader.next_epoch())]


def a_batch_larger_than_the_data(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    return [x for _ in range(2) for x in _labels(reader.next_epoch(batch_size=10))]


def default_batch_size(ndd, folder):
    reader = ndd.readers.File(4, file_root=str(folder / "images"))
    return _labels(reader.next_epoch())


def abandoned_epoch(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    first = list(itertools.islice(reader.next_epoch(batch_size=2), 1))
    return [x for _, x in first] + _labels(reader.next_epoch(batch_size=2))


def shards(ndd, folder):
    result = []
    for shard in range(3):
        reader = ndd.readers.File(file_root=str(folder / "images"), num_shards=3, shard_id=shard)
        result += [x for _ in range(3) for x in _labels(reader.next_epoch(batch_size=2))]
    return result


def shards_without_change(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"), num_shards=2, shard_id=1, stick_to_shard=True)
    return [x for _ in range(3) for x in _labels(reader.next_epoch(batch_size=3))]


def padded_shards(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"), num_shards=2, shard_id=0, pad_last_batch=True)
    return [x for _ in range(3) for x in _labels(reader.next_epoch(batch_size=3))]


def samples_of_a_shard(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"), num_shards=2, shard_id=1)
    return [x for _ in range(3) for x in _labels(reader.next_epoch())]


def direct_calls(ndd, folder):
    reader = ndd.readers.File(5, file_root=str(folder / "images"))
    return [reader(batch_size=5)[1] for _ in range(3)]


def decoded(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    result = []
    for jpegs, labels in reader.next_epoch(batch_size=2):
        images = ndd.decoders.image(jpegs)
        result += [ndd.resize(images, size=[8, 8]), ndd.one_hot(labels, num_classes=3)]
        result += [ndd.crop_mirror_normalize(images, crop=(8, 8), mean=[128.0] * 3, std=[64.0] * 3)]
    return result


def web_dataset(ndd, folder):
    reader = ndd.readers.Webdataset(
        paths=str(folder / "images.tar"), ext=["jpg", "cls"], missing_component_behavior="error"
    )
    return [x for files, labels in reader.next_epoch(batch_size=2) for x in (ndd.decoders.image(files), labels)]


def regions_of_arrays(ndd, folder):
    files = [str(folder / "arrays" / f"{number}.npy") for number in range(5)]
    reader = ndd.readers.Numpy(files=files, roi_start=ndd.tensor([0, 0]), roi_shape=ndd.tensor([1, 1]))
    return [x for (x,) in reader.next_epoch(batch_size=2)]


def arrays_of_several_shapes(ndd, folder):
    reader = ndd.readers.Numpy(file_root=str(folder / "arrays"), file_filter="*.npy")
    return [ndd.reductions.sum(x) for (x,) in reader.next_epoch()]


def a_state_is_restored(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"), enable_checkpointing=True)
    next(iter(reader.next_epoch(batch_size=3)))
    other = ndd.readers.File(file_root=str(folder / "images"), enable_checkpointing=True)
    other.set_state(reader.get_state())
    return _labels(other.next_epoch(batch_size=2))


def a_checkpoint(ndd, folder):
    reader, rng = ndd.readers.File(file_root=str(folder / "images")), ndd.random.RNG(3)
    saved = ndd.checkpoint.Checkpoint()
    names = [saved.register(reader, "reader"), saved.register(rng)]
    _labels(reader.next_epoch(batch_size=4))
    rng.advance(5)
    saved.collect()
    loaded, clone = ndd.checkpoint.Checkpoint(), ndd.random.RNG(0)
    other = ndd.readers.File(file_root=str(folder / "images"))
    loaded.deserialize(saved.serialize())
    same = [loaded.register(other, "reader"), loaded.register(clone)] == names == ["reader", "__op_1"]
    return [*_labels(other.next_epoch(batch_size=4)), ndd.tensor([same, clone() == rng()])]


def external_sources(ndd, folder):
    cycled = ndd.ExternalSource([np.int32([1]), np.int32([2])], cycle="quiet")
    pairs = ndd.ExternalSource(iter([([1], [2.0]), ([3], [4.0])]), num_outputs=2)
    batches = ndd.ExternalSource(lambda: ndd.batch([[1], [2]]))
    return [*(cycled() for _ in range(3)), *pairs(), *pairs(), cycled(batch_size=2), batches(batch_size=2)]


def captured(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    result = []
    for _ in range(2):
        for jpegs, labels in reader.next_epoch(batch_size=3, capture=True):
            images = ndd.decoders.image(jpegs)
            small = ndd.resize(images, size=[8, 8])
            images = ndd.crop_mirror_normalize(images, crop=(8, 8), mean=[128.0] * 3, std=[64.0] * 3)
            result += [ndd.as_tensor(small), ndd.as_tensor(images), ndd.as_tensor(labels * 2 + 1)]
    return result


def captured_with_other_calls(ndd, folder):
    reader = ndd.readers.File(file_root=str(folder / "images"))
    result = []
    for step, (jpegs, labels) in enumerate(reader.next_epoch(batch_size=2, capture=True)):
        images = ndd.decoders.image(jpegs)
        brighter = ndd.brightness(images, brightness=1.0 + step)  # differs in every step
        result += [ndd.reductions.mean(brighter), labels.slice[0], ndd.cast(labels, dtype=ndd.float32)]
    return result


PROGRAMS = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None)]
PROGRAMS = [program for program in PROGRAMS if program.__code__.co_varnames[:2] == ("ndd", "folder")]
