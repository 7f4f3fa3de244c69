"""Samples of a source, as a worker process reads them."""

import pickle

import numpy as np


def read_pickled_source(data):
    """Return what `read_source` returns for a pickled source."""
    return read_source(pickle.loads(data))


def read_source(source):
    """Return the bytes of all values of all samples."""
    columns = source.read(np.arange(len(source)), [None] * len(source.specs))
    return [[np.asarray(value).tobytes() for value in column] for column in columns]
