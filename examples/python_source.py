"""Samples that Python computes in worker processes, with a function that is slow on purpose.

Each image shows a disc, which the function draws pixel by pixel in a few milliseconds. `parallel=True` distributes the
samples over worker processes, which receive the function and do not import JAX. The function receives the index of the
sample, so the state of the iterator remains a few numbers: the program stops in the middle of an epoch, and
another iterator resumes there.

    python examples/python_source.py --workers 2
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import numpy as np

from penstock import data_iterator, fn, types

SAMPLES, BATCH, SIDE = 96, 16, 48


class Discs:
    """Computed data set. Each worker process has a copy.

    Args:
        seed: Seed of the discs.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, info: types.SampleInfo) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return an image, the radius of its disc, and the process that drew it.

        Raises:
            StopIteration: After the last sample. Workers prepare batches ahead, so they also request later samples.
        """
        if info.idx_in_epoch >= SAMPLES:
            raise StopIteration
        row, column, radius = np.random.default_rng([self.seed, info.idx_in_epoch]).integers(8, SIDE - 8, 3)
        image = np.zeros((SIDE, SIDE, 1), np.uint8)
        for y in range(SIDE):
            for x in range(SIDE):
                if (y - row) ** 2 + (x - column) ** 2 < radius**2 // 4:
                    image[y, x] = 255
        return image, np.int32(radius), np.int32(os.getpid())


@data_iterator
def discs(source: Discs) -> Any:
    """Return noisy images, the radius of each disc, and the process that drew it."""
    images, radius, process = fn.external_source(
        source, num_outputs=3, batch=False, parallel=True, prefetch_queue_depth=2, layout=["HWC", "", ""]
    )
    images = fn.crop_mirror_normalize(images, crop=(SIDE, SIDE), std=255.0, mirror=fn.random.coin_flip())
    return {"images": images + fn.random.normal(images, stddev=0.1), "radius": radius, "process": process}


def main() -> None:
    """Read half of an epoch, and the other half with another iterator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    def make() -> Any:
        return discs(source=Discs(7), batch_size=BATCH, seed=3, py_num_workers=options.workers)

    iterator, processes, radii = make(), set(), []
    for number, batch in enumerate(iterator, 1):
        processes |= set(np.asarray(batch["process"]).tolist())
        radii.append(np.asarray(batch["radius"]))
        if number == SAMPLES // BATCH // 2:
            break
    state = json.dumps(iterator.get_state())
    rest = [np.asarray(batch["radius"]) for batch in iterator]
    iterator.close()
    drew = f"{len(processes)} processes drew {len(radii) + len(rest)} batches"
    print(f"{drew}; this one drew {'some' if os.getpid() in processes else 'none'}")

    other = make()
    other.set_state(json.loads(state))
    again = [np.asarray(batch["radius"]) for batch in other]
    other.close()
    print(f"a state of {len(state)} bytes: the other half is the same: {bool(np.array_equal(rest, again))}")


if __name__ == "__main__":
    main()
