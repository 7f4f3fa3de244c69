"""Photographs from TFRecord, tar and Parquet files, compared with the same photographs as files in a folder.

Penstock or PyArrow writes all files, and they are in the page cache. Their bytes, order and batches are the same.
Parquet files are read by row groups, so a shuffled reader reads a whole group for a single photograph: `--group` sets
the size of a group, `--shuffle` visits the photographs in random order. `--records` instead measures the time to open
that many TFRecords with an index.

    python benchmarks/formats.py FOLDER [--images 1024] [--rounds 5] [--copies 16] [--shuffle] [--group 32]
    python benchmarks/formats.py FOLDER --records 10000000
"""

from __future__ import annotations

import io
import tarfile
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
from measure import BATCH, arguments, compare, epochs

from penstock import data_iterator, fn, tfrecord, types
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource, write_tfrecord

FEATURES = {
    "image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    "label": tfrecord.FixedLenFeature([1], tfrecord.int64, 0),
}

READERS = {
    "files": lambda path, **order: fn.readers.file(file_root=path / "files", file_filters=[], **order),
    "TFRecord": lambda path, **order: tuple(
        fn.readers.tfrecord(path=path / "tfrecord", features=FEATURES, **order).values()
    ),
    "tar": lambda path, **order: fn.readers.webdataset(
        paths=path / "tar", ext=["jpg", "cls"], dtypes=[types.UINT8, types.INT64], **order
    ),
    "Parquet": lambda path, **order: tuple(
        fn.readers.parquet(paths=path / "parquet", columns=["image", "label"], **order).values()
    ),
}


@data_iterator(output_map=["images", "labels"], reader_name="reader")
def training(path, kind, shuffle=False):
    """Return photographs prepared for ImageNet training."""
    jpegs, labels = READERS[kind](path, random_shuffle=shuffle, name="reader")
    images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    images = fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip())
    return images, fn.reshape(fn.cast(labels, dtype=types.INT32), shape=[1])


def write(photographs, folder, group) -> None:
    """Write photographs in all formats."""
    import pyarrow
    import pyarrow.parquet

    (folder / "files" / "0").mkdir(parents=True)
    for number, content in enumerate(photographs):
        (folder / "files" / "0" / f"{number:06}.jpg").write_bytes(content)
    write_tfrecord(folder / "tfrecord", [encode_example({"image": content, "label": [0]}) for content in photographs])
    with tarfile.open(folder / "tar", "w") as archive:
        for number, content in enumerate(photographs):
            for name, data in ((f"{number:06}.jpg", content), (f"{number:06}.cls", bytes(8))):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    table = pyarrow.table({"image": photographs, "label": np.zeros(len(photographs), np.int64)})
    options = {"row_group_size": group, "compression": "none", "use_dictionary": False}
    pyarrow.parquet.write_table(table, folder / "parquet", **options)


def measure_opening(folder, count) -> None:
    """Print time and memory to open `count` TFRecords with an index. The file is sparse."""
    write_tfrecord(folder / "first", [encode_example({"image": b"", "label": [0]})])
    record = (folder / "first").read_bytes()
    size = len(record)
    with (folder / "records").open("wb") as file:
        file.write(record)
        file.truncate(count * size)
    (folder / "index").write_text("".join(f"{number * size} {size}\n" for number in range(count)))
    start, used = time.perf_counter(), time.process_time()
    source = TFRecordSource((str(folder / "records"),), (str(folder / "index"),), tuple(sorted(FEATURES.items())))
    wall, cpu = time.perf_counter() - start, time.process_time() - used
    assert len(source) == count
    tracemalloc.start()
    again = TFRecordSource((str(folder / "records"),), (str(folder / "index"),), tuple(sorted(FEATURES.items())))
    allocated = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(
        f"{len(again):,} TFRecords with an index: {wall:.2f} s ({cpu:.2f} s of CPU time), "
        f"{allocated / count:.1f} bytes per record"
    )


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, 1024)
    parser.add_argument("folder", type=Path, help="folder of JPEG files")
    parser.add_argument(
        "--copies", type=int, default=16, help="number of times that each photograph is in the data set"
    )
    parser.add_argument("--group", type=int, default=32, help="photographs per row group of the Parquet file")
    parser.add_argument("--shuffle", action="store_true", help="visit the photographs in random order")
    parser.add_argument("--records", type=int, help="measure only the time to open this many TFRecords")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.records:
            measure_opening(folder, options.records)
            return
        photographs = [path.read_bytes() for path in sorted(options.folder.iterdir())] * options.copies
        write(photographs, folder, options.group)
        settings = {"batch_size": BATCH, "num_threads": options.threads[0], "seed": 1}

        def contender(kind):
            return lambda: epochs(training(folder, kind, options.shuffle, **settings))

        compare(f"photographs, batches of {BATCH}", {kind: contender(kind) for kind in READERS}, options, ["files"])


if __name__ == "__main__":
    main()
