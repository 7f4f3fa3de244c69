"""Data set that counts its reads, and an iterator over it."""

import numpy as np

from penstock import data_iterator, fn


class Counted:
    """Data set that counts how often it is read."""

    def __init__(self, length):
        self.length, self.reads = length, 0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.reads += 1
        return np.int64(index)


def counted(length=16_000_000):
    """Return a data set, and an iterator over its shuffled samples in batches of 4 that has not read any."""
    data = Counted(length)

    @data_iterator(output_map=["x"], reader_name="r", prepare_first_batch=False)
    def definition():
        return fn.readers.items(data, name="r", random_shuffle=True)

    return data, definition(batch_size=4, seed=1, num_threads=1, prefetch_queue_depth=1)
