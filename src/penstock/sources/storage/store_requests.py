"""Requests to object stores and web servers: interruptible, and reported if they take long.

obstore blocks the calling thread until the server answers or its retries end, after some minutes, and Python handles
Ctrl-C only then. So the main thread waits for another one, a daemon, which cannot keep the program from ending either.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, TypeVar

from penstock.core.slow_waits import PATIENCE_SECONDS, SlowWait
from penstock.sources.storage.byte_range import ByteRange

P = ParamSpec("P")
T = TypeVar("T")
Target = TypeVar("Target", str, ByteRange)

# Paths of requests without an answer, by thread.
_pending: dict[int, str] = {}

# Requests in flight from `map_concurrently`. They wait for the network, so this does not depend on the number of cores.
_CONCURRENCY = 32


def store_request(function: Callable[Concatenate[Target, P], T]) -> Callable[Concatenate[Target, P], T]:
    """Make a function that requests something from a store interruptible. Its first argument is what it requests."""

    @functools.wraps(function)
    def request(target: Target, *args: P.args, **kwargs: P.kwargs) -> T:
        thread = threading.get_ident()
        if thread != threading.main_thread().ident:
            _pending[thread] = target if isinstance(target, str) else target.path
            try:
                return function(target, *args, **kwargs)
            finally:
                _pending.pop(thread, None)
        future: Future[T] = Future()

        def answer() -> None:
            try:
                future.set_result(request(target, *args, **kwargs))
            except BaseException as error:  # noqa: BLE001  # the future raises it
                future.set_exception(error)

        with SlowWait(_describe):
            threading.Thread(target=answer, name="penstock-fetch", daemon=True).start()
            return future.result()

    return request


def slow_requests() -> str:
    """Return a text that names requests without an answer; "" if there are none."""
    paths = sorted(set(_pending.copy().values()))
    if not paths:
        return ""
    others = f" and {len(paths) - 1} others" if len(paths) > 1 else ""
    return f"the answer of a server that is silent or slow: {paths[0]}{others}"


def _describe() -> str:
    return f"waiting for {PATIENCE_SECONDS:g} s for {slow_requests() or 'a server'}"


def map_concurrently(function: Any, items: Any) -> list[Any]:
    """Call a function for each item on several threads. Return the results, or the OSError of a call that failed."""
    work = list(items)
    if len(work) < 2:
        return [_outcome(function, item) for item in work]
    results: list[Any] = [None] * len(work)
    places, errors = iter(range(len(work))), list[BaseException]()
    arguments = function, work, places, results, errors
    # Not a pool of `concurrent.futures`, which the end of the program waits for.
    threads = [
        threading.Thread(target=_call_each, args=arguments, name="penstock-fetch", daemon=True)
        for _ in range(min(_CONCURRENCY, len(work)))
    ]
    with SlowWait(_describe):
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for _ in places:  # after Ctrl-C, the threads find nothing more to do
                pass
    if errors:
        raise errors[0]
    return results


def _call_each(
    function: Any, work: list[Any], places: Iterator[int], results: list[Any], errors: list[BaseException]
) -> None:
    # Threads may share the iterator: its `next` is a single operation under the GIL.
    for place in places:
        try:
            results[place] = _outcome(function, work[place])
        except BaseException as error:  # noqa: BLE001  # the caller raises it
            errors.append(error)
            for _ in places:
                pass


def _outcome(function: Any, item: Any) -> Any:
    try:
        return function(item)
    except OSError as error:
        return error


def map_or_raise(function: Callable[[Any], Any], items: Iterable[Any], *, concurrent: bool = True) -> list[Any]:
    """Call a function for each item and return the results.

    Args:
        function: The function.
        items: Its arguments.
        concurrent: True to call it on several threads.

    Raises:
        OSError: The error of the first call that failed.
    """
    results = map_concurrently(function, items) if concurrent else list(map(function, items))
    for result in results:
        if isinstance(result, OSError):
            raise result
    return results
