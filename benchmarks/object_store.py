"""Photographs from an object store that responds after 20 ms, compared with the same photographs on the local disk.

The server (`object_server.py`) runs on the same machine and uses its CPUs, unlike a remote store; its CPU time is
printed. `--apart` pins it to the last CPU, and everything else to the other CPUs. "not ahead" fetches photographs only
when their chunk starts. "s3fs by hand" is a loop with Numba and simplejpeg that fetches the photographs of a batch with
s3fs, if it is installed; tf.data and Grain cannot read from such a server. With `--cache`, fetched photographs are
cached on disk, and one epoch fills the cache before the measurement.

    python benchmarks/object_store.py FOLDER [--images 2048] [--rounds 5] [--latency 20]
"""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from data import Files
from measure import BATCH, arguments, compare, epochs

from penstock import data_iterator, fn, types


@data_iterator(output_map=["images", "labels"], reader_name="reader")
def training(root):
    """Return photographs prepared for ImageNet training."""
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip()), labels


def s3fs_by_hand(folder, copies, port, threads):
    """Return batches of the same training without Penstock."""
    files = importlib.import_module("s3fs").S3FileSystem(anon=True, endpoint_url=f"http://127.0.0.1:{port}")
    by_hand = importlib.import_module("imagenet_by_hand").by_hand
    names = sorted(path.name for path in folder.iterdir())
    paths = [f"bucket/{copy}/{name}" for copy in range(copies) for name in names]
    labels = [copy for copy in range(copies) for _ in names]

    def read(paths):
        contents = files.cat(paths)
        return [contents[path] for path in paths]

    return by_hand(Files(paths, labels), "train", threads, read=read)


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, 2048)
    parser.add_argument("folder", type=Path, help="folder of JPEG files")
    parser.add_argument("--latency", type=float, default=20, help="delay of each response in milliseconds")
    parser.add_argument(
        "--copies", type=int, default=16, help="number of times that each photograph is in the data set"
    )
    parser.add_argument("--cache", action="store_true", help="cache fetched photographs on disk")
    parser.add_argument(
        "--apart", action="store_true", help="pin the server to the last CPU, and everything else to the others"
    )
    options = parser.parse_args()
    program = [sys.executable, str(Path(__file__).with_name("object_server.py"))]
    program += [str(options.folder), str(options.copies), str(options.latency)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            if options.apart:
                *mine, last = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(server.pid, [last])
                os.sched_setaffinity(0, mine)
            run(options, Path(folder), int(server.stdout.readline()), server.pid)
        finally:
            server.kill()


def run(options, folder, port, server) -> None:
    """Compare the contenders, with a server on `port`."""
    os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_SKIP_SIGNATURE="true", AWS_REGION="us-east-1")
    for number in range(options.copies):
        (folder / "disk" / str(number)).mkdir(parents=True)
        for path in options.folder.iterdir():
            (folder / "disk" / str(number) / path.name).symlink_to(path.resolve())
    if options.cache:
        os.environ.update(PENSTOCK_CACHE_SIZE="100GB", PENSTOCK_CACHE_DIR=str(folder / "cache"))
        for _ in training("s3://bucket", batch_size=BATCH, num_threads=options.threads[0]):
            pass
    settings = {"batch_size": BATCH, "num_threads": options.threads[0], "seed": 1}

    contenders = {
        "disk": lambda: epochs(training(folder / "disk", **settings)),
        "disk again": lambda: epochs(training(folder / "disk", **settings)),
        "store": lambda: epochs(training("s3://bucket", **settings)),
        "s3fs by hand": lambda: s3fs_by_hand(options.folder, options.copies, port, options.threads[0]),
        "store, not ahead": lambda: epochs(training("s3://bucket", read_threads=0, **settings)),
    }
    times = compare(f"photographs, batches of {BATCH}, {options.latency:g} ms", contenders, options, ["disk"])
    for name in times.keys() - {"disk"}:
        rates = [disk / mine for disk, mine in zip(times["disk"].wall, times[name].wall, strict=True)]
        print(
            f"  {name}: {statistics.median(rates):.2f} of the throughput from disk "
            f"({min(rates):.2f} to {max(rates):.2f})"
        )
    used = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    print(f"  server: {(int(used[11]) + int(used[12])) / os.sysconf('SC_CLK_TCK'):.1f} s of CPU time")


if __name__ == "__main__":
    main()
