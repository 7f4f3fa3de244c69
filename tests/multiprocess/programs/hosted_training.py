"""Compare the batches of input hosts with those of threads. Also a program for `penstock serve`.

The hosts are in the environment, and may start later than this program. Prints how many of them have computed rows.
"""

from __future__ import annotations

import re
import time

import numpy as np

from penstock import data_iterator, fn


@data_iterator(auto_reset=True)
def training(count):
    """Shuffled images with random crops."""
    images = fn.readers.arrays(np.arange(count * 3 * 64 * 64).reshape(count, 64, 64, 3) % 251, random_shuffle=True)
    images = fn.random_resized_crop(fn.cast(images, dtype=np.uint8), size=(96, 96))
    return {"images": fn.flip(images, horizontal=fn.random.coin_flip())}


def compare(input_hosts=None):
    """Compare batches until each host has computed some, for at most a minute."""
    end, used = time.monotonic() + 60, [""]
    arguments = {"count": 96, "batch_size": 24, "seed": 1}
    with training(**arguments, input_hosts=input_hosts) as there, training(**arguments, input_hosts=[]) as here:
        while not all(used) and time.monotonic() < end:
            for left, right in zip(there, here, strict=True):
                assert all(np.array_equal(left[name], right[name]) for name in left)
            used = [float(size) for size in re.findall(r"([\d.]+) MB", there.stats().workers)]
    return f"the same batches from {sum(map(bool, used))} of {len(used)} input hosts"


if __name__ == "__main__":
    print(compare(), flush=True)
