"""Sources that worker processes import: modules of tests are no modules there."""

import os
import pickle
import signal
import sys
import time
from pathlib import Path

import numpy as np

from penstock.errors import UsageError

LENGTH = 20


def numbered(info):
    """Ragged samples."""
    if info.idx_in_epoch >= LENGTH:
        raise StopIteration
    return np.full(info.idx_in_epoch % 3 + 1, info.idx_in_epoch + 100 * info.epoch_idx, np.int32)


def pairs(info):
    return numbered(info), np.float32([info.idx_in_batch, info.iteration])


def by_number(iteration):
    if iteration == 3:
        raise StopIteration
    return np.full((4, 2), iteration, np.uint16)


def mixed(info):
    """Samples of two dtypes in the second batch."""
    return np.zeros(2, np.float32 if info.idx_in_epoch == 4 else np.float64)


def fails_without_arguments(info):
    if info.idx_in_epoch == 4:
        error = UsageError("")
        error.args = ()
        raise error from ValueError("never raised")
    return np.int32(1)


def listed(iteration):
    """DALI's worker processes take lists only."""
    return list(by_number(iteration))


def told(info):
    return [np.int64([info.iteration, info.epoch_idx])] * 4


def by_info(info):
    if info.iteration == 2:
        raise StopIteration
    return [np.full((row + 1, 2), info.iteration + info.epoch_idx, np.float64) for row in range(4)]


def fewer(iteration):
    return np.full((max(1, 4 - iteration), 2), iteration, np.uint8)


def generated():
    for number in range(3):
        yield [np.full((number + 1, 2), number, np.float32)] * 4


LISTED = [np.full((4, 3), number, np.uint8) for number in range(3)]


def whereabouts(info):
    return np.int64([os.getpid(), "jax" in sys.modules])


class TwoArgumentsError(Exception):
    """Cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class Fails:
    """Raises for one sample."""

    def __init__(self, at, *error):
        self.at, self.error = at, error

    def __call__(self, info):
        if info.idx_in_epoch == self.at:
            raise self.error[0](*self.error[1:])  # the line of the user's
        return np.int32([info.idx_in_epoch])


def counted(info):
    """Larger samples in later batches."""
    return np.full(1000 * (info.iteration + 1), info.idx_in_epoch)


class Dies:
    """Is killed or exits: once if it can leave a mark, otherwise each time."""

    def __init__(self, mark, *, how):
        self.mark, self.how = mark, how

    def __call__(self, info):
        if info.idx_in_epoch == 6 and not (self.mark and Path(self.mark).exists()):
            if self.mark:
                Path(self.mark).touch()
            if self.how == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
        return np.int64([info.idx_in_epoch, os.getpid()])


def killed_generator():
    yield [np.int32([0])] * 4
    yield [np.int32([1])] * 4
    os.kill(os.getpid(), signal.SIGKILL)


def hangs(info):
    if info.idx_in_epoch >= 8:
        time.sleep(1e6)
    return np.int32([info.idx_in_epoch])


class ByValue:
    """A pickler of the user's."""

    @staticmethod
    def dumps(function, *, added):
        return added + pickle.dumps(function.__code__.co_name)

    @staticmethod
    def loads(payload, *, skipped):
        return globals()[pickle.loads(payload[skipped:])]


def local(info):
    return np.int32([42])


class Objects:
    def __call__(self, iteration):
        return np.full(4, None)


class Unloadable:
    """Is pickled, and cannot be loaded."""

    def __call__(self, info):
        return np.int32([0])

    def __reduce__(self):
        return int, ("no number",)


class Batches:
    """An object that can be iterated over, again and again."""

    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return ([np.full((row + 1,), number, np.int16) for row in range(4)] for number in range(self.length))
