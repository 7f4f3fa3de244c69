"""Cost of operators on boxes and segmentation maps: CPU time per sample compared with DALI on the CPU.

    python benchmarks/boxes.py [--workloads NAME ...] [--rounds 5] [--images 16384]

A workload is one operator on boxes, or on label maps of 64 x 64, in batches of 256 at the iterator, on two threads.
"dense" samples have 8 boxes each, "ragged" samples have 1 to 15. An `external_source` returns the same batch each time.
DALI does not have `fn.follow`; its contender does what its users write by hand: a random window that is independent of
the image, arithmetic on the boxes, and `fn.bb_flip`.
"""

# ruff: noqa: ARG005  # all workloads have the same signature, and ignore what they do not need
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from measure import BATCH, Batches, arguments, compare, selected

LOW = np.stack(np.meshgrid(*[np.linspace(0, 0.9, 14)] * 2), axis=-1).reshape(-1, 2)
ANCHORS = np.concatenate([LOW, LOW + 0.1], axis=1).reshape(-1).tolist()
WINDOWS = {"thresholds": [0.1, 0.3, 0.5], "scaling": [0.3, 1.0], "aspect_ratio": [0.5, 2.0], "total_num_attempts": 50}


class Samples(NamedTuple):
    """Data of one batch: boxes (left, top, right, bottom), their labels, and label maps."""

    boxes: Any
    labels: Any
    maps: Any


def samples(*, ragged: bool) -> Samples:
    """Draw random samples."""
    draw = np.random.default_rng(0)
    counts = draw.integers(1, 16, BATCH) if ragged else np.full(BATCH, 8)
    low = [draw.uniform(0, 0.6, (count, 2)) for count in counts]
    boxes = [
        np.concatenate([start, start + draw.uniform(0.1, 0.4, start.shape)], 1).astype(np.float32) for start in low
    ]
    labels = [draw.integers(1, 80, count).astype(np.int32) for count in counts]
    maps = np.kron(draw.integers(0, 4, (BATCH, 8, 8)), np.ones((8, 8)))[..., None].astype(np.uint8)
    return Samples(boxes, labels, maps) if ragged else Samples(np.stack(boxes), np.stack(labels), maps)


def padded(fn, values):
    """Pad to 16 entries."""
    return fn.pad(values, axes=(0,), shape=(16,))


def cropped(fn, boxes, labels, _maps):
    """Return a random window, its boxes and their labels."""
    anchor, shape, new_boxes, new_labels = fn.random_bbox_crop(boxes, labels, bbox_layout="xyXY", **WINDOWS)
    return anchor, shape, padded(fn, new_boxes), padded(fn, new_labels)


def ssd(fn, boxes, labels, maps):
    """Return images cropped as in SSD and resized, with their boxes and labels."""
    images, new_boxes, new_labels = fn.ssd_random_crop(maps, boxes, labels)
    return fn.resize(images, size=(32, 32)), padded(fn, new_boxes), padded(fn, new_labels)


def followed(fn, boxes, labels, maps):
    """Return the boxes after a crop, a resize and a flip."""
    flag = fn.random.coin_flip()
    if "nvidia" in fn.__name__:
        from nvidia.dali import math

        low = fn.random.uniform(range=[0.0, 0.375], shape=[2])
        boxes = math.clamp((boxes - fn.cat(low, low)) / 0.625, 0.0, 1.0)
        return padded(fn, fn.bb_flip(boxes, horizontal=flag, ltrb=True)), padded(fn, labels)
    place = {f"crop_pos_{axis}": fn.random.uniform(range=[0.0, 1.0]) for axis in "xy"}
    images = fn.flip(fn.resize(fn.crop(maps, crop=(40, 40), **place), size=(64, 64)), horizontal=flag)
    return fn.follow.boxes(boxes, images, labels, max_boxes=16, ltrb=True, ratio=True)


# Definition and number of outputs of each workload.
WORKLOADS: dict[str, tuple[Callable[..., Any], int]] = {
    "random_bbox_crop": (cropped, 4),
    "ssd_random_crop": (ssd, 3),
    "box_encoder": (lambda fn, boxes, labels, maps: fn.box_encoder(boxes, labels, anchors=ANCHORS, offset=True), 2),
    "follow.boxes": (followed, 2),
    "segmentation.random_mask_pixel": (
        lambda fn, boxes, labels, maps: fn.segmentation.random_mask_pixel(maps, foreground=1),
        1,
    ),
    "segmentation.random_object_bbox": (lambda fn, boxes, labels, maps: fn.segmentation.random_object_bbox(maps), 2),
}


def penstock(data: Samples, workload: str, threads: int) -> Batches:
    """Return batches of Penstock."""
    from penstock import data_iterator, fn

    return _batches(data_iterator, fn, data, workload, num_threads=threads)


def dali(data: Samples, workload: str, threads: int) -> Batches:
    """Return batches of NVIDIA DALI's CPU backend and its JAX iterator."""
    from nvidia.dali import fn
    from nvidia.dali.plugin.jax import data_iterator

    return _batches(data_iterator, fn, data, workload, num_threads=threads, device_id=None)


def _batches(data_iterator, fn, data: Samples, workload: str, **more: Any) -> Batches:
    """Return batches of a workload. Both libraries run the same definition."""
    define, count = WORKLOADS[workload]

    def outputs():
        layouts = ("", "", "HWC")
        inputs = [
            fn.external_source(_constant(column), batch=True, layout=layout, no_copy=True)
            for column, layout in zip(data, layouts, strict=True)
        ]
        results = define(fn, *inputs)
        return results if count == 1 else tuple(results)[:count]

    return iter(data_iterator(outputs, output_map=[f"{n}" for n in range(count)])(batch_size=BATCH, seed=1, **more))


def _constant(column: Any) -> Callable[[], Any]:
    return lambda: column


def main() -> None:
    """Run the workloads."""
    options = arguments(__doc__, images=64 * BATCH).parse_args()
    for form in ("dense", "ragged"):
        data = samples(ragged=form == "ragged")
        for name in selected(WORKLOADS, options.workloads):
            contenders = {"DALI": dali, "penstock": penstock}
            bound = {title: partial(make, data, name, options.threads[0]) for title, make in contenders.items()}
            compare(f"{name}, {form}", bound, options)


if __name__ == "__main__":
    main()
