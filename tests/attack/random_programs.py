"""Random definitions: a program is a function of its seed.

A program reads from readers and external sources, applies a chain of random operators to the images, with constants or
random nodes as arguments, to all samples or behind an `if`, and returns images, labels and numbers. Some programs cache
values, and some have damaged files and a policy for them. Run as a job, this module prints a digest per program:

    penstock launch -n 2 -d 2 tests/attack/random_programs.py 0 20
"""

import hashlib
import math
import random
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
from case_data import photograph
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import penstock.launch
from penstock import LastBatchPolicy, data_iterator, fn, types

KINDS = (types.UINT8, types.FLOAT, types.INT16)
FILTERS = (types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC, types.INTERP_TRIANGULAR, types.INTERP_LANCZOS3)


class Program:
    """A definition and its options.

    Args:
        seed: Determines everything.
        folder: Folder for the program's files and caches; None keeps them in memory.
        sized: True if external sources have a size, as jobs of several processes require.
    """

    def __init__(self, seed, folder=None, *, sized=False):
        rng = random.Random(f"program {seed}")
        self.seed, self.folder, self.paths = seed, folder, []
        self.count = rng.randrange(9, 40)
        self.ragged = rng.random() < 0.4
        self.batch_size = rng.choice((8, 16))
        self.policy = rng.choice([policy for policy in LastBatchPolicy if policy is not LastBatchPolicy.PARTIAL])
        self.count = max(self.count, self.batch_size)  # DROP needs a complete batch
        self.reader = {
            "random_shuffle": rng.random() < 0.7,
            "pad_last_batch": rng.random() < 0.2,
            "stick_to_shard": rng.random() < 0.1,
        }
        numbers = np.random.default_rng(seed)
        self.images = numbers.integers(0, 256, (self.count, rng.randrange(8, 20), rng.randrange(8, 20), 3), np.uint8)
        self.files = [photograph(number % 7) for number in range(self.count)]
        self.labels = np.arange(self.count, dtype=np.int32)[:, None]
        self.others = numbers.normal(size=(rng.randrange(5, 50), 3)).astype(np.float32)
        self.paired = rng.random() < 0.3  # a second reader of the same length and order
        self.cached = rng.random() < 0.3
        self.external = rng.choice((None, None, None, "samples", "batches", "list"))
        self.unread = rng.random() < 0.15  # without readers: the epoch is that of an external source
        self.size = rng.choice((None, self.count)) if self.unread else None
        if self.unread and sized:
            self.size = self.count
        if self.unread and self.policy is LastBatchPolicy.PAD:
            self.policy = LastBatchPolicy.FILL
        self.on_error = rng.choice(("raise", "skip", "replace")) if self.ragged and not self.unread else "raise"
        if self.on_error == "replace":
            self.external = None  # no other sample of a stream can replace a bad one
        if self.on_error != "raise":
            for number in rng.sample(range(self.count), rng.randrange(1, 5)):
                self.files[number] = self.files[number][: rng.choice((0, 30))]
        if folder is not None and self.ragged:
            self.paths = [folder / f"{seed}-{number}.jpg" for number in range(self.count)]
            for path, data in zip(self.paths, self.files, strict=True):
                path.write_bytes(bytes(data))

    @property
    def can_seek(self):
        """True if any batch can be asked for: the values of external sources depend on the batches before."""
        return not self.unread and self.external is None

    def define(self):
        """Return the outputs as nodes, with their names."""
        rng = random.Random(f"definition {self.seed}")
        if self.unread:
            images, label = fn.external_source(self.item, num_outputs=2, batch=False, layout=["HWC", ""])
            other = fn.external_source(self.extra, batch=False)
        else:
            images, label = self.read(rng)
            other = fn.readers.arrays(self.others, random_shuffle=rng.random() < 0.5, seed=self.seed + 1)
        if self.cached:
            images = fn.resize(images, resize_shorter=rng.randrange(6, 20))
            if not self.unread:
                place = {"path": self.folder / f"cache{self.seed}"} if self.paths else {"memory": "4 MiB"}
                images = fn.cache(images, **place)
        for _ in range(rng.randrange(1, 5)):
            images = rng.choice(STEPS)(images, rng)
        height, width = rng.randrange(4, 12), rng.randrange(4, 12)
        images = fn.resize(images, size=[height, width], interp_type=rng.choice(FILTERS))
        images = rng.choice(ENDS)(images, rng)
        value = rng.choice(NUMBERS)(other, rng)
        mixed = fn.cast(label, dtype=types.FLOAT) * fn.random.uniform(range=[0.5, 1.0]) + fn.reductions.max(other)
        outputs = {"image": images, "label": label, "value": value, "mixed": mixed}
        if self.paired and not self.unread:
            outputs["pair"] = fn.readers.arrays(self.labels, **self.reader)
        if self.external is not None:
            outputs["extra"] = self.feed()
        return outputs

    def read(self, rng):
        """Return nodes of images and labels."""
        if not self.ragged:
            return fn.readers.arrays((self.images, self.labels), layout=["HWC", ""], name="r", **self.reader)
        if self.paths:
            labels = self.labels.ravel().tolist()
            data, label = fn.readers.file(files=self.paths, labels=labels, name="r", **self.reader)
        else:
            data, label = fn.readers.items(Items(self.files, self.labels), name="r", **self.reader)
        decode = fn.decoders.image if self.cached else rng.choice((fn.decoders.image, fn.decoders.image_random_crop))
        return decode(data, output_type=rng.choice((types.RGB, types.BGR))), label

    def item(self, info):
        """Return an image and a label; the epoch ends after `count` samples."""
        if info.idx_in_epoch >= self.count:
            raise StopIteration
        return self.images[info.idx_in_epoch], self.labels[info.idx_in_epoch] + 100 * info.epoch_idx

    def extra(self, info):
        """Return numbers that depend on the sample and the epoch."""
        return self.others[info.idx_in_epoch % len(self.others)] + np.float32(info.epoch_idx)

    def batch(self, number):
        """Return a batch of numbers."""
        return np.arange(2 * self.batch_size, dtype=np.int16).reshape(-1, 2) + np.int16(number)

    def feed(self):
        """Return a node of an external source."""
        if self.external == "samples":
            return fn.external_source(self.extra, batch=False)
        if self.external == "batches":
            return fn.external_source(self.batch)
        return fn.external_source([self.batch(number) for number in range(3)], cycle="quiet")

    def iterator(self, mesh=(1,), placement="auto", **options):
        """Return a new iterator of the program on a mesh of devices, over all of whose axes the batch is split."""
        sharding, place, names = None, {"device_id": 0}, tuple("ab"[: len(mesh)])
        if mesh != (1,):
            place = {}
            devices = jax.devices()[: math.prod(mesh)]
            split = names[0] if self.seed % 2 else names
            sharding = NamedSharding(jax.make_mesh(mesh, names, devices=devices), P(split))
        outputs = ["image", "label", "value", "mixed"] + ["pair"] * (self.paired and not self.unread)
        outputs += ["extra"] * (self.external is not None) + ["valid"] * (self.on_error == "skip")
        make = data_iterator(
            self.define, outputs, self.size, reader_name=None if self.unread else "r", last_batch_policy=self.policy,
            sharding=sharding, on_error=self.on_error, max_bad_rate=(1.0, 1000), enable_conditionals=True,
        )  # fmt: skip
        settings = {"num_threads": 1, "prefetch_queue_depth": 1, **place, **options}
        return make(batch_size=self.batch_size, seed=self.seed, placement=placement, **settings)


class Items:
    """Data set of encoded images and their labels."""

    def __init__(self, files, labels):
        self.files, self.labels = files, labels

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.files[index], self.labels[index]


def _number(rng, low, high):
    """Return a number between two, or a node that draws one per sample."""
    return rng.uniform(low, high) if rng.random() < 0.5 else fn.random.uniform(range=[low, high])


def _flag(rng):
    return rng.randrange(2) if rng.random() < 0.3 else fn.random.coin_flip(probability=rng.random())


def _crop(images, rng):
    place = {"crop_pos_x": _number(rng, 0, 1), "crop_pos_y": _number(rng, 0, 1)}
    return fn.crop(images, crop=(rng.randrange(3, 25), rng.randrange(3, 25)), out_of_bounds_policy="pad", **place)


def _twist(images, rng):
    return fn.color_twist(
        images, hue=_number(rng, -40, 40), saturation=_number(rng, 0, 2), brightness=_number(rng, 0.5, 1.5),
        contrast=_number(rng, 0.5, 1.5),
    )  # fmt: skip


def _rotate(images, rng):
    return fn.rotate(images, angle=_number(rng, -90, 90), keep_size=rng.random() < 0.5, fill_value=rng.randrange(256))


def _erase(images, rng):
    anchor = fn.random.uniform(range=[0.0, 0.7], shape=[2])
    return fn.erase(images, anchor=anchor, shape=[0.2, 0.3], axis_names="HW", normalized=True, fill_value=7)


def _resize(images, rng):
    return fn.resize(images, resize_shorter=_number(rng, 5, 30), interp_type=rng.choice(FILTERS))


def _noise(images, rng):
    if rng.random() < 0.5:
        return fn.noise.salt_and_pepper(images, prob=_number(rng, 0, 0.4))
    return fn.noise.gaussian(images, stddev=_number(rng, 0, 30))


def _branch(images, rng):
    """Apply a step to the samples for which a condition is true, and another one or none to the rest."""
    chance = fn.random.coin_flip(probability=rng.random(), dtype=types.BOOL)
    bright = fn.reductions.mean(images) > rng.uniform(60, 180)
    condition = rng.choice((_same, _both, _either, _neither))(chance, bright)
    step, other = rng.choice(SAME_KIND), rng.choice(SAME_KIND)
    if condition:
        images = step(images, rng)
    elif fn.random.uniform(range=[0.0, 1.0]) < 0.5:
        images = other(images, rng)
    return images


def _same(left, _right):
    return left


def _both(left, right):
    return left and right


def _either(left, right):
    return left or not right


def _neither(left, right):
    return not (left or right)


STEPS = [
    lambda images, rng: fn.flip(images, horizontal=_flag(rng), vertical=_flag(rng)),
    lambda images, rng: fn.brightness_contrast(images, brightness=_number(rng, 0.5, 1.5)),
    lambda images, rng: fn.gaussian_blur(images, window_size=rng.choice((3, 5)), sigma=rng.uniform(0.5, 2)),
    lambda images, rng: fn.random_resized_crop(images, size=[rng.randrange(4, 15), rng.randrange(4, 15)]),
    lambda images, rng: fn.pad(images, axis_names="HW", shape=[rng.randrange(5, 30)] * 2, fill_value=rng.random()),
    lambda images, rng: fn.jpeg_compression_distortion(images, quality=rng.randrange(10, 99)),
    lambda images, rng: fn.grid_mask(images, tile=rng.randrange(3, 9), ratio=_number(rng, 0.1, 0.9)),
    lambda images, rng: fn.warp_affine(images, matrix=[1, rng.uniform(-0.3, 0.3), 2, 0.1, 1, rng.uniform(-3, 3)]),
    _crop,
    _erase,
    _noise,
    _resize,
    _rotate,
    _twist,
    _branch,
    _branch,
]  # fmt: skip

# Steps that return images of the same dtype and layout, as the branches of an `if` must.
SAME_KIND = [step for step in STEPS if step is not _branch]

ENDS = [
    lambda images, rng: images,
    lambda images, rng: fn.crop_mirror_normalize(
        images, mean=[120.0], std=[60.0], mirror=_flag(rng), dtype=rng.choice((types.FLOAT, types.FLOAT16)),
        output_layout=rng.choice(("CHW", "HWC")),
    ),
    lambda images, rng: fn.cast(images, dtype=rng.choice(KINDS)) * rng.choice((2, 0.5)),
    lambda images, rng: fn.normalize(images, axis_names="HW"),
    lambda images, rng: fn.reductions.mean(images, axes=[0, 1]),
    lambda images, rng: fn.transpose(images, perm=[2, 0, 1]) / np.float32(255),
]  # fmt: skip

NUMBERS = [
    lambda other, rng: other + fn.random.normal(stddev=0.1, shape=[3]),
    lambda other, rng: fn.random.uniform(range=[-1, 1], shape=[rng.randrange(1, 5)]),
    lambda other, rng: fn.stack(other, other * fn.random.coin_flip(dtype=types.FLOAT)),
    lambda other, rng: fn.random.choice(100, shape=[4]),
    lambda other, rng: fn.cat(other, fn.cast(other, dtype=types.INT32) * 0.5),
    lambda other, rng: fn.reductions.sum(other, axes=0) if rng.random() < 0.5 else other[1:],
]  # fmt: skip


def digest(batches):
    """Return a digest of batches, each a dict of arrays that this process can read completely."""
    total = hashlib.sha256()
    for batch in batches:
        for name, array in sorted(batch.items()):
            total.update(f"{name} {array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()[:16]


def main():
    """Print a digest of the first epoch of each program from the first seed to the last."""
    from jax.experimental import multihost_utils

    penstock.launch.initialize()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
            program = Program(seed, Path(folder) if seed % 2 else None, sized=True)
            batches = [
                {
                    name: np.asarray(multihost_utils.process_allgather(array, tiled=True))
                    for name, array in batch.items()
                }
                for batch in program.iterator((jax.device_count(),), placement="host")
            ]
            if jax.process_index() == 0:
                print("PROGRAM", seed, digest(batches), flush=True)


if __name__ == "__main__":
    main()
