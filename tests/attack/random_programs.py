"""Random definitions: a program is a function of its seed.

A program reads from one or two readers, applies a chain of random operators to the images, with constants or random
nodes as arguments, and returns images, labels and numbers. Run as a job, this module prints a digest per program:

    penstock launch -n 2 -d 2 tests/attack/random_programs.py 0 20
"""

import hashlib
import random
import sys

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
    """

    def __init__(self, seed):
        rng = random.Random(f"program {seed}")
        self.seed = seed
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
        self.labels = numbers.integers(0, 10, (self.count, 1), np.int32)
        self.others = numbers.normal(size=(rng.randrange(5, 50), 3)).astype(np.float32)

    def define(self):
        """Return the outputs as nodes, with their names."""
        rng = random.Random(f"definition {self.seed}")
        if self.ragged:
            items = Items(self.files, self.labels)
            data, label = fn.readers.items(items, name="r", **self.reader)
            decode = rng.choice((fn.decoders.image, fn.decoders.image_random_crop))
            images = decode(data, output_type=rng.choice((types.RGB, types.BGR)))
        else:
            images, label = fn.readers.arrays((self.images, self.labels), layout=["HWC", ""], name="r", **self.reader)
        other = fn.readers.arrays(self.others, random_shuffle=rng.random() < 0.5)
        for _ in range(rng.randrange(1, 5)):
            images = rng.choice(STEPS)(images, rng)
        height, width = rng.randrange(4, 12), rng.randrange(4, 12)
        images = fn.resize(images, size=[height, width], interp_type=rng.choice(FILTERS))
        images = rng.choice(ENDS)(images, rng)
        value = rng.choice(NUMBERS)(other, rng)
        mixed = fn.cast(label, dtype=types.FLOAT) * fn.random.uniform(range=[0.5, 1.0]) + fn.reductions.max(other)
        return {"image": images, "label": label, "value": value, "mixed": mixed}

    def iterator(self, devices=1, placement="auto", **options):
        """Return a new iterator of the program on some devices."""
        sharding, place = None, {"device_id": 0}
        if devices > 1:
            place = {}
            sharding = NamedSharding(jax.make_mesh((devices,), ("batch",), devices=jax.devices()[:devices]), P("batch"))
        make = data_iterator(self.define, reader_name="r", last_batch_policy=self.policy, sharding=sharding)
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
]  # fmt: skip

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
    for seed in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        program = Program(seed)
        batches = [
            {name: np.asarray(multihost_utils.process_allgather(array, tiled=True)) for name, array in batch.items()}
            for batch in program.iterator(devices=jax.device_count(), placement="host")
        ]
        if jax.process_index() == 0:
            print("PROGRAM", seed, digest(batches), flush=True)


if __name__ == "__main__":
    main()
