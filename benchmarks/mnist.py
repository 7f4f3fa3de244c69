"""Cost of an MNIST input pipeline: from IDX files, and from JPEG records in an LMDB as in DALI's multi-GPU tutorial.

    python benchmarks/mnist.py FOLDER [--workloads idx lmdb] [--only NAME ...]

FOLDER contains the IDX files, compressed or not. Images become float32 vectors of 784 values from 0 to 1, labels
one-hot vectors. The benchmark first writes the records to a temporary folder.

Targets: at most DALI's CPU time from records, at most that of NumPy from IDX files.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from by_hand import batches, empty, indices
from data import Arrays, mnist, write_jpeg_records
from measure import BATCH, REFERENCES, Batches, SkippedError, arguments, compare, epochs, selected
from pipelines import mnist as pipeline
from small_images_frameworks import tf_batches

WORKLOADS = ("idx", "lmdb")
RECORDS = 20_000


def penstock(
    folder: Path, records: Path, workload: str, threads: int, *, processes: bool = False, backend: str = "simplejpeg"
) -> Batches:
    """Return batches of Penstock, from threads or from as many worker processes."""
    from penstock import data_iterator, fn, types

    if workload == "idx" and backend != "simplejpeg":
        raise SkippedError("IDX files have no JPEGs")

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        if workload == "idx":
            return pipeline(*fn.readers.mnist(path=folder, random_shuffle=True, name="reader"), fn, types)
        jpegs, labels = fn.readers.caffe2(path=str(records), random_shuffle=True, name="reader")
        return pipeline(fn.decoders.image(jpegs, output_type=types.GRAY, backend=backend), labels, fn, types)

    workers = {"num_processes": threads} if processes else {"num_threads": threads}
    return epochs(training(batch_size=BATCH, seed=1, **workers))


def short_switches(folder: Path, records: Path, workload: str, threads: int) -> Batches:
    """Return batches of Penstock while the interpreter switches threads often, so that two threads decode."""
    if workload == "idx":
        raise SkippedError("IDX files have no JPEGs")
    made, interval = penstock(folder, records, workload, threads), sys.getswitchinterval()
    while True:
        sys.setswitchinterval(2e-4)
        try:
            batch = next(made)
        finally:
            sys.setswitchinterval(interval)  # for the other contenders
        yield batch


def dali(folder: Path, records: Path, workload: str, threads: int) -> Batches:
    """Return batches of NVIDIA DALI's CPU backend. It cannot read IDX files, so NumPy gathers their batches."""
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.jax import data_iterator

    data = mnist(folder)
    order = indices(len(data.images), BATCH, np.random.default_rng(1))

    def gather():
        index = next(order)
        return data.images[index], data.labels[index, None]

    @data_iterator(output_map=["images", "labels"])
    def training():
        if workload == "idx":
            layout = ["HWC", ""]
            return pipeline(
                *fn.external_source(gather, num_outputs=2, batch=True, layout=layout, no_copy=True), fn, types
            )
        jpegs, labels = fn.readers.caffe2(path=str(records), random_shuffle=True, name="reader")
        return pipeline(fn.decoders.image(jpegs, output_type=types.GRAY), labels, fn, types)

    return iter(training(batch_size=BATCH, num_threads=threads, device_id=None, seed=1))


def numpy(folder: Path, records: Path, workload: str, threads: int, *, aligned: bool = False) -> Batches:
    """Return batches of one NumPy expression. Records are parsed and decoded one at a time, one batch per thread."""
    draw = np.random.default_rng(1)
    classes = np.eye(10, dtype=np.float32)
    data = mnist(folder) if workload == "idx" else None
    if data is None:
        read, length = _record_reader(records)
    else:
        length = len(data.images)

    def make(index):
        if data is None:
            images, labels = read(index)
        else:
            images, labels = data.images[index].reshape(BATCH, 784), data.labels[index]
        out = empty((BATCH, 784), np.float32, aligned=aligned)
        np.multiply(images, np.float32(1 / 255), out=out)
        return out, classes[labels]

    return batches((partial(make, index) for index in indices(length, BATCH, draw)), threads)


def _record_reader(path: Path):
    """Return a function that reads records of an LMDB, and their number."""
    import lmdb
    import simplejpeg

    copy = tempfile.mkdtemp(dir=path.parent)  # a process must not open the same LMDB twice
    shutil.copytree(path, copy, dirs_exist_ok=True)
    environment = lmdb.open(copy, readonly=True, lock=False)
    length = environment.stat()["entries"]
    with environment.begin() as transaction:
        keys = list(transaction.cursor().iternext(values=False))

    def read(index):
        images, labels = np.empty((len(index), 784), np.uint8), np.empty(len(index), np.int64)
        with environment.begin(buffers=True) as transaction:
            for row, number in enumerate(index):
                record = transaction.get(keys[number])
                jpeg = bytes(record)
                # A record contains the first bytes of a JPEG only once. Its last byte is the label, which is below 128.
                images[row] = simplejpeg.decode_jpeg(jpeg[jpeg.index(b"\xff\xd8\xff") :], "GRAY").ravel()
                labels[row] = jpeg[-1]
        return images, labels

    return read, length


def one_jax_function(folder: Path, records: Path, workload: str, threads: int) -> Batches:
    """Return batches of Penstock with one JAX function for everything after decoding."""
    import jax
    from jax import numpy as jnp

    from penstock import data_iterator, fn, types

    @fn.jax_function(num_outputs=2)
    def prepare(images, labels):
        images = images.reshape(-1, 784).astype(jnp.float32) / 255
        return images, jax.nn.one_hot(labels.reshape(-1), 10)

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def training():
        if workload == "idx":
            return prepare(*fn.readers.mnist(path=folder, random_shuffle=True, name="reader"))
        jpegs, labels = fn.readers.caffe2(path=str(records), random_shuffle=True, name="reader")
        return prepare(fn.reshape(fn.decoders.image(jpegs, output_type=types.GRAY), shape=[28, 28, 1]), labels)

    return epochs(training(batch_size=BATCH, num_threads=threads, seed=1))


def grain(folder: Path, _records: Path, workload: str, threads: int) -> Batches:
    """Return batches of Grain: a transformation per sample."""
    import grain.python as pygrain
    import jax

    if workload != "idx":
        raise SkippedError("cannot read LMDBs")
    data = mnist(folder)
    classes = np.eye(10, dtype=np.float32)

    def prepare(number):
        return data.images[number].reshape(784).astype(np.float32) / np.float32(255), classes[data.labels[number]]

    samples = pygrain.MapDataset.range(len(data.images)).seed(1).shuffle().repeat().map(prepare)
    options = pygrain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
    return map(jax.device_put, samples.batch(BATCH).to_iter_dataset(options))


def tf_data(folder: Path, _records: Path, workload: str, threads: int) -> Batches:
    """Return batches of tf.data: a TensorFlow function per sample."""
    import tensorflow as tf

    if workload != "idx":
        raise SkippedError("cannot read LMDBs")
    data: Arrays = mnist(folder)

    def prepare(image, label):
        return tf.cast(tf.reshape(image, (784,)), tf.float32) / 255, tf.one_hot(label, 10)

    return tf_batches(data, prepare, threads)


CONTENDERS = {
    "DALI": dali,
    "penstock": penstock,
    "penstock, switches": short_switches,
    "penstock, turbojpeg": partial(penstock, backend="turbojpeg"),
    "penstock, processes": partial(penstock, processes=True),
    "by hand": numpy,
    "by hand, aligned": partial(numpy, aligned=True),
    "one jax_function": one_jax_function,
    "Grain": grain,
    "tf.data": tf_data,
}


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=50 * BATCH)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    selected(CONTENDERS, options.only)
    with tempfile.TemporaryDirectory() as scratch:
        records = Path(scratch) / "records"
        for workload in selected(WORKLOADS, options.workloads):
            if workload == "lmdb":
                data = mnist(options.folder)
                write_jpeg_records(Arrays(data.images[:RECORDS], data.labels[:RECORDS]), records)
            for threads in options.threads:
                contenders = {
                    name: partial(make, options.folder, records, workload, threads) for name, make in CONTENDERS.items()
                }
                compare(f"MNIST, {workload}, {threads} threads", contenders, options, REFERENCES)


if __name__ == "__main__":
    main()
