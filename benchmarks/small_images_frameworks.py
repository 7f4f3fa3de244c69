"""Augmentation of small images with Grain, PyTorch's DataLoader, tf.data, and a single JAX function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from data import Arrays
from jax import numpy as jnp
from measure import BATCH, Batches, epochs
from pipelines import CIFAR_MEAN, CIFAR_STD
from small_images_by_hand import random_windows

MEAN, STD = np.array(CIFAR_MEAN, np.float32), np.array(CIFAR_STD, np.float32)


def one_jax_function(data: Arrays, workload: str, threads: int) -> Batches:
    """Return batches of one JAX function, in a Penstock pipeline that only reads and shuffles."""
    from penstock import data_iterator, fn

    offset, scale = jnp.reshape(jnp.float32(CIFAR_MEAN), (1, 1, 3)), jnp.reshape(jnp.float32(CIFAR_STD), (1, 1, 3))
    low = 0 if workload == "pad" else 4

    def training(image, place, flip):
        padded = jnp.pad(image, ((low, 8 - low), (low, 8 - low), (0, 0)))
        top, left = jax.random.randint(place, (2,), 0, 9)
        cut = jax.lax.dynamic_slice(padded, (top, left, 0), (32, 32, 3))
        cut = jnp.where(jax.random.bernoulli(flip), cut[:, ::-1], cut)
        return ((cut.astype(jnp.float32) - offset) / scale).transpose(2, 0, 1)

    def resized_crop(image, size, place):
        area, ratio = jax.random.uniform(size, (2,))
        area, ratio = 1024 * (0.08 + 0.92 * area), (3 / 4) ** (1 - 2 * ratio)
        sides = jnp.clip(jnp.round(jnp.sqrt(area * jnp.stack([1 / ratio, ratio]))), 1, 32)
        start = jnp.floor(jax.random.uniform(place, (2,)) * (33 - sides))
        factor = 32 / sides
        values = jax.image.scale_and_translate(
            image.astype(jnp.float32), (32, 32, 3), (0, 1), factor, -start * factor, "linear"
        )
        return jnp.round(values).astype(jnp.uint8)

    @fn.jax_function
    @jax.vmap
    def augment(image, key):
        first, second = jax.random.split(jax.random.wrap_key_data(key))
        if workload == "random_resized_crop":
            return resized_crop(image, first, second)
        if workload == "resize":
            return jnp.round(jax.image.resize(image.astype(jnp.float32), (64, 64, 3), "linear")).astype(jnp.uint8)
        return training(image, first, second)

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def definition():
        images, labels = fn.readers.arrays(tuple(data), layout=("HWC", ""), random_shuffle=True, name="reader")
        return augment(images, fn.random.keys()), labels

    return epochs(definition(batch_size=BATCH, num_threads=threads, seed=1))


def _with_numpy(image: np.ndarray, workload: str, draw: np.random.Generator) -> np.ndarray:
    """Augment an image with NumPy, or with Pillow if images are resized."""
    from PIL import Image

    if workload == "resize":
        return np.asarray(Image.fromarray(image).resize((64, 64), Image.Resampling.BILINEAR))
    if workload == "random_resized_crop":
        top, left, height, width = random_windows(32, 32, 1, draw)[0]
        box = left, top, left + width, top + height
        return np.asarray(Image.fromarray(image).resize((32, 32), Image.Resampling.BILINEAR, box=box))
    low = 0 if workload == "pad" else 4
    padded = np.pad(image, ((low, 8 - low), (low, 8 - low), (0, 0)))
    top, left = draw.integers(0, 9, 2)
    cut = padded[top : top + 32, left : left + 32]
    if draw.random() < 0.5:
        cut = cut[:, ::-1]
    return ((cut - MEAN) / STD).transpose(2, 0, 1)


def grain(data: Arrays, workload: str, threads: int) -> Batches:
    """Return batches of Grain: a transformation per sample with NumPy or Pillow."""
    import grain.python as pygrain

    def augment(number, draw):
        return _with_numpy(data.images[number], workload, draw), data.labels[number]

    samples = pygrain.MapDataset.range(len(data.images)).seed(1).shuffle().repeat().random_map(augment)
    options = pygrain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    return map(jax.device_put, samples.batch(BATCH).to_iter_dataset(options))


def torch_data_loader(data: Arrays, workload: str, threads: int) -> Batches:
    """Return batches of PyTorch's DataLoader: worker processes with NumPy or Pillow."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _TorchDataset(data, workload),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=threads,
        persistent_workers=True,
        multiprocessing_context="forkserver",
    )
    return (jax.device_put([part.numpy() for part in batch]) for batch in epochs(loader))


class _TorchDataset:
    """The arrays as a map-style data set of PyTorch."""

    def __init__(self, data: Arrays, workload: str) -> None:
        self.data, self.workload = data, workload

    def __len__(self) -> int:
        return len(self.data.images)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.int32]:
        draw = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002  # PyTorch seeds this one in each worker
        # a copy, as PyTorch refuses negative strides
        return _with_numpy(self.data.images[number], self.workload, draw).copy(), np.int32(self.data.labels[number])


def tf_data(data: Arrays, workload: str, threads: int) -> Batches:
    """Return batches of tf.data: a TensorFlow function per sample."""
    import tensorflow as tf

    low = 0 if workload == "pad" else 4

    def augment(image, label):
        if workload == "resize":
            values = tf.image.resize(image, (64, 64))
            return tf.cast(tf.round(values), tf.uint8), label
        if workload == "random_resized_crop":
            begin, size, _ = tf.image.sample_distorted_bounding_box(
                tf.shape(image),
                tf.zeros((1, 0, 4)),
                area_range=(0.08, 1),
                aspect_ratio_range=(3 / 4, 4 / 3),
                use_image_if_no_bounding_boxes=True,
            )
            values = tf.image.resize(tf.slice(image, begin, size), (32, 32), antialias=True)
            return tf.cast(tf.round(values), tf.uint8), label
        padded = tf.pad(image, ((low, 8 - low), (low, 8 - low), (0, 0)))
        cut = tf.image.random_flip_left_right(tf.image.random_crop(padded, (32, 32, 3)))
        return tf.transpose((tf.cast(cut, tf.float32) - CIFAR_MEAN) / CIFAR_STD, (2, 0, 1)), label

    return tf_batches(data, augment, threads)


def tf_batches(data: Arrays, prepare: Callable[..., Any], threads: int) -> Batches:
    """Return shuffled batches of tf.data, with a TensorFlow function per sample."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    samples = tf.data.Dataset.from_tensor_slices(tuple(data)).shuffle(len(data.images)).repeat()
    batched = samples.map(prepare, num_parallel_calls=threads).batch(BATCH, drop_remainder=True).prefetch(2)
    return map(jax.device_put, batched.with_options(options).as_numpy_iterator())
