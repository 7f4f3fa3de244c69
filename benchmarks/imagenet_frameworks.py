"""ImageNet pipelines with Pillow, Grain, PyTorch's DataLoader and tf.data."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import numpy as np
from by_hand import batches, indices
from data import Files
from imagenet_by_hand import center_window
from measure import BATCH, Batches, epochs
from pipelines import IMAGENET_MEAN, IMAGENET_STD
from small_images_by_hand import random_windows

MEAN, STD = np.array(IMAGENET_MEAN, np.float32), np.array(IMAGENET_STD, np.float32)


def _with_pillow(path: str, workload: str, draw: np.random.Generator) -> np.ndarray:
    """Decode, crop and resize an image with Pillow, then mirror and normalize it with NumPy."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    width, height = image.size
    if workload == "evaluate":
        top, left, rows, columns = center_window(height, width, 256, 224)
    else:
        top, left, rows, columns = random_windows(height, width, 1, draw)[0]
    box = left, top, left + columns, top + rows
    pixels = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=box))
    if workload != "evaluate" and draw.random() < 0.5:
        pixels = pixels[:, ::-1]
    return pixels if workload == "bytes" else ((pixels - MEAN) / STD).transpose(2, 0, 1)


def pillow(files: Files, workload: str, threads: int) -> Batches:
    """Return batches of Pillow, one image at a time in a thread pool."""
    import PIL  # noqa: F401  # raises an ImportError here, where it is reported, and not in a thread

    draw, labels = np.random.default_rng(1), np.array(files.labels, np.int32)
    pool = ThreadPoolExecutor(threads)

    def make(index):
        paths = [files.paths[number] for number in index]
        images = pool.map(lambda path, generator: _with_pillow(path, workload, generator), paths, draw.spawn(BATCH))
        return np.stack(list(images)), labels[index]

    order = indices(len(files.paths), BATCH, None if workload == "evaluate" else draw)
    return batches((partial(make, index) for index in order), 1)


def grain(files: Files, workload: str, threads: int) -> Batches:
    """Return batches of Grain: a transformation per sample with Pillow and NumPy."""
    import grain.python as pygrain

    def load(number, draw):
        return _with_pillow(files.paths[number], workload, draw), np.int32(files.labels[number])

    samples = pygrain.MapDataset.range(len(files.paths)).seed(1)
    if workload != "evaluate":
        samples = samples.shuffle()
    options = pygrain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    return map(jax.device_put, samples.repeat().random_map(load).batch(BATCH).to_iter_dataset(options))


def torch_data_loader(files: Files, workload: str, threads: int) -> Batches:
    """Return batches of PyTorch's DataLoader: worker processes with Pillow and NumPy."""
    from torch.utils.data import DataLoader

    loader = DataLoader(
        _TorchDataset(files, workload),
        batch_size=BATCH,
        shuffle=workload != "evaluate",
        drop_last=True,
        num_workers=threads,
        persistent_workers=True,
        multiprocessing_context="forkserver",
    )
    return (jax.device_put([part.numpy() for part in batch]) for batch in epochs(loader))


class _TorchDataset:
    """The photographs as a map-style data set of PyTorch."""

    def __init__(self, files: Files, workload: str) -> None:
        self.files, self.workload = files, workload

    def __len__(self) -> int:
        return len(self.files.paths)

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.int32]:
        draw = np.random.default_rng(np.random.randint(2**31))  # noqa: NPY002  # PyTorch seeds this one in each worker
        # a copy, as PyTorch refuses negative strides
        return _with_pillow(self.files.paths[number], self.workload, draw).copy(), np.int32(self.files.labels[number])


def tf_data(files: Files, workload: str, threads: int) -> Batches:
    """Return batches of tf.data, which decodes only the region of a random window."""
    import tensorflow as tf

    accurate = {"channels": 3, "dct_method": "INTEGER_ACCURATE"}

    def load(path, label):
        data = tf.io.read_file(path)
        if workload == "evaluate":
            image = tf.image.decode_jpeg(data, **accurate)
            size = tf.cast(tf.shape(image)[:2], tf.float32)
            resized = tf.cast(tf.round(size * 256 / tf.reduce_min(size)), tf.int32)
            image = tf.image.resize(image, resized, antialias=True)
            image = tf.image.resize_with_crop_or_pad(image, 224, 224)
        else:
            begin, size, _ = tf.image.sample_distorted_bounding_box(
                tf.image.extract_jpeg_shape(data),
                tf.zeros((1, 0, 4)),
                area_range=(0.08, 1),
                aspect_ratio_range=(3 / 4, 4 / 3),
                max_attempts=10,
                use_image_if_no_bounding_boxes=True,
            )
            window = tf.concat([begin[:2], size[:2]], axis=0)
            image = tf.image.decode_and_crop_jpeg(data, window, **accurate)
            image = tf.image.random_flip_left_right(tf.image.resize(image, (224, 224), antialias=True))
        if workload == "bytes":
            return tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8), label
        return tf.transpose((image - MEAN) / STD, (2, 0, 1)), label

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    samples = tf.data.Dataset.from_tensor_slices((files.paths, files.labels))
    if workload != "evaluate":
        samples = samples.shuffle(len(files.paths))
    batched = samples.repeat().map(load, num_parallel_calls=threads).batch(BATCH, drop_remainder=True).prefetch(2)
    return map(jax.device_put, batched.with_options(options).as_numpy_iterator())
