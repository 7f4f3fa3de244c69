"""Tests of the chunk scheduler."""

import sys

import pytest

from penstock.engine.host.chunk_scheduler import ChunkScheduler


def scheduler(seconds, *, by_sample=True, decodes=True, whole=False, expensive=True):
    """Return a scheduler that has measured a cost per sample; None for no measurement."""
    result = ChunkScheduler(by_sample=by_sample, decodes=decodes, whole=whole, expensive=expensive)
    result._recent += [] if seconds is None else [seconds]
    return result


@pytest.mark.parametrize(
    ("seconds", "rows", "workers", "ahead", "chunks"),
    [
        (None, 256, 64, 2, 64),  # the first batch is needed at once
        (3e-3, 256, 2, 2, 2),
        (3e-3, 256, 8, 2, 8),
        (3e-3, 256, 64, 4, 16),  # the chunks of four batches occupy 64 workers
        (3e-3, 256, 64, 2, 32),
        (3e-3, 256, 64, 16, 4),  # 64 rows per chunk are enough
        (3e-3, 256, 16, 16, 4),
        (3e-3, 256, 12, 16, 5),
        (3e-3, 256, 8, 16, 8),
        (3e-3, 256, 64, 0, 64),  # nothing else occupies them
        (100e-3, 8, 8, 2, 4),
        (100e-6, 256, 64, 4, 3),  # 26 ms
        (10e-6, 256, 64, 4, 1),  # cheap samples that run Python
    ],
)
def test_chunks(seconds, rows, workers, ahead, chunks):
    assert scheduler(seconds).chunks(rows, workers, ahead) == chunks


def test_the_first_batch_is_split_if_it_is_probably_expensive():
    assert scheduler(None, by_sample=False).chunks(256, 4, 2) == 4
    assert scheduler(None, by_sample=False, expensive=False).chunks(256, 4, 2) == 1


@pytest.mark.parametrize(
    ("seconds", "by_sample", "whole", "pairs"),
    [
        (5e-6, False, False, True),
        (10e-6, False, False, False),  # worth more threads than pairs keep busy
        (10e-6, True, False, True),  # one thread computes them all
        (5e-6, False, True, False),
        (50e-6, True, False, False),  # a batch is worth two chunks
        (100e-6, False, False, False),
        (None, False, False, False),
    ],
)
def test_pairs(seconds, by_sample, whole, pairs):
    assert scheduler(seconds, by_sample=by_sample, whole=whole).pairs_batches(256, 8) == pairs


def test_samples_that_threads_share_are_not_paired():
    assert scheduler(100e-6, by_sample=False).pairs_batches(8, 8)
    assert not scheduler(100e-6).pairs_batches(8, 8)


def test_longer_batches_are_paired_if_pairs_keep_all_threads_busy():
    assert scheduler(10e-6, by_sample=False).pairs_batches(256, 2)
    assert not scheduler(100e-6, by_sample=False).pairs_batches(256, 2)  # 26 ms are worth several chunks


@pytest.mark.parametrize(
    ("seconds", "limit", "batches"),
    [(1e-6, 8, 8), (10e-6, 3, 3), (40e-6, 8, 6), (100e-6, 8, 2), (130e-6, 8, 0), (None, 8, 0)],
)
def test_light_batches_are_computed_together_for_two_milliseconds(seconds, limit, batches):
    assert scheduler(seconds).inline_batches(8, limit) == batches
    assert scheduler(seconds, whole=True).inline_batches(8, limit) == min(batches, 1)


@pytest.mark.parametrize(
    ("interval", "seconds", "decodes", "cheap", "pairs"),
    [
        (5e-3, 10e-6, True, True, True),
        (2e-4, 10e-6, True, False, True),
        (2e-4, 10e-6, False, True, True),  # Python that keeps the GIL
        (2e-4, 100e-6, True, False, False),
    ],
)
def test_two_threads_decode_small_images_if_the_switch_interval_is_short(
    monkeypatch, interval, seconds, decodes, cheap, pairs
):
    monkeypatch.setattr(sys, "getswitchinterval", lambda: interval)
    one = scheduler(seconds, decodes=decodes)
    assert one.cheap == cheap
    assert one.pairs_batches(256, 8) == pairs


def bounded(cpus=2):
    return ChunkScheduler(by_sample=True, decodes=True, whole=False, expensive=True, cpus=cpus)


def test_more_threads_than_cpus_do_not_compute_unless_they_wait():
    one = bounded()
    assert (one.workers(8), one.workers(1), one.measures_waits) == (2, 1, True)
    for _ in range(3):
        one.record(0.1, 64, 0.06)
    assert one.workers(8) == 2, "the first chunks may have compiled loops"
    one.record(0.1, 64, 0.06)
    assert (one.workers(8), one.measures_waits) == (8, False)
    one.record(0.1, 64, 0.1)
    assert one.workers(8) == 8, "more threads than CPUs always wait"


def test_chunks_that_compute_most_of_the_time_do_not_wait():
    one = bounded()
    for seconds in (0.06, 0.1, 0.06, 0.06, 0.09, 0.06, 0.06, 0.06):
        one.record(0.1, 64, seconds)
        one.record(1e-4, 1, 0.0)  # too short to say anything
    assert one.workers(8) == 2
    one.record(0.1, 64, 0.02)
    assert one.workers(8) == 8


def test_all_threads_compute_if_it_is_not_known_that_the_cpus_are_enough():
    one = bounded(None)
    assert (one.workers(8), one.measures_waits) == (8, False)
