"""Files, records and headers of a batch in one compiled call, compared with Python per sample.

    python benchmarks/batch_calls.py FOLDER [--rounds 5] [--workloads files headers ...]

FOLDER contains JPEGs, flat or in one folder per class. Each step runs through the iterator with the code for many
samples, and with this code turned off, in turns. Only labels or shapes are delivered, so little but the step remains:

    files     read photographs
    headers   read the headers of photographs
    records   read records of an LMDB: JPEGs of 28 x 28 pixels and labels
    protos    parse these records, Caffe2's TensorProtos
    datums    parse Caffe's Datums of such JPEGs, with reading from an LMDB
    tfrecord  read TFRecords of such JPEGs and labels
    examples  parse these records
    tar       read such JPEGs and labels from a tar file
"""

from __future__ import annotations

import argparse
import io
import statistics
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from data import gray_jpeg, jpegs
from measure import BATCH, Batches, arguments, compare, epochs, selected

from penstock import data_iterator, fn, tfrecord, types
from penstock.image.codecs import jpeg_header
from penstock.sources.formats.caffe import caffe2_source, caffe_source
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.formats.caffe.caffe_source import write_caffe
from penstock.sources.formats.tfrecord import example_columns
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord
from penstock.sources.storage import file_batches
from penstock.sources.storage.random_access_file import LocalFile

BATCHES, SAMPLES = "per batch", "per sample"


class Step(NamedTuple):
    """A step that has code for many samples.

    Args:
        define: Function from the data set to the outputs of the definition.
        owner: Module or class with the switch between both ways.
        name: Name of the switch.
        off: Value of the switch with which samples are treated one by one.
    """

    define: Callable[[Path], Any]
    owner: Any
    name: str
    off: Any


def labels_of_files(folder: Path) -> Any:
    """Read photographs."""
    paths, labels = jpegs(folder / "photographs")
    return fn.readers.file(files=paths, labels=labels, random_shuffle=True, name="reader")[1]


def shapes_of_files(folder: Path) -> Any:
    """Read photographs and their headers."""
    paths, labels = jpegs(folder / "photographs")
    return fn.peek_image_shape(fn.readers.file(files=paths, labels=labels, random_shuffle=True, name="reader")[0])


def labels_of_records(folder: Path) -> Any:
    """Read records of an LMDB."""
    return fn.readers.caffe2(path=str(folder / "records"), random_shuffle=True, name="reader")[1]


def labels_of_datums(folder: Path) -> Any:
    """Read Datums of an LMDB."""
    return fn.readers.caffe(path=str(folder / "datums"), random_shuffle=True, name="reader")[1]


def labels_of_examples(folder: Path) -> Any:
    """Read TFRecords."""
    features = {
        "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        "label": tfrecord.FixedLenFeature([1], tfrecord.int64, 0),
    }
    reader = fn.readers.tfrecord(path=folder / "tfrecord", features=features, random_shuffle=True, name="reader")
    return reader["label"]


def labels_of_tar(folder: Path) -> Any:
    """Read files of a tar file."""
    kinds = {"ext": ["jpg", "cls"], "dtypes": [types.UINT8, types.INT64]}
    return fn.readers.webdataset(paths=folder / "tar", **kinds, random_shuffle=True, name="reader")[1]


def never(*_: Any, **__: Any) -> Any:
    """Return that samples cannot be read together."""
    return None


STEPS: Mapping[str, Step] = {
    "files": Step(labels_of_files, file_batches, "_MIN_FILES", 1 << 30),
    "headers": Step(shapes_of_files, jpeg_header, "_MIN_FILES", 1 << 30),
    "records": Step(labels_of_records, LocalFile, "read_ranges", never),
    "protos": Step(labels_of_records, caffe2_source, "parse_common", never),
    "datums": Step(labels_of_datums, caffe_source, "parse_datums", never),
    "tfrecord": Step(labels_of_examples, LocalFile, "read_ranges", never),
    "examples": Step(labels_of_examples, example_columns, "MIN_MESSAGES", 1 << 30),
    "tar": Step(labels_of_tar, LocalFile, "read_ranges", never),
}


def batches(step: Step, folder: Path, threads: int, one_by_one: bool) -> Batches:
    """Return batches of a step. Before each, set the switch, which holds until another contender takes its turn."""
    on = getattr(step.owner, step.name)
    # With an empty cache, the loops would be compiled only after many batches.
    file_batches._ENOUGH_FILES = jpeg_header._ENOUGH_FILES = 0  # noqa: SLF001  # no option of users

    @data_iterator(output_map=["values"], reader_name="reader")
    def definition():
        return step.define(folder)

    iterator = epochs(definition(batch_size=BATCH, num_threads=threads, seed=1))
    try:
        while True:
            setattr(step.owner, step.name, step.off if one_by_one else on)
            yield next(iterator)
    finally:
        setattr(step.owner, step.name, on)


def write(photographs: Path, folder: Path, count: int = 16 * BATCH) -> None:
    """Write the data sets, with `count` small JPEGs."""
    (folder / "photographs").symlink_to(photographs.resolve())
    pixels = np.random.default_rng(0).integers(0, 256, (count, 28, 28, 1), np.uint8)
    images = [gray_jpeg(image) for image in pixels]
    write_caffe2(folder / "records", ((image, number % 10) for number, image in enumerate(images)))
    write_caffe(folder / "datums", ((image, number % 10) for number, image in enumerate(images)))
    examples = [encode_example({"image": image, "label": [number % 10]}) for number, image in enumerate(images)]
    write_tfrecord(folder / "tfrecord", examples)
    with tarfile.open(folder / "tar", "w") as archive:
        for number, image in enumerate(images):
            for name, content in ((f"{number}.jpg", image), (f"{number}.cls", b"%d" % (number % 10))):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))


def main(arguments_: Sequence[str] | None = None) -> None:
    """Print a table per step, and what it saves."""
    parser = arguments(__doc__, 40 * BATCH)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments_)
    with tempfile.TemporaryDirectory() as scratch:
        write(options.folder, Path(scratch))
        for name in selected(STEPS, options.workloads):
            run(name, Path(scratch), options)


def run(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Compare both ways of a step."""
    ways = {BATCHES: False, SAMPLES: True}
    contenders = {way: partial(batches, STEPS[name], folder, options.threads[0], off) for way, off in ways.items()}
    times = compare(name, contenders, options, [SAMPLES])
    if len(times) == len(ways):
        pairs = zip(times[SAMPLES].cpu, times[BATCHES].cpu, strict=True)
        print(f"  saves {statistics.median(sample - batch for sample, batch in pairs) * 1e6:.1f} us per sample")


if __name__ == "__main__":
    main()
