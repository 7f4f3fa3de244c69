"""Parts of data sets, data sets joined, mixed and drawn from: sources like any other, and what orders promise."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core import Spec
from penstock.errors import ArgumentTypeError, DefinitionError
from penstock.sources.combine.concatenation import ConcatMember, ConcatSource
from penstock.sources.combine.subset import SubsetSource, make_subset, resample_by_weight
from penstock.sources.files.file_lists import files_from_paths
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.order.interleaving import InterleavedSelection, Interleaving
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.order.weighted_sampling import WeightedSampling
from penstock.testing import ListSource, check_bad_samples, check_source


def rows(first, last, dtype=np.int64):
    return ArraySource([np.arange(first, last, dtype=dtype), np.arange(first, last)[:, None] * 2.0], ["", "C"])


def ragged(*lengths):
    return ListSource([[np.full(length, length) for length in lengths]])


def joined(*sources, values=None, **more):
    return ConcatSource(
        [ConcatMember(s, values or tuple(range(len(s.specs))), f"part {n}") for n, s in enumerate(sources)], **more
    )


def values(source, indices=None):
    every = np.arange(len(source)) if indices is None else np.asarray(indices)
    return [np.asarray(each).tolist() for each in source.read(every, [None] * len(source.specs))[0]]


@pytest.mark.parametrize(
    "source",
    [
        joined(rows(0, 5), rows(10, 13)),
        joined(rows(0, 5), rows(10, 13), values=(1,)),
        joined(ragged(3, 1, 2), ragged(5)),
        joined(ragged(3, 1, 2), ListSource([[np.ones(4, np.int64)]], shapes=[(4,)])),
        SubsetSource(rows(0, 40), range(30, 3, -2)),
        SubsetSource(ragged(1, 2, 3, 4), np.array([3, 0, 0])),
        resample_by_weight(rows(0, 9), np.arange(9)),
        joined(rows(0, 5), SubsetSource(joined(rows(0, 3), rows(7, 9)), np.array([4, 1]))),
    ],
    ids=["joined", "a value", "ragged", "dense and ragged", "range", "numbers", "drawn", "nested"],
)
def test_they_are_sources_like_any_other(source):
    check_source(source)
    assert source.reads_same_samples(source)
    assert not source.reads_same_samples(rows(0, 5))


def test_samples_that_cannot_be_read_are_named_as_they_are_in_the_whole(tmp_path):
    (tmp_path / "there").write_bytes(b"...")
    here, gone = str(tmp_path / "there"), str(tmp_path / "gone")
    files = files_from_paths("", (here, gone, here), None)
    check_bad_samples(SubsetSource(files, np.array([1, 0, 1, 2])), [0, 2])
    check_bad_samples(joined(files_from_paths("", (here,), None), files, files), [2, 5])


def test_what_is_joined_is_found_in_its_place():
    both = joined(rows(0, 5), rows(10, 13))
    assert values(both, [7, 0, 5, 4]) == [12, 0, 10, 4]
    assert both.describe(6) == "row 1 of arrays"
    assert joined(rows(0, 2, np.int32), SubsetSource(rows(0, 5, np.int32), range(1, 2))).specs[0] == Spec(
        np.dtype("i4"), ()
    )
    assert str(joined(ragged(1), ListSource([[np.ones(4, np.int64)]], shapes=[(4,)])).specs[0]) == "int64[?]"


def test_the_fingerprint_tells_everything():
    mixed = [
        InterleavedSelection((5, 3), (None, None), Interleaving.from_weights(w), size)
        for w, size in (([1, 1], 8), ([1, 2], 8), ([1, 1], 9))
    ]
    sources = [
        joined(rows(0, 5), rows(10, 13)),
        joined(rows(0, 5), rows(10, 13), values=(0,)),
        joined(rows(10, 13), rows(0, 5)),
        *(joined(rows(0, 5), rows(10, 13), choice=choice) for choice in mixed),
        SubsetSource(rows(0, 5), range(3)),
        SubsetSource(rows(0, 5), np.array([0, 2, 1])),
        SubsetSource(rows(1, 6), range(3)),
        resample_by_weight(rows(0, 5), [1, 1, 1, 1, 1]),
        resample_by_weight(rows(0, 5), [1, 1, 1, 1, 2]),
    ]
    prints = [source.fingerprint() for source in sources]
    assert len(set(prints)) == len(prints)
    assert not any(one.reads_same_samples(other) for one, other in pairwise(sources))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (slice(2, 100, 3), [2, 5, 8]),
        (slice(None, 3), [0, 1, 2]),
        (range(9, 6, -1), [9, 8, 7]),
        ([4, 4, 0], [4, 4, 0]),
        (np.arange(10) % 5 == 0, [0, 5]),
        (lambda index: index % 4 == 1, [1, 5, 9]),
        (lambda index: index[-2:], [8, 9]),
        (slice(None), list(range(10))),
    ],
)
def test_a_subset_has_these_samples(given, expected):
    assert values(make_subset(rows(0, 10), given)) == expected


def test_a_split_is_two_subsets():
    whole = rows(0, 100)
    train, valid = (make_subset(whole, test) for test in (lambda index: index % 10 > 0, lambda index: index % 10 == 0))
    assert (len(train), len(valid)) == (90, 10)
    assert sorted(values(train) + values(valid)) == list(range(100))


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (slice(10, 20), DefinitionError, "leaves no sample"),
        ([], DefinitionError, "leaves no sample"),
        (lambda index: index < 0, DefinitionError, "leaves no sample"),
        (range(8, 12), DefinitionError, "8 to 11"),
        ([0, -1], DefinitionError, "-1 to 0"),
        ([True, False], DefinitionError, "2\n  expected: 10"),
        ([0.5], ArgumentTypeError, "[0.5]"),
        ("train", ArgumentTypeError, "'train'"),
        ([[1], [1, 2]], ArgumentTypeError, "function"),
    ],
)
def test_a_subset_that_cannot_be_is_refused(given, kind, says):
    with pytest.raises(kind, match="subset") as caught:
        make_subset(rows(0, 10), given)
    assert says in str(caught.value)


@given(st.lists(st.integers(8, 40), min_size=1, max_size=4), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=15, deadline=None)
def test_each_data_set_of_a_mixture_goes_through_all_of_its_samples_before_it_begins_again(sizes, rng, shuffle):
    weights = [rng.choice([0.1, 1, 2.5, 7]) for _ in sizes]
    epoch = rng.randint(5, 80)
    choice = InterleavedSelection(tuple(sizes), (None,) * len(sizes), Interleaving.from_weights(weights), epoch)
    order = SampleOrder(epoch, shuffle, seed=rng.randint(0, 9), choice=choice)
    stream = np.concatenate([order.indices(number, np.arange(epoch)) for number in range(-(-200 // epoch))])
    ends = np.cumsum(sizes)
    for end, size in zip(ends, sizes, strict=True):
        own = stream[(stream >= end - size) & (stream < end)] - (end - size)
        for first in range(0, len(own) - size + 1, size):
            taken = own[first : first + size]
            assert sorted(taken.tolist()) == list(range(size)), "exactly once"
            assert shuffle or taken.tolist() == list(range(size))
    places = np.array([rng.randrange(len(stream)) for _ in range(20)])
    assert np.array_equal(order.indices_over_epochs(places), stream[places]), "any position can be asked for at once"


def test_a_mixture_of_mixtures_and_draws():
    inner = InterleavedSelection((3, 2), (None, None), Interleaving.from_weights([1, 1]), 5)
    draws = WeightedSampling.from_weights(np.array([0, 0, 1.0]))
    order = SampleOrder(12, choice=InterleavedSelection((5, 3), (inner, draws), Interleaving.from_weights([2, 1]), 12))
    assert order.indices(0, np.arange(12)).tolist() == [0, 7, 3, 1, 7, 4, 2, 7, 3, 0, 7, 4]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40).filter(any), st.integers(0, 1 << 63))
@settings(max_examples=50, deadline=None)
def test_draws_are_as_often_as_weights_say_and_depend_on_the_position_alone(weights, seed):
    weights = np.array(weights)
    choice = WeightedSampling.from_weights(weights)
    made = choice.indices(np.arange(4000), shuffle=False, seed=seed)
    share = weights / weights.sum()
    often = np.bincount(made, minlength=len(weights)) / 4000
    assert np.abs(often - share).max() < 6 * np.sqrt(0.25 / 4000)
    assert not often[weights == 0].any()
    assert np.array_equal(choice.indices(np.array([3999, 7]), shuffle=True, seed=seed), made[[3999, 7]])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12).filter(any), st.integers(1, 1 << 63))
@settings(max_examples=60, deadline=None)
def test_another_draw_is_another_sample_of_weight(weights, shift):
    choice = WeightedSampling.from_weights(np.array(weights))
    own = np.flatnonzero(weights)
    others = choice.replacement_indices(own, np.arange(shift, shift + len(own), dtype=np.uint64))
    assert all(weights[other] for other in others)
    assert len(own) == 1 or not (others == own).any()
    assert np.array_equal(choice.replacement_indices(own, np.zeros(len(own), np.uint64)), own)


def test_another_sample_of_a_mixture_is_of_the_same_data_set():
    choice = InterleavedSelection(
        (4, 1, 3),
        (None, None, WeightedSampling.from_weights(np.array([1, 0, 1]))),
        Interleaving.from_weights([1, 1, 1]),
        9,
    )
    indices = np.array([0, 3, 4, 5, 7])
    for shift in range(1, 30):
        others = choice.replacement_indices(indices, np.full(5, shift * 0x9E3779B97F4A7C15 % (1 << 64), np.uint64))
        assert (others[:2] < 4).all()
        assert (others[:2] != indices[:2]).all()
        assert others[2:].tolist() == [4, 7, 5]
