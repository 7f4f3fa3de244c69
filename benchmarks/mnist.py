"""What the core costs on MNIST, against NumPy and against DALI.

    python benchmarks/mnist.py FOLDER      FOLDER holds mnist-idx/ and mnist-caffe2/training/

Prints CPU time per image, as ratios in one run. Targets: the host stage from IDX or arrays at most 1.5 x the NumPy
expression that does the same; to arrays on 1 and 8 devices at most 1.3 x NumPy and device_put; Caffe2 records at most
1 x DALI.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from measure import cpu_seconds, report

from penstock import data_iterator, fn, pipeline_def, types
from penstock.data.idx import read_idx

BATCH, BATCHES = 200, 300


def from_memory(images, labels):
    """float32/255 and one-hot, as a user writes it."""
    images = fn.crop_mirror_normalize(images, std=255.0)
    return fn.reshape(images, shape=[784]), fn.one_hot(labels, num_classes=10)


def numpy_batches(images, labels):
    """The NumPy expression that does the same: shuffle, gather, convert, one-hot."""
    order = np.random.default_rng(0).permutation(len(images))
    classes = np.eye(10, dtype=np.float32)
    for start in range(0, BATCH * BATCHES, BATCH):
        index = order[start : start + BATCH]
        yield images[index].reshape(BATCH, 784).astype(np.float32) / np.float32(255), classes[labels[index]]


def consume(batches) -> None:
    """Run through an epoch."""
    for _ in batches:
        pass


def host_stage(folder: Path) -> None:
    """Reading and batching alone."""
    images, labels = (read_idx(folder / "mnist-idx" / f"train-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    images, labels = np.array(images), labels.astype(np.int32)

    @pipeline_def(batch_size=BATCH, num_threads=1)
    def idx():
        return from_memory(*fn.readers.mnist(path=folder / "mnist-idx", random_shuffle=True))

    @pipeline_def(batch_size=BATCH, num_threads=1)
    def arrays():
        pair = fn.readers.arrays((images[..., None], labels), layout=("HWC", ""), random_shuffle=True)
        return from_memory(*pair)

    runs = {"NumPy": lambda: consume(numpy_batches(images, labels))}
    for name, definition in (("readers.mnist", idx), ("readers.arrays", arrays)):
        for threaded in (True, False):
            pipeline = definition(exec_async=threaded)
            label = f"{name}{'' if threaded else ', without threads'}"
            runs[label] = lambda pipeline=pipeline: consume(pipeline.run() for _ in range(BATCHES))
    report("host stage, batches of 200", cpu_seconds(runs), "NumPy", BATCH * BATCHES)


def to_devices(folder: Path) -> None:
    """Up to `jax.Array`s on one device and on eight."""
    images, labels = (read_idx(folder / "mnist-idx" / f"train-{name}-ubyte") for name in ("images-idx3", "labels-idx1"))
    images, labels = np.array(images), labels.astype(np.int32)
    for count in (1, 8):
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), PartitionSpec("batch"))

        def definition():
            return from_memory(*fn.readers.mnist(path=folder / "mnist-idx", random_shuffle=True, name="reader"))

        iterator = data_iterator(definition, ["x", "y"], reader_name="reader", sharding=sharding)(
            batch_size=BATCH, num_threads=1
        )

        def plain(sharding=sharding):
            for batch in numpy_batches(images, labels):
                jax.block_until_ready(jax.device_put(batch, sharding))

        def ours(iterator=iterator):
            for batch in iterator:
                jax.block_until_ready(batch)

        seconds = cpu_seconds({"NumPy + device_put": plain, "data_iterator": ours})
        report(f"to arrays on {count} device(s)", seconds, "NumPy + device_put", BATCH * BATCHES)


def records(folder: Path) -> None:
    """JPEG records of a Caffe2 LMDB, with DALI on the CPU beside it."""
    path = str(folder / "mnist-caffe2" / "training")

    def definition(operators, kinds):
        jpegs, labels = operators.readers.caffe2(path=path, random_shuffle=True, name="reader")
        images = operators.decoders.image(jpegs, output_type=kinds.GRAY)
        images = operators.crop_mirror_normalize(images, dtype=kinds.FLOAT, std=[255.0], output_layout="CHW")
        return operators.reshape(images, shape=[784]), operators.one_hot(labels, num_classes=10)

    for threads in (1, 2):
        ours = pipeline_def(lambda: definition(fn, types))(batch_size=BATCH, num_threads=threads)
        runs = {"penstock": lambda ours=ours: consume(ours.run() for _ in range(BATCHES))}
        reference = "penstock"
        try:
            from nvidia import dali  # it may not be there
        except ImportError:
            print("DALI is not installed: skipped (dependency group dali)")
        else:
            theirs = dali.Pipeline(BATCH, threads, None)
            with theirs:
                theirs.set_outputs(*definition(dali.fn, dali.types))
            runs["DALI"] = lambda theirs=theirs: consume(theirs.run() for _ in range(BATCHES))
            reference = "DALI"
        report(f"Caffe2 LMDB of JPEGs, {threads} thread(s)", cpu_seconds(runs), reference, BATCH * BATCHES)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    data = Path(sys.argv[1])
    host_stage(data)
    to_devices(data)
    records(data)
