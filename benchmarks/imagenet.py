"""What feeding ImageNet costs, against DALI on the CPU and whatever other peers are installed.

    python benchmarks/imagenet.py FOLDER [--images N] [--rounds N] [--only NAME ...]    FOLDER/<class>/<image>.JPEG

Training (random crop, 224 x 224, mirror, normalise, shuffled) as float32 NCHW and as uint8 NHWC; evaluation (shorter
side 256, centre crop 224, normalise) as float32 NCHW; on 1 and on 2 threads. All peers take turns in one run; what is
printed are medians of CPU time per image and of images per second, and ratios. Targets on 2 threads: training at most
0.85 of DALI's CPU time, evaluation at most 0.7.

A peer is a function that takes a folder, the name of a workload and a number of threads, and returns a function that
computes one batch; it raises ImportError where its library is not installed, and NotImplementedError where it cannot do
the workload. To add one, write it and put it into PEERS.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BATCH = 64
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
WORKLOADS = ("train float32 NCHW", "train uint8 NHWC", "evaluate float32 NCHW")

NextBatch = Callable[[], object]
Peer = Callable[[Path, str, int], NextBatch]


def definition(folder: Path, workload: str, fn, types):
    """The pipeline as a user of DALI writes it, and of penstock: both run the same lines."""
    train = workload.startswith("train")
    jpegs, labels = fn.readers.file(file_root=str(folder), random_shuffle=train, name="reader")
    if train:
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
        images = fn.resize(images, size=[224, 224])
        mirror = fn.random.coin_flip()
    else:
        images = fn.resize(fn.decoders.image(jpegs, output_type=types.RGB), resize_shorter=256)
        mirror = 0
    if workload.endswith("uint8 NHWC"):
        return fn.flip(images, horizontal=mirror), labels
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", crop=(224, 224), mean=MEAN, std=STD, mirror=mirror
    ), labels


def penstock(folder: Path, workload: str, threads: int) -> NextBatch:
    """This library, on the host."""
    from penstock import Pipeline, fn, types

    pipeline = Pipeline(BATCH, threads, seed=1)
    with pipeline:
        pipeline.set_outputs(*definition(folder, workload, fn, types))
    return pipeline.run


def dali(folder: Path, workload: str, threads: int) -> NextBatch:
    """NVIDIA DALI's CPU backend."""
    from nvidia.dali import Pipeline, fn, types

    pipeline = Pipeline(BATCH, threads, None, seed=1)
    with pipeline:
        pipeline.set_outputs(*definition(folder, workload, fn, types))
    pipeline.build()
    return pipeline.run


def pillow_pool(folder: Path, workload: str, threads: int) -> NextBatch:
    """What people write by hand: Pillow and NumPy in a pool of threads."""
    from PIL import Image

    files = sorted(folder.glob("*/*"))
    draw = random.Random(1)
    pool = ThreadPoolExecutor(threads)
    mean, factor = np.array(MEAN, np.float32), 1 / np.array(STD, np.float32)
    train, floats = workload.startswith("train"), workload.endswith("NCHW")
    order: list[Path] = []

    def sample(path: Path):
        image = Image.open(path).convert("RGB")
        width, height = image.size
        if train:
            side = min(width, height) * draw.uniform(0.3, 1.0)
            left, top = draw.uniform(0, width - side), draw.uniform(0, height - side)
            box = (left, top, left + side, top + side)
            pixels = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR, box=box))
            pixels = pixels[:, ::-1] if draw.random() < 0.5 else pixels
        else:
            scale = 256 / min(width, height)
            resized = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BILINEAR)
            left, top = (resized.width - 224) // 2, (resized.height - 224) // 2
            pixels = np.asarray(resized)[top : top + 224, left : left + 224]
        return ((pixels - mean) * factor).transpose(2, 0, 1) if floats else pixels

    def batch():
        if len(order) < BATCH:
            order.extend(draw.sample(files, len(files)) if train else files)
        chosen = [order.pop() for _ in range(BATCH)]
        return np.stack(list(pool.map(sample, chosen)))

    return batch


def grain(folder: Path, workload: str, threads: int) -> NextBatch:
    """Google's Grain, reading with threads; its users decode with Pillow, as above."""
    import grain.python as pygrain

    if not workload.startswith("evaluate"):
        raise NotImplementedError("its transformations are the user's: compared on evaluation alone")
    from PIL import Image

    files = sorted(folder.glob("*/*"))
    mean, factor = np.array(MEAN, np.float32), 1 / np.array(STD, np.float32)

    def sample(path):
        image = Image.open(path).convert("RGB")
        scale = 256 / min(image.size)
        size = round(image.width * scale), round(image.height * scale)
        image = image.resize(size, Image.Resampling.BILINEAR)
        left, top = (image.width - 224) // 2, (image.height - 224) // 2
        pixels = np.asarray(image)[top : top + 224, left : left + 224]
        return ((pixels - mean) * factor).transpose(2, 0, 1)

    data = pygrain.MapDataset.source(files).repeat().map(sample).batch(BATCH)
    batches = iter(data.to_iter_dataset(pygrain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * BATCH)))
    return lambda: next(batches)


PEERS: dict[str, Peer] = {"DALI": dali, "penstock": penstock, "Pillow in a pool": pillow_pool, "Grain": grain}


def compare(folder: Path, workload: str, threads: int, images: int, rounds: int, only: list[str]) -> None:
    """Let the peers take turns, and print medians."""
    running: dict[str, NextBatch] = {}
    for name, peer in PEERS.items():
        if only and name not in only:
            continue
        try:
            running[name] = peer(folder, workload, threads)
        except ImportError as error:
            print(f"  {name}: skipped, {error}")
        except NotImplementedError as error:
            print(f"  {name}: skipped, {error}")
    batches = -(-images // BATCH)
    cpu: dict[str, list[float]] = {name: [] for name in running}
    wall: dict[str, list[float]] = {name: [] for name in running}
    for turn in range(rounds + 1):
        for name, next_batch in running.items():
            start, started = time.process_time(), time.perf_counter()
            for _ in range(batches):
                next_batch()
            if turn:  # the first turn warms up
                cpu[name].append((time.process_time() - start) / batches / BATCH)
                wall[name].append((time.perf_counter() - started) / batches / BATCH)
    reference = next(iter(running))
    print(f"{workload}, {threads} thread(s), {batches * BATCH} images a turn, {rounds} turns")
    for name in running:
        seconds, rate = statistics.median(cpu[name]), 1 / statistics.median(wall[name])
        ratio = statistics.median(mine / other for mine, other in zip(cpu[name], cpu[reference], strict=True))
        print(f"  {name:<20} {seconds * 1e3:6.2f} CPU ms/image  {rate:7.0f} images/s  {ratio:5.2f} x {reference}'s CPU")


def main() -> None:
    """Run all workloads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[], help="names of peers")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    options = parser.parse_args()
    for workload in WORKLOADS:
        for threads in options.threads:
            compare(options.folder, workload, threads, options.images, options.rounds, options.only)


if __name__ == "__main__":
    main()
