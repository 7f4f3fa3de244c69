"""Cost of an ImageNet input pipeline, compared with DALI on the CPU, a hand-written loop, and other libraries.

    python benchmarks/imagenet.py FOLDER [--workloads NAME ...] [--only NAME ...]

FOLDER contains JPEGs, flat or in one folder per class. Workloads:

    train      random crop, 224 x 224, mirror, normalize, shuffled; float32 NCHW
    bytes      the same without normalization; uint8 NHWC
    evaluate   shorter side 256, center crop 224, normalize; float32 NCHW
    views      train with color twist, blur and an erased region, as in self-supervised training; DALI and Penstock only
    devices    train on one device and on eight emulated devices

Targets on two threads: CPU time at most that of the hand-written loop, which decodes complete images, and at most 0.85
of it if only regions are decoded; at most 0.7 of DALI's for `views`; on eight devices at most 1.05 of that on one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
from data import Files, jpegs
from imagenet_by_hand import by_hand, decoding_alone
from imagenet_frameworks import grain, pillow, tf_data, torch_data_loader
from jax.sharding import NamedSharding, PartitionSpec
from measure import BATCH, REFERENCES, Batches, arguments, compare, epochs, selected
from pipelines import IMAGENET_WORKLOADS
from pipelines import imagenet as pipeline

WORKLOADS = (*IMAGENET_WORKLOADS, "views", "devices")


def penstock(
    files: Files,
    workload: str,
    threads: int,
    sharding: NamedSharding | None = None,
    *,
    rows: int = BATCH,
    depth: int = 2,
    **decoder: Any,
) -> Batches:
    """Return batches of Penstock. `decoder` are options of its image decoder."""
    from penstock import data_iterator, fn, types

    @data_iterator(output_map=["images", "labels"], reader_name="reader", sharding=sharding)
    def definition():
        return pipeline(*files, workload, fn, types, **decoder)

    return epochs(definition(batch_size=rows, num_threads=threads, seed=1, prefetch_queue_depth=depth))


def dali(
    files: Files,
    workload: str,
    threads: int,
    sharding: NamedSharding | None = None,
    *,
    rows: int = BATCH,
    depth: int = 2,
) -> Batches:
    """Return batches of NVIDIA DALI's CPU backend and its JAX iterator, moved to the devices of a sharding."""
    from nvidia.dali import fn, types
    from nvidia.dali.plugin.jax import data_iterator

    @data_iterator(output_map=["images", "labels"])
    def definition():
        return pipeline(*files, workload, fn, types)

    batches = iter(definition(batch_size=rows, num_threads=threads, device_id=None, seed=1, prefetch_queue_depth=depth))
    return batches if sharding is None else (jax.device_put(batch, sharding) for batch in batches)


CONTENDERS: dict[str, Any] = {
    "DALI": dali,
    "penstock": penstock,
    "penstock, turbojpeg": partial(penstock, backend="turbojpeg"),
    "penstock, regions": partial(penstock, backend="nvimgcodec"),
    "penstock, reduced": partial(penstock, reduced=True),
    "by hand": by_hand,
    "by hand, aligned": partial(by_hand, aligned=True),
    "decoding alone": decoding_alone,
    "tf.data": tf_data,
    "Grain": grain,
    "torch DataLoader": torch_data_loader,
    "Pillow in a pool": pillow,
}


def on_devices(count: int) -> dict[str, Any]:
    """Return the contenders with batches sharded over `count` devices, and Penstock on one device."""
    sharding = NamedSharding(jax.make_mesh((count,), ("batch",)), PartitionSpec("batch"))
    sharded = {name: partial(CONTENDERS[name], sharding=sharding) for name in ("penstock", "DALI", "by hand")}
    return {"penstock, 1 device": penstock, **sharded}


def main() -> None:
    """Run the workloads."""
    parser = arguments(__doc__, images=4 * BATCH)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", 8)
    count = min(8, jax.device_count())
    sharded = on_devices(count)
    selected({**CONTENDERS, **sharded}, options.only)
    files = jpegs(options.folder)
    for workload in selected(WORKLOADS, options.workloads):
        many = workload == "devices"
        makers = sharded if many else CONTENDERS
        if workload == "views":
            makers = {name: CONTENDERS[name] for name in ("DALI", "penstock")}
        for threads in options.threads:
            task = "train" if many else workload
            contenders = {name: partial(make, files, task, threads) for name, make in makers.items()}
            title = f"ImageNet, {f'train on {count} devices' if many else workload}, {threads} threads"
            compare(title, contenders, options, ("penstock, 1 device",) if many else REFERENCES)


if __name__ == "__main__":
    main()
