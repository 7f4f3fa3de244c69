"""Tests of error limits in any number of processes."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.failures.bad_row import BadRow, BadSample
from penstock.engine.failures.error_budget import ErrorBudget, ErrorLimits
from penstock.engine.failures.error_statistics import BUCKETS
from penstock.errors import SampleError

READER = "reader"


class Store:
    """Key-value store of a job, as one process sees it."""

    def __init__(self, texts, process):
        self.texts, self.process = texts, process

    def put(self, name, text):
        self.texts[name] = text

    def read(self, folder):
        return {name: text for name, text in self.texts.items() if name.startswith(f"{folder}/")}


def bad_row(number):
    sample = BadSample(READER, number)
    return BadRow(number, (sample,), "decode", "it is bad", "skip", SampleError("it is bad", index=number))


def ledger(rate, window, batch_size, board=None):
    return ErrorBudget([READER], ErrorLimits(None, rate, window), None, board, batch_size)


def take(one, rows, times=1):
    """Deliver a batch. `times` is the number of attempts per bad row."""
    one.add([bad_row(number) for number in np.flatnonzero(rows).tolist() for _ in range(times)], len(rows))


def ends(one, batches):
    """Return the number of the batch that exceeds the limit, or None."""
    for number, rows in enumerate(batches):
        try:
            take(one, rows)
        except SampleError:
            return number
    return None


def expected(rate, window, batches):
    """Reference for `ends` that counts row by row. Windows start at multiples of a sixteenth of their length."""
    rows = np.concatenate([[False], *batches]).cumsum()
    span, end = max(window, len(batches[0])), 0
    bucket = -(-span // BUCKETS)
    for number, batch in enumerate(batches):
        end += len(batch)
        first = max(0, (end - span) // bucket) * bucket
        if batch.any() and rows[end] - rows[first] > rate * max(end - first, span):
            return number
    return None


def cut(bad, batch_size):
    return [bad[start : start + batch_size] for start in range(0, len(bad), batch_size)]


@st.composite
def runs(draw):
    """Draw a rate, a window, and batches with bad rows that are smaller or larger than the window."""
    window = draw(st.integers(1, 60))
    batch_size = draw(st.one_of(st.integers(1, 8), st.just(window), st.integers(window, 150)))
    share = draw(st.sampled_from([0.02, 0.1, 0.5, 0.9, 1.0]))
    rows = draw(st.integers(1, 40)) * batch_size - draw(st.integers(0, batch_size - 1))  # the last may be a part of one
    bad = np.random.default_rng(draw(st.integers(0, 2**32))).random(rows) < share
    return draw(st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.9, 1.0])), window, cut(bad, batch_size)


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_error_limit_is_reached_at_same_batch_from_any_state(run, data):
    rate, window, batches = run
    size, end = len(batches[0]), expected(*run)
    assert ends(ledger(rate, window, size), batches) == end
    place = data.draw(st.integers(0, len(batches) if end is None else end))
    before, after = ledger(rate, window, size), ledger(rate, window, size)
    for rows in batches[:place]:
        take(before, rows)
    after.restore(json.loads(json.dumps(before.state())))
    assert after.state() == before.state()
    assert ends(after, batches[place:]) == (None if end is None else end - place)
    assert len(json.dumps(before.state())) <= before.room


@settings(max_examples=150, deadline=None)
@given(run=runs(), data=st.data())
def test_processes_agree_in_any_order_of_progress(run, data):
    """Each process has every third row and may be up to 2 batches ahead of the others."""
    rate, window, batches = run
    texts, taken = {}, [0, 0, 0]
    job = [ledger(rate, window, len(batches[0]), Store(texts, process)) for process in range(3)]
    over = False
    while not over and min(taken) < len(batches):
        able = [p for p in range(3) if taken[p] < min(len(batches), min(taken) + 3)]
        process = data.draw(st.sampled_from(able))
        rows = batches[taken[process]].copy()
        rows[np.arange(len(rows)) % 3 != process] = False
        taken[process] += 1
        try:
            take(job[process], rows)
        except SampleError:
            over = True
    assert over == (expected(*run) is not None)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 600, 999, 1000, 1001, 4096])
@pytest.mark.parametrize("times", [1, 3])
def test_rate_of_one_tolerates_all_rows(batch_size, times):
    one = ledger(1.0, 1000, batch_size)
    for _ in range(5000 // batch_size + 3):
        take(one, np.ones(batch_size, bool), times)
    assert one.counts()[READER] == one.state()["total"] > 5000


@pytest.mark.parametrize("batch_size", [1, 100, 600, 1000, 4096, 100_000])
def test_rate_does_not_depend_on_batch_size(batch_size):
    batches = cut(np.arange(6 * max(1000, batch_size)) % 100 < 3, batch_size)
    assert ends(ledger(0.1, 1000, batch_size), batches) is None
    batches = cut(np.arange(6 * max(1000, batch_size)) % 100 < 12, batch_size)
    assert ends(ledger(0.1, 1000, batch_size), batches) is not None


def test_message_contains_rows_and_rate():
    one = ledger(0.1, 1000, 4096)
    with pytest.raises(
        SampleError, match=r"^615 of the last 4096 rows have bad samples, and max_bad_rate=\(0.1, 1000\)"
    ):
        take(one, np.arange(4096) % 20 < 3)


def test_window_of_other_length_is_not_restored():
    one, other = ledger(0.5, 10, 4), ledger(0.5, 10, 40)
    take(one, np.ones(4, bool))
    other.restore(one.state())
    assert (other.counts()[READER], sum(other.state()["recent"])) == (4, 0)
    earlier = {"window" if name == "span" else name: value for name, value in one.state().items()}
    one.restore(earlier)  # as it was saved when a batch counted in the bucket of its last row
    assert (one.counts()[READER], sum(one.state()["recent"])) == (4, 0)
