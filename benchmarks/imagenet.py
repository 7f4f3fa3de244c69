"""What feeding ImageNet costs, against DALI on the CPU, a loop by hand, and other ways to do it.

    python benchmarks/imagenet.py FOLDER [--workloads NAME ...] [--only NAME ...]

FOLDER holds JPEGs, flat or in a folder per class. Workloads: `train` (random crop, 224 x 224, mirror, normalise,
shuffled) to float32 NCHW, `bytes` (the same without normalising, to uint8 NHWC), `evaluate` (shorter side 256, centre
crop 224, normalise) to float32 NCHW; `views`, training with a colour twist, a blur and an erased region besides, as
self-supervised training has them, for DALI and penstock; and `devices`, training on one device and on eight emulated
ones.

Targets on two threads: CPU time at most that of the loop by hand, which decodes all of each image, and 0.85 of it where
only regions are decoded; at most 0.7 of DALI's for `views`; on eight devices at most 1.05 of that on one.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
from data import Files, jpegs
from imagenet_by_hand import by_hand
from imagenet_frameworks import grain, pillow, tf_data
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
    """This library, with options of its decoder."""
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
    """NVIDIA DALI's CPU backend and its iterator for JAX, whose arrays are then put on the devices of a sharding."""
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
    "penstock, regions": partial(penstock, backend="nvimgcodec"),
    "penstock, reduced": partial(penstock, reduced=True),
    "by hand": by_hand,
    "by hand, aligned": partial(by_hand, aligned=True),
    "tf.data": tf_data,
    "Grain": grain,
    "Pillow in a pool": pillow,
}


def on_devices(count: int) -> dict[str, Any]:
    """The contenders whose batches go to many devices, and penstock on one."""
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
        made = sharded if many else CONTENDERS
        if workload == "views":
            made = {name: CONTENDERS[name] for name in ("DALI", "penstock")}
        for threads in options.threads:
            task = "train" if many else workload
            contenders = {name: partial(make, files, task, threads) for name, make in made.items()}
            title = f"ImageNet, {f'train on {count} devices' if many else workload}, {threads} threads"
            compare(title, contenders, options, ("penstock, 1 device",) if many else REFERENCES)


if __name__ == "__main__":
    main()
