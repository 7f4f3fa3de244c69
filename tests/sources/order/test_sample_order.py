import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.numerics.permutation import hash_words, permutation_position, permuted_index
from penstock.sources.order.sample_order import SampleOrder


@given(st.integers(1, 3000), st.integers(0, 2**64 - 1))
def test_permute_visits_each_index_once(length, key):
    assert np.array_equal(np.sort(permuted_index(np.arange(length), length, key)), np.arange(length))


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_permute_stays_inside_and_depends_on_the_position_alone(length, key, data):
    positions = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20)))
    together = permuted_index(positions, length, key)
    assert ((together >= 0) & (together < length)).all()
    assert [permuted_index(positions[i : i + 1], length, key)[0] for i in range(len(positions))] == together.tolist()


@given(st.integers(1, 2**62), st.integers(0, 2**64 - 1), st.data())
def test_positions_are_the_inverse(length, key, data):
    positions = np.array(data.draw(st.lists(st.integers(0, length - 1), min_size=1, max_size=20)))
    assert permutation_position(permuted_index(positions, length, key), length, key).tolist() == positions.tolist()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("stick", [True, False])
def test_an_order_knows_the_position_of_each_sample(shuffle, stick):
    orders = [SampleOrder(11, shuffle, 5, shards=3, shard=shard, stick_to_shard=stick) for shard in range(3)]
    for epoch in (0, 1, 1_000_000):
        for index in range(11):
            (shard,) = [shard for shard, order in enumerate(orders) if order.position(epoch, index) is not None]
            position = orders[shard].position(epoch, index)
            assert orders[shard].indices(epoch, np.array([position])).tolist() == [index]


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 3, 5, 10, 31, 64, 1000])
def test_every_index_is_as_likely_at_every_position(length):
    draws = 4000
    watched = np.unique(np.linspace(0, length - 1, 5).astype(int))
    counts = np.zeros((len(watched), length))
    for key in range(draws):
        counts[np.arange(len(watched)), permuted_index(watched, length, hash_words(key))] += 1
    bins = min(length, 20)
    folded = np.stack([np.bincount(np.arange(length) * bins // length, weights=row, minlength=bins) for row in counts])
    expected = np.bincount(np.arange(length) * bins // length, minlength=bins) * draws / length
    chi2 = ((folded - expected) ** 2 / expected).sum(axis=1)
    assert (chi2 < bins - 1 + 6 * np.sqrt(2 * bins)).all()  # six standard deviations


def test_neighbours_are_spread():
    """Differences of neighbouring positions are as those of a random permutation: mean N/3, hardly any are 1."""
    length = 60_000
    jumps = np.abs(np.diff(permuted_index(np.arange(length), length, 5)))
    assert abs(jumps.mean() / (length / 3) - 1) < 0.02
    assert (jumps == 1).sum() < 20


def test_all_permutations_of_four_occur():
    seen = {tuple(permuted_index(np.arange(4), 4, hash_words(key)).tolist()) for key in range(2000)}
    assert len(seen) == 24


def test_order_of_a_trillion_samples_costs_what_that_of_a_thousand_does():
    order = SampleOrder(10**12, shuffle=True, seed=1)
    positions = np.array([0, 10**12 - 1, 123_456_789_012])
    indices = order.indices(3, positions)
    assert len(set(indices.tolist())) == 3
    assert np.array_equal(order.indices(3, positions[1:]), indices[1:])


@given(st.integers(1, 500), st.booleans(), st.integers(0, 5))
def test_an_epoch_visits_every_sample_once(length, shuffle, epoch):
    order = SampleOrder(length, shuffle, seed=9)
    assert sorted(order.indices(epoch, np.arange(length)).tolist()) == list(range(length))


def test_epochs_differ_and_seeds_differ():
    orders = [
        tuple(SampleOrder(100, True, seed).indices(epoch, np.arange(100)).tolist())
        for seed in (1, 2)
        for epoch in (0, 1, 2)
    ]
    assert len(set(orders)) == 6


def test_positions_past_the_end_wrap_or_repeat_the_last():
    wrapped = SampleOrder(5, True, 3).indices(0, np.arange(12))
    assert wrapped[5:10].tolist() == wrapped[:5].tolist()
    padded = SampleOrder(5, True, 3, pad_last=True).indices(0, np.arange(8))
    assert padded[5:].tolist() == [padded[4]] * 3


@given(st.integers(1, 200), st.integers(1, 8), st.booleans(), st.booleans(), st.integers(0, 9))
def test_contiguous_parts_cover_the_data_in_every_epoch(length, shards, shuffle, stick, epoch):
    if shards > length:
        return
    orders = [SampleOrder(length, shuffle, 4, shards=shards, shard=k, stick_to_shard=stick) for k in range(shards)]
    seen = [order.indices(epoch, np.arange(order.shard_bounds(epoch)[1])).tolist() for order in orders]
    assert sorted(sum(seen, [])) == list(range(length))
    if stick:
        assert [sorted(part) for part in seen] == [
            list(range(length * k // shards, length * (k + 1) // shards)) for k in range(shards)
        ]


@given(st.integers(1, 50), st.integers(1, 4), st.booleans())
def test_an_endless_order_is_its_epochs_in_a_row(length, shards, shuffle):
    if shards > length:
        return
    order = SampleOrder(length, shuffle, 6, shards=shards, shard=shards - 1)
    epochs = [order.indices(epoch, np.arange(order.shard_bounds(epoch)[1])) for epoch in range(3 * shards)]
    expected = np.concatenate(epochs)
    assert np.array_equal(order.indices_over_epochs(np.arange(len(expected))), expected)


def test_pages_do_not_show():
    order = SampleOrder(20_000, True, 8)
    whole = order.indices(0, np.arange(20_000))
    scattered = np.random.default_rng(0).permutation(20_000)
    assert np.array_equal(order.indices(0, scattered), whole[scattered])


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_padded_order_begins_each_epoch_with_a_batch(shuffle):
    order = SampleOrder(5, shuffle, seed=3, pad_last=True)
    batches = order.indices_over_epochs(np.arange(32), stride=4).reshape(-1, 4)
    for epoch in range(4):
        first, second = batches[2 * epoch : 2 * epoch + 2].tolist()
        assert sorted([*first, second[0]]) == [0, 1, 2, 3, 4]
        assert second == [second[0]] * 4
        assert order.index_range_over_epochs(8 * epoch, 6, stride=4).tolist() == [*first, *second[:2]]
    assert order.index_range_over_epochs(6, 4, stride=4).tolist() == batches.ravel()[6:10].tolist()


def test_a_padded_order_of_parts_makes_them_equally_long():
    order = SampleOrder(10, pad_last=True, shards=3)
    assert order.indices_over_epochs(np.arange(12), stride=2).tolist() == [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9]


def test_lengths_shuffle_differently():
    first, second = (SampleOrder(length, shuffle=True, seed=1).indices(0, np.arange(100)) for length in (101, 102))
    assert (first == second).sum() < 20
