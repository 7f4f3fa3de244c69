"""Tests of saved states: contents, compatibility, and errors."""

import errno
import json
import os
from functools import partial

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import LastBatchPolicy, Pipeline, data_iterator, fn
from penstock.engine.host.sharded_reader import ShardedReader
from penstock.errors import PenstockWarning, StateError, UsageError
from penstock.graph import Reader
from penstock.graph.identity.fingerprint import CanonicalDefinition
from penstock.pipeline.run_state import StateIdentity
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.recordio_source import encode_record, write_recordio
from penstock.sources.order.schedule import BatchStep, Schedule

FILL, DROP, PARTIAL, PAD = LastBatchPolicy
IMAGES = np.arange(40 * 4 * 4 * 3, dtype=np.uint8).reshape(40, 4, 4, 3)
LENGTH = 20


def augmented(rows=8, *, name="r", seed=1, data=IMAGES, **change):
    """Return an iterator over a definition with variable details."""
    reader = {name: change.pop(name) for name in ("random_shuffle", "pad_last_batch") if name in change}

    @data_iterator(output_map=["x"], reader_name="r")
    def definition():
        images = fn.readers.arrays(data, layout="HWC", name="r", **{"random_shuffle": True, **reader})
        if change.get("flip"):
            images = fn.flip(images)
        mirror = fn.random.coin_flip(probability=change.get("probability", 0.5))
        images = fn.crop_mirror_normalize(images, mirror=mirror, std=change.get("std", 2.0))
        return images if change.get("plain") else images + 1.0

    return definition(batch_size=rows, seed=seed, num_threads=1, prefetch_queue_depth=1)


def numbers(rows, policy=FILL, *, length=LENGTH, size=None, devices=None, shuffle=True):
    def definition():
        return fn.readers.arrays(np.arange(length, dtype=np.int32), random_shuffle=shuffle, name="r")

    sharding = None
    if devices is not None:
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("batch",)), P("batch"))
    make = data_iterator(definition, ["x"], size=size, last_batch_policy=policy, sharding=sharding)
    return make(batch_size=rows, seed=1, num_threads=1)


def taken(iterator, count=10**6):
    """Return the rest of the epoch, or a number of its batches, as lists without masked rows."""
    found = []
    for _ in range(count):
        batch = next(iterator, None)
        if batch is None:
            break
        values = np.asarray(batch["x"])
        found.append(values[np.asarray(batch.get("valid", np.ones(len(values), bool)))].tolist())
    return found


def refusal(iterator, state, **options):
    with pytest.raises(StateError) as caught:
        iterator.set_state(state, **options)
    return str(caught.value)


# What has changed


@pytest.mark.parametrize(
    ("change", "given", "expected"),
    [
        (
            {"probability": 0.3},
            "random.coin_flip(), stream 0 in the state",
            "random.coin_flip(probability=0.3), stream 0 here",
        ),
        (
            {"std": 3.0},
            "crop_mirror_normalize(readers.arrays, mirror=random.coin_flip, std=2.0) in the state",
            "crop_mirror_normalize(readers.arrays, mirror=random.coin_flip, std=3.0) here",
        ),
        ({"flip": True}, "no such call in the state", "flip(readers.arrays) here (and 1 more difference)"),
        (
            {"plain": True},
            "arithmetic.add(crop_mirror_normalize, 1.0) in the state",
            "outputs(crop_mirror_normalize) here",
        ),
        ({"random_shuffle": False}, "readers.arrays(layout='HWC', random_shuffle=True), reader 0 in the state", None),
    ],
)
def test_refusal_shows_changed_call(change, given, expected):
    state = json.loads(json.dumps(augmented().get_state()))
    message = refusal(augmented(**change), state)
    assert "another definition" in message
    assert f"given:    {given}" in message, message
    assert expected is None or f"expected: {expected}" in message, message
    assert "new_definition=True" in message
    if "outputs" not in message:
        assert f"at:       {__file__}" in message, message


def chain(length, last=1.0):
    """Return a definition with many calls whose arguments compress badly."""

    @data_iterator(output_map=["x"], reader_name="r")
    def definition():
        x = fn.readers.arrays(np.zeros(LENGTH, np.float32), name="r")
        for number in np.random.default_rng(0).random(length).tolist():
            x = x + number
        return x + last

    return definition(batch_size=4)


@pytest.mark.parametrize(
    ("length", "given", "form"),
    [
        (5, "arithmetic.add(arithmetic.add#5, 1.0) in the state", "text"),
        (80, "another call, number 82, in the state", "hash"),
    ],
)
def test_state_contains_definition_up_to_1_kb(length, given, form):
    state = chain(length).get_state()
    assert state["calls"].partition(":")[0] == form
    assert len(json.dumps(state)) <= 1024
    message = refusal(chain(length, last=2.0), state)
    assert given in message
    assert f"expected: arithmetic.add(arithmetic.add#{length}, 2.0) here" in message, message


def test_state_of_large_definition_contains_only_fingerprints():
    calls = tuple(f"call {number}" for number in np.random.default_rng(0).random(500))
    step = BatchStep(2**32 - 1, 2**62, (2**62,) * 3, 8)
    reader = Reader(ArraySource([np.zeros(4)], [""]))
    readings = [ShardedReader([reader], [0], 1, seed=0, number=number, leads=True) for number in range(3)]
    for dataset in ("files:40:0123456789abcdef", "x" * 590):
        origin = StateIdentity(CanonicalDefinition(calls, (None,) * 500), dataset, 3)
        state = origin.state(step, Schedule(8, None, 8, (8,) * 3), 2**64 - 1, 2**64 - 1, readings, None)
        assert state["calls"] == ""
        assert len(json.dumps(state)) <= 1024


@pytest.mark.slow
@pytest.mark.parametrize("calls", [None, "", "text:", "text:~~~", "text:abcde", "hash:", 3])
def test_damaged_definition_text_is_still_refused(calls):
    state = augmented().get_state()
    message = refusal(augmented(std=3.0), {**state, "calls": calls})
    assert state["definition"] in message


# Another definition on purpose


def test_new_definition_resumes_at_same_position():
    old, new = augmented(), augmented(std=1.0, seed=2)
    taken(old, 2)
    state = old.get_state()
    new.set_state(state, new_definition=True)
    assert (new.get_state()["row"], new.get_state()["seed"]) == (16, 1)
    whole = augmented(std=1.0, seed=1)
    assert taken(new) == taken(whole)[2:]
    assert taken(new) == []
    new.set_state(new.get_state())  # its own states are its own


def test_a_new_definition_reads_the_same_data_in_the_same_order():
    old = augmented()
    taken(old, 2)
    assert "another dataset" in refusal(augmented(data=IMAGES + 1), old.get_state(), new_definition=True)
    unshuffled = augmented(random_shuffle=False)
    assert "in another order" in refusal(unshuffled, old.get_state(), new_definition=True)
    taken(old)
    unshuffled.set_state(old.get_state(), new_definition=True)
    assert unshuffled.batches_delivered == len(unshuffled)


def test_other_leading_reader_changes_order():
    state = numbers(4).get_state()
    assert "in another order" in refusal(numbers(4, size=-1), state)


def counted(start, *, add):
    sharding = NamedSharding(Mesh(np.array(jax.devices()[:1]), ("batch",)), P("batch"))

    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding)
    def definition():
        x = fn.readers.arrays(np.zeros(LENGTH, np.int32), name="r")
        return fn.jax_function(lambda count, x: (count + 1, x + count.sum()), state=start)(x) + add

    return definition(batch_size=4)


def test_operator_states_are_restored_if_compatible():
    old = counted(np.int32(0), add=0)
    taken(old, 2)
    state = old.get_state()
    same, other = counted(np.int32(0), add=10), counted(np.zeros(2, np.int32), add=0)
    same.set_state(state, new_definition=True)
    assert taken(same, 1) == [[12] * 4]
    other.set_state(state, new_definition=True)
    assert other.get_state()["row"] == 8
    assert taken(other, 2) == [[0] * 4, [2] * 4]
    without = {name: value for name, value in state.items() if name != "operators"}
    same.set_state(without, new_definition=True)
    assert taken(same, 1) == [[10] * 4]


# What is no state


@pytest.mark.parametrize("number", [-1, 2.0, 1.5, "1", None, True, float("nan"), 10**30, [1]])
@pytest.mark.parametrize("name", ["epoch", "row", "seed", "totals"])
def test_out_of_range_state_values_are_refused(name, number):
    iterator = numbers(4)
    taken(iterator, 1)
    before = iterator.get_state()
    message = refusal(iterator, {**before, name: [number] if name == "totals" else number})
    assert f"{name} in a state is a whole number" in message
    assert iterator.get_state() == before


def test_largest_state_values_are_reachable():
    iterator = numbers(4, shuffle=False)
    state = iterator.get_state()
    assert "0 to 20" in refusal(iterator, {**state, "row": 24})
    assert f"0 to {2**32 - 1}" in refusal(iterator, {**state, "epoch": 2**32})
    assert f"0 to {2**64 - 1}" in refusal(iterator, {**state, "seed": 2**64})
    iterator.set_state({**state, "epoch": 2**32 - 1, "seed": 2**64 - 1, "totals": [2**62]})
    assert len(taken(iterator)) == 5
    endless = numbers(4, size=-1)
    assert "0 to 0" in refusal(endless, {**endless.get_state(), "epoch": 1})


@pytest.mark.parametrize("state", [None, [], "{}", 3, {}, {"version": 2}, {"version": 1, "row": 3}])
def test_invalid_states_are_refused(state):
    assert "this is not the state of an iterator" in refusal(numbers(4), state)


def test_unknown_entries_are_refused():
    state = augmented().get_state()
    with pytest.raises(
        StateError, match=r"entries that this version does not know\n  given:    'rows', 7(.|\n)*beside it"
    ):
        augmented().set_state(state | {"rows": 3, 7: 1})


def test_a_replaced_file_is_noticed(tmp_path):
    @data_iterator
    def files():
        data, labels = fn.readers.file(files=[str(path) for path in paths])
        return {"labels": labels, "sizes": fn.reductions.sum(data)}

    paths = [tmp_path / f"{number}.bin" for number in range(4)]
    for path in paths:
        path.write_bytes(b"12345678")
    state = json.loads(json.dumps(files(batch_size=2).get_state()))
    assert len(state["files"]) == 16
    files(batch_size=2).set_state(state)
    paths[3].write_bytes(b"1234567890")
    other = files(batch_size=2)
    with pytest.warns(PenstockWarning, match="other sizes than when the state was saved"):
        other.set_state(state)
    # States of earlier versions do not have the entry.
    del state["files"]
    other.set_state(state)
    assert "files" not in augmented().get_state()


def write_shards(*folders):
    """Write a file of the same name and the same sizes to each folder."""
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        write_recordio(folder / "data.rec", [encode_record(b"", [10.0 * number + row]) for row in range(8)])
    return [str(folder / "data.rec") for folder in folders]


# The data sets as states of earlier versions name them, which did not tell the folders apart.
@pytest.mark.parametrize(
    ("options", "earlier"),
    [
        ({}, "mxnet:16:0c7d2c30a2ef5c7a"),
        ({"subset": slice(12)}, "subset:12:6a5bff4016bd7055"),
        ({"mixed": True}, "mix:32:2e23affbcbb6da6c"),
    ],
    ids=["files", "subset", "mixture"],
)
def test_files_of_one_name_in_other_folders_are_another_data_set(tmp_path, options, earlier):
    def iterator(*paths, mixed=False, **more):
        reader = partial(fn.readers.mxnet, path=[*paths], index_path=[], **more)
        if not mixed:
            return data_iterator(lambda: reader()[1], ["x"])(batch_size=4)
        return data_iterator(lambda: fn.readers.mix(reader(), reader(), weights=[1, 1])[1], ["x"])(batch_size=4)

    here = write_shards(tmp_path / "here" / "year=2023", tmp_path / "here" / "year=2024")
    moved = write_shards(tmp_path / "there" / "year=2023", tmp_path / "there" / "year=2024")
    (other,) = write_shards(tmp_path / "here" / "year=2025")
    first = iterator(*here, **options)
    next(first)
    state = first.get_state()
    rest = taken(first)
    for paths in (here[::-1], [here[0], other], [here[0], here[0]], here[:1]):
        assert "another dataset" in refusal(iterator(*paths, **options), state)
    for origin, paths in ((state, moved), ({**state, "dataset": earlier}, here)):
        resumed = iterator(*paths, **options)
        resumed.set_state(origin)
        assert taken(resumed) == rest


def test_totals_match_readers():
    iterator = numbers(4)
    assert "another number of readers" in refusal(iterator, {**iterator.get_state(), "totals": [0, 0]})
    assert "totals" in refusal(iterator, {**iterator.get_state(), "totals": 3})


def test_numpy_integers_are_accepted():
    iterator = numbers(4)
    iterator.set_state({**iterator.get_state(), "row": np.int64(8), "epoch": np.uint8(2)})
    assert (iterator.get_state()["epoch"], iterator.get_state()["row"]) == (2, 8)
    json.dumps(iterator.get_state())


# Another batch size


@pytest.mark.parametrize("policy", LastBatchPolicy)
@pytest.mark.parametrize("new", [1, 4, 5, 20])
@pytest.mark.parametrize("old", [3, 8])
def test_position_with_other_batch_size_is_refused_or_exact(policy, old, new):
    """The rest of the epoch has each remaining sample once and the next epoch is unchanged, or the state is refused."""
    before, after, fresh = numbers(old, policy), numbers(new, policy), numbers(new, policy)
    order = sum(taken(numbers(1)), [])
    taken(fresh)
    fresh.reset()
    second = taken(fresh)
    for done in range(len(before) + 1):
        state, row = before.get_state(), min(done * old, LENGTH)
        ended = done == len(before)
        if not ended and row % new and policy in (DROP, PARTIAL):
            assert f"row {row} of an epoch of 20, batch_size={new}" in refusal(after, state)
        else:
            after.set_state(state)
            left = [] if ended else order[row:]
            found = sum(taken(after), [])
            assert found[: len(left)] == left[: len(left) // new * new if policy is DROP else None]
            assert len(found) == (-(-len(left) // new) * new if policy is FILL else min(len(found), len(left)))
            assert after.batches_delivered == len(after)
            assert after.get_state()["row"] == LENGTH
            after.reset()
            assert taken(after) == second
        next(before, None)
    assert before.get_state()["epoch"] == 0


def test_refusal_suggests_batch_size():
    iterator = numbers(8, DROP)
    taken(iterator, 1)
    assert "a batch_size that divides 8, such as 4" in refusal(numbers(12, DROP), iterator.get_state())


def test_partial_batch_on_devices_loses_no_sample():
    iterator, other = numbers(2, PARTIAL, length=100), numbers(8, PARTIAL, length=100, devices=4)
    taken(iterator, 1)
    assert "another batch size" in refusal(other, iterator.get_state())  # it would end at 98
    taken(iterator, 3)
    other.set_state(iterator.get_state())
    assert sum(taken(other), []) == sum(taken(iterator), [])


@pytest.mark.parametrize("old", [1, 3, 8])
@pytest.mark.parametrize("new", [2, 5])
def test_endless_iterator_resumes_anywhere(old, new):
    before, fresh = numbers(old, size=-1), numbers(1, size=-1)
    stream = sum(taken(fresh, 80), [])
    for done in range(7):
        after = numbers(new, size=-1)
        after.set_state(before.get_state())
        assert sum(taken(after, 6), []) == stream[done * old : done * old + 6 * new]
        next(before)


def test_random_numbers_depend_on_position_not_batch():
    whole = np.concatenate([np.asarray(batch["x"]) for batch in augmented(8)])
    old, new = augmented(8), augmented(4)
    taken(old, 2)
    new.set_state(old.get_state())
    assert np.array_equal(np.concatenate([np.asarray(batch["x"]) for batch in new]), whole[16:])


@pytest.mark.parametrize("policy", [FILL, PAD])
@pytest.mark.parametrize("old", [8, 24])
def test_next_epoch_is_the_same_wherever_a_loop_leaves_an_epoch(policy, old):
    """Also for a second reader, and for a row that is no multiple of the batch size."""

    @data_iterator(output_map=["x", "beside"], reader_name="r", last_batch_policy=policy)
    def definition():
        return fn.readers.arrays(np.arange(53), name="r"), fn.readers.arrays(np.arange(1000))

    def next_epoch(state, batches):
        iterator = definition(batch_size=16, num_threads=1)
        iterator.set_state(state)
        for _ in range(batches):
            next(iterator)
        iterator.next_epoch()
        return next(iterator)["beside"].tolist()

    saved = definition(batch_size=old, num_threads=1)
    while saved.get_state()["row"] < 24:
        next(saved)
    # The batches at rows 24 and 40 remain.
    assert [next_epoch(saved.get_state(), batches) for batches in range(3)] == [list(range(56, 72))] * 3


@pytest.mark.parametrize("devices", [None, 2])
def test_secondary_padded_reader_resumes_with_other_batch_size(devices):
    """Its epochs end with a batch, so their number of positions depends on the batch size."""
    sharding = None
    if devices is not None:
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:devices]), ("batch",)), P("batch"))

    @data_iterator(output_map=["x", "beside"], reader_name="r", sharding=sharding)
    def definition():
        lead = fn.readers.arrays(np.arange(60, dtype=np.int32), name="r")
        return lead, fn.readers.arrays(np.arange(14, dtype=np.int32), random_shuffle=True, pad_last_batch=True)

    def make(rows):
        return definition(batch_size=rows, seed=1, num_threads=1)

    def beside(iterator, rows):
        return sum((next(iterator)["beside"].tolist() for _ in range(rows // iterator.batch_size)), [])

    four = make(4)
    for _ in range(6):  # an epoch takes four batches of four: this is in the second one
        next(four)
    state = four.get_state()
    left = beside(four, 8)
    assert left[-1] == left[-2]  # filled up
    for rows in (2, 4, 8):
        iterator = make(rows)
        iterator.set_state(state)
        assert iterator.get_state() == state
        assert beside(iterator, 8)[:6] == left[:6]
    begun = make(2)
    begun.set_state(state)
    beside(begun, 6)
    assert beside(begun, 14) == beside(four, 16)[:14]  # the whole next epoch
    with pytest.raises(StateError, match=r"(?s)pad_last_batch.*after 8 of 14 samples.*one that divides"):
        make(6).set_state(state)


def test_seed_true_means_1():
    one = augmented(seed=True)
    state = one.get_state()
    assert state["seed"] is not True
    one.set_state(state)
    assert next(one)["x"].tolist() == next(augmented(seed=1))["x"].tolist()


def test_a_failed_write_leaves_the_previous_checkpoint(tmp_path):
    pipeline = Pipeline(batch_size=2)
    with pipeline:
        pipeline.set_outputs(fn.readers.arrays([1, 2, 3]))
    (tmp_path / "other").mkdir()
    link = tmp_path / "checkpoint"
    link.symlink_to(tmp_path / "other" / "file")
    for save in (pipeline.checkpoint, pipeline.serialize):
        before = save(filename=link)
        pipeline.run()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pathlib.Path.replace", full_disk)
            with pytest.raises(UsageError, match=r"cannot be written: .*No space left"):
                save(filename=link)
        assert link.is_symlink()
        assert link.read_bytes() == before
        assert [path.name for path in (tmp_path / "other").iterdir()] == ["file"]


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
