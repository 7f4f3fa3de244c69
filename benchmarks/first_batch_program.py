"""Program that computes one batch and prints the times of its parts as JSON.

    python benchmarks/first_batch_program.py LIBRARY FILE     LIBRARY: penstock or dali; FILE: {"paths", "labels", ...}

Imports are local, because the benchmark measures each of them separately.
"""

import json
import sys
import time

moments = {"python": (time.time(), time.process_time())}


def done(part: str) -> None:
    """Record the current time and the CPU time of this process."""
    moments[part] = time.time(), time.process_time()


def main(library: str, file: str) -> None:
    """Import, plan and compute the first batch."""
    with open(file) as text:  # noqa: PTH123  # pathlib takes a while to import
        task = json.load(text)

    import jax

    jax.devices()
    done("jax")

    if library == "penstock":
        from penstock import data_iterator, fn, types
    else:
        from nvidia.dali import fn, types
        from nvidia.dali.plugin.jax import data_iterator
    done("library")

    from pipelines import imagenet

    @data_iterator(output_map=["images", "labels"], reader_name="reader", prepare_first_batch=False)
    def training():
        return imagenet(task["paths"], task["labels"], "train", fn, types)

    threads, rows = task["threads"], task["batch_size"]
    iterator = training(batch_size=rows, num_threads=threads, seed=1, device_id=None)
    done("plan")

    batch = next(iter(iterator))
    jax.block_until_ready(batch)
    done("batch")
    print(json.dumps(moments))


if __name__ == "__main__":
    main(*sys.argv[1:])
