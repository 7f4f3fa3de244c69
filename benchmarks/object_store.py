"""Photographs from an object store that answers after 20 ms, in terms of the same photographs on the local disk.

The server (`object_server.py`) runs on the same machine and takes its share of the processors, which a store elsewhere
would not; its CPU time is printed. `--apart` gives it the last processor, and everything else the others. "not ahead"
fetches a chunk's photographs when it begins. "s3fs by hand" is a loop in numba and simplejpeg that has s3fs, where it
is installed, fetch the photographs of a batch; neither tf.data nor Grain reads from such a server. With `--cache`, what
was fetched is kept on the disk, and the data set is visited once before anything is measured.

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
    """An ImageNet training."""
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[224, 224])
    return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, mirror=fn.random.coin_flip()), labels


def s3fs_by_hand(folder, copies, port, threads):
    """The same training without penstock."""
    files = importlib.import_module("s3fs").S3FileSystem(anon=True, endpoint_url=f"http://127.0.0.1:{port}")
    by_hand = importlib.import_module("imagenet_by_hand").by_hand
    names = sorted(path.name for path in folder.iterdir())
    paths = [f"bucket/{copy}/{name}" for copy in range(copies) for name in names]
    labels = [copy for copy in range(copies) for _ in names]

    def read(wanted):
        found = files.cat(wanted)
        return [found[path] for path in wanted]

    return by_hand(Files(paths, labels), "train", threads, read=read)


def main() -> None:
    """Run it."""
    parser = arguments(__doc__, 2048)
    parser.add_argument("folder", type=Path, help="of JPEG files")
    parser.add_argument("--latency", type=float, default=20, help="milliseconds before each answer")
    parser.add_argument("--copies", type=int, default=16, help="how often the data set has each photograph")
    parser.add_argument("--cache", action="store_true", help="keep what was fetched on the disk")
    parser.add_argument("--apart", action="store_true", help="give the server the last processor, and take the others")
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
    """Compare, with a server at a port."""
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
            f"  {name}: {statistics.median(rates):.2f} of the rate from the disk ({min(rates):.2f} to {max(rates):.2f})"
        )
    used = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    print(f"  the server used {(int(used[11]) + int(used[12])) / os.sysconf('SC_CLK_TCK'):.1f} s of CPU time")


if __name__ == "__main__":
    main()
