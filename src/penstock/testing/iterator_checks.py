"""Check of iterators: batches are a pure function of the step, and the state is small."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from penstock.iterate import DataIterator

Arrays = Mapping[str, np.ndarray[Any, Any]]


def check_iterator(make: Callable[[], DataIterator], epochs: int = 2) -> list[list[Arrays]]:
    """Check the contract of an iterator.

    Its length is the number of batches of each epoch. Restored from the state at any step, another iterator continues
    with the same batches. The state is at most 1 KB of JSON, always with the same keys.

    Args:
        make: Returns a new iterator, at its first batch.
        epochs: The number of epochs to check.

    Returns:
        The batches of each epoch, as NumPy arrays, to compare iterators.

    Raises:
        AssertionError: the iterator violates the contract.

    Example:
        >>> from penstock import train
        >>> epochs = check_iterator(lambda: train.batches(np.arange(40.0), 16, shuffle=True))
        >>> [len(batches) for batches in epochs]
        [2, 2]
    """
    iterator = make()
    states: list[dict[str, Any]] = []
    stream: list[list[Arrays]] = []
    for _ in range(epochs):
        batches: list[Arrays] = []
        # Begins the next epoch, as a `for` loop does.
        iter(iterator)
        while True:
            states.append(iterator.get_state())
            batch = next(iterator, None)
            if batch is None:
                break
            batches.append({name: np.asarray(array) for name, array in batch.items()})
        assert len(batches) == len(iterator), "len() is the number of batches"
        stream.append(batches)
    assert all(json.loads(json.dumps(state)) == state for state in states), "a state is plain JSON"
    assert all(len(json.dumps(state)) <= 1024 for state in states), "a state is at most 1 KB"
    assert len({tuple(state) for state in states}) == 1, "a state has always the same entries"
    _check_restored(make, states, stream)
    return stream


def _check_restored(make: Callable[[], DataIterator], states: list[dict[str, Any]], stream: list[list[Arrays]]) -> None:
    other = make()
    number = 0
    for epoch, batches in enumerate(stream):
        for done in range(len(batches) + 1):
            # A saved state has been JSON: tuples became lists, and integer keys became strings.
            other.set_state(json.loads(json.dumps(states[number])))
            assert other.get_state() == states[number], "a restored iterator has the state that it was given"
            # Three batches show a wrong position, order or random stream. All of them would take quadratic time.
            rest = [{name: np.asarray(array) for name, array in batch.items()} for batch in islice(other, 3)]
            expected = batches[done : done + 3] if done < len(batches) else [*stream, []][epoch + 1][:3]
            if done < len(batches) or epoch + 1 < len(stream):
                assert same_batches(rest, expected), f"restored at epoch {epoch}, batch {done}, the stream differs"
            number += 1


def same_batches(left: Sequence[Arrays], right: Sequence[Arrays]) -> bool:
    """True if two lists of batches are equal bit-for-bit."""
    return len(left) == len(right) and all(
        one.keys() == other.keys()
        and all(one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name]) for name in one)
        for one, other in zip(left, right, strict=True)
    )
