"""Number of threads of dynamic mode: the threads that read and compute ahead."""

from __future__ import annotations

import os
from typing import Any

from penstock.core import with_call_site
from penstock.core.cpu_limits import cpu_limits
from penstock.errors import ArgumentTypeError, UsageError, short_repr

# DALI's limit, and its environment variable.
_MAX_THREADS_PER_CPU = 100
_VARIABLE = "DALI_NUM_THREADS"

_chosen: list[int] = []


@with_call_site
def get_num_threads() -> int:
    """Return the default number of threads.

    It is the number of `set_num_threads`, otherwise that of the environment variable DALI_NUM_THREADS, otherwise the
    number of CPUs that the process may use.

    Raises:
        UsageError: The variable is not a positive integer.
    """
    if _chosen:
        return _chosen[-1]
    text = os.environ.get(_VARIABLE, "")
    if not text:
        return cpu_limits().usable
    if not text.isdecimal() or not int(text):
        raise UsageError(f"{_VARIABLE} is not a number of threads", given=text, expected="an integer of at least 1")
    return int(text)


@with_call_site
def set_num_threads(n: int | None) -> None:
    """Set the default number of threads for readers that start later. None restores the default.

    Raises:
        ArgumentTypeError: It is not an integer.
        UsageError: It is not positive, or more than 100 per CPU.

    >>> set_num_threads(3)
    >>> get_num_threads()
    3
    >>> set_num_threads(None)
    """
    _chosen[:] = [] if n is None else [check_num_threads(n)]


def check_num_threads(n: Any) -> int:
    """Return a number of threads.

    Raises:
        ArgumentTypeError: It is not an integer.
        UsageError: It is not positive, or more than 100 per CPU.
    """
    if not isinstance(n, int) or isinstance(n, bool):
        raise ArgumentTypeError("the number of threads must be an integer", given=short_repr(n))
    limit = _MAX_THREADS_PER_CPU * (os.cpu_count() or 1)
    if not 0 < n <= limit:
        raise UsageError("the number of threads is out of range", given=n, expected=f"1 to {limit}")
    return n


class ThreadPool:
    """Number of threads that several contexts share.

    Threads are shared by all readers and pipelines with the same number, so the pool itself has none.

    Args:
        num_threads: Number of threads; by default that of `get_num_threads`.
        device_id: Must be None: the threads compute on the host.

    Raises:
        UsageError: The number is out of range, or a device is set.

    >>> ThreadPool(2).num_threads
    2
    """

    @with_call_site
    def __init__(self, num_threads: int | None = None, *, device_id: int | None = None) -> None:
        if device_id is not None:
            raise UsageError("threads belong to the host", given=f"device_id={device_id}", fix="device_id=None")
        self._num_threads = get_num_threads() if num_threads is None else check_num_threads(num_threads)

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return self._num_threads

    @property
    def device_id(self) -> None:
        """Always None: the threads compute on the host."""
        return
