"""Samples of sources, as this process and a worker process read them."""

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from penstock.sources.external.processes.shared_memory import opened, view
from penstock.sources.external.processes.task_pickling import pickled


def read_source(source):
    """Return the bytes of all values of all samples."""
    columns = source.read(np.arange(len(source)), [None] * len(source.specs))
    return [[np.asarray(value).tobytes() for value in column] for column in columns]


def check_worker_process(sources):
    """Check that a worker process reads the same samples.

    Args:
        sources: The sources by name. Worker processes get what `pickled` makes of them.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as worker:
        read = {name: worker.submit(_read_pickled, *_parts(source, name)) for name, source in sources.items()}
        for name, source in sources.items():
            assert read[name].result() == read_source(source), name


def _parts(source, name):
    """Return the pickle of a source, and its large arrays, which are in shared memory."""
    task = pickled(source, str(name))
    memory = None if task.descriptor is None else opened(os.dup(task.descriptor))
    return task.payload, [bytes(view(memory, place)) for place in task.arrays]


def _read_pickled(payload, arrays):
    return read_source(pickle.loads(payload, buffers=arrays))
