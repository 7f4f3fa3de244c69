"""Cache of results of a function, each for the life of its argument."""

import functools
from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
R = TypeVar("R")


def weak_cache(function: Callable[[T], R]) -> Callable[[T], R]:
    """Cache the results of a function of one object, each until nothing else refers to the object.

    Unlike those of `functools.cache`, the entries of functions that users make in a loop do not accumulate. A result
    must not refer to the object.
    """
    results: MutableMapping[Any, R] = WeakKeyDictionary()

    @functools.wraps(function)
    def cached(argument: T) -> R:
        try:
            return results[argument]
        except KeyError:
            result = results[argument] = function(argument)
            return result

    return cached
