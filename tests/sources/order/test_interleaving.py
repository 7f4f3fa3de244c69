"""Turns: shares are exact over any stretch, and any position can be asked for at once."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.sources.order.interleaving import Interleaving

weights = st.lists(
    st.one_of(st.integers(0, 9), st.integers(1, 10**9), st.floats(1e-6, 1e6)), min_size=1, max_size=9
).filter(any)


def counts(turns, first, count):
    """How many of these turns each data set has up to each of them, (count + 1, data sets)."""
    owners, _ = turns.member_at(np.arange(first, first + count))
    each = owners[:, None] == np.arange(len(turns.shares))
    return np.concatenate([np.zeros((1, len(turns.shares)), np.int64), np.cumsum(each, 0)])


def deviation(tree, above=Fraction(0)):
    """The largest deviation of a tree that inherits `above`: each rounding adds 1/2 to its share of that."""
    if isinstance(tree, int):
        return above
    left, right, share = tree
    half = Fraction(1, 2)
    return max(deviation(left, half + share * above), deviation(right, half + (1 - share) * above))


def largest(turns, passed, window):
    """The largest difference of any stretch's counts from the exact shares."""
    exact = np.array([float(share) for share in turns.shares]) * window
    return np.abs(passed[window:] - passed[:-window] - exact).max()


@given(weights)
@settings(max_examples=60, deadline=None)
def test_the_first_positions_have_the_shares_that_deviation_promises(given):
    turns = Interleaving.from_weights(given)
    passed = counts(turns, 0, 3000)
    exact = np.arange(3001)[:, None] * np.array([float(share) for share in turns.shares])
    assert np.abs(passed - exact).max() <= float(deviation(turns._tree)) + 1e-9
    assert float(deviation(turns._tree)) <= (0.5 if len(np.flatnonzero(given)) <= 2 else 1.7)


@given(weights.filter(lambda given: np.count_nonzero(given) <= 2), st.integers(0, 10**12))
@settings(max_examples=60, deadline=None)
def test_any_stretch_of_two_has_fewer_than_one_sample_more_or_less(given, first):
    turns = Interleaving.from_weights(given)
    passed = counts(turns, first, 1500)
    assert all(largest(turns, passed, window) < 1 + 1e-6 for window in (1, 2, 3, 7, 10, 64, 100, 999, 1500))


@given(weights, st.integers(0, 10**12))
@settings(max_examples=40, deadline=None)
def test_any_stretch_of_more_is_within_twice_the_deviation(given, first):
    turns = Interleaving.from_weights(given)
    passed = counts(turns, first, 1500)
    assert all(
        largest(turns, passed, window) <= 2 * float(deviation(turns._tree)) + 1e-6 for window in (1, 5, 64, 333, 1500)
    )


@given(weights, st.integers(0, 1 << 40))
@settings(max_examples=40, deadline=None)
def test_every_data_set_goes_through_its_own_positions_one_by_one(given, first):
    turns = Interleaving.from_weights(given)
    owners, ranks = turns.member_at(np.arange(first, first + 5000))
    for owner in np.unique(owners):
        assert np.array_equal(np.diff(ranks[owners == owner]), np.ones((owners == owner).sum() - 1))
        assert given[owner] > 0
    some = np.random.default_rng(0).permutation(5000)[:50]
    alone = turns.member_at(first + some)
    assert np.array_equal(alone, (owners[some], ranks[some]))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1], "ABABABAB"), ([3, 1], "AABAAABA"), ([0.75, 0.25], "AABAAABA"), ([0, 2, 0], "BBBBBBBB")],
)
def test_it_looks_like_this(weights, expected):
    owners, _ = Interleaving.from_weights(weights).member_at(np.arange(8))
    assert "".join("ABC"[owner] for owner in owners) == expected


def test_decimals_are_exact_and_nothing_drifts():
    assert Interleaving.from_weights([0.1, 0.2, 0.7]).shares == (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))
    _, ranks = (turns := Interleaving.from_weights([0.1, 0.9])).member_at(np.array([10**18]))
    owners, _ = turns.member_at(np.arange(10**18, 10**18 + 10))
    assert ranks[0] in (10**17, 9 * 10**17)
    assert (owners == 0).sum() == 1
