"""Tests of `data_iterator` and `DataIterator`: epochs, last batches, state, topology."""

import inspect
import json
import logging
import math
import threading

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import DataIterator, LastBatchPolicy, Pipeline, data_iterator, fn, pipeline_def, types
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, StateError, UsageError
from penstock.plugin.jax import data_iterator as dali_iterator
from penstock.sources.formats.caffe.caffe2_source import write_caffe2
from penstock.sources.order.schedule import Schedule
from penstock.testing import check_iterator
from penstock.testing.iterator_checks import same_batches

FILL, DROP, PARTIAL, PAD = LastBatchPolicy


def sharding(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), P("batch"))


def counting(count, **reader):
    @data_iterator(output_map=["x"], reader_name="r")
    def numbers():
        return fn.readers.arrays(np.arange(count, dtype=np.int32), name="r", **reader)

    return numbers


def iterate(count, batch_size, policy=FILL, **options):
    reader = {key: options.pop(key) for key in ("random_shuffle", "pad_last_batch") if key in options}

    def numbers():
        return fn.readers.arrays(np.arange(count, dtype=np.int32), name="r", **reader)

    return data_iterator(numbers, ["x"], reader_name="r", last_batch_policy=policy, **options)(
        batch_size=batch_size, num_threads=1
    )


def epoch(iterator):
    return [np.asarray(batch["x"]).tolist() for batch in iterator]


@pytest.mark.parametrize(
    ("policy", "options", "expected", "length", "size"),
    [
        (FILL, {}, [[0, 1], [2, 3], [4, 5], [6, 0]], 4, 8),
        (FILL, {"pad_last_batch": True}, [[0, 1], [2, 3], [4, 5], [6, 6]], 4, 8),
        (DROP, {}, [[0, 1], [2, 3], [4, 5]], 3, 6),
        (PARTIAL, {}, [[0, 1], [2, 3], [4, 5], [6]], 4, 7),
        (PAD, {}, [[0, 1], [2, 3], [4, 5], [6, 0]], 4, 7),
    ],
)
def test_every_epoch_has_the_same_batches(policy, options, expected, length, size):
    iterator = iterate(7, 2, policy, **options)
    assert (len(iterator), iterator.size, iterator.batch_size) == (length, size, 2)
    for _ in range(3):
        assert epoch(iterator) == expected
    assert (len(iterator), iterator.size) == (length, size)


def test_pad_masks_added_rows():
    iterator = iterate(7, 4, PAD, sharding=sharding(4))
    masks = [(np.asarray(batch["x"]).tolist(), np.asarray(batch["valid"]).tolist()) for batch in iterator]
    assert masks == [([0, 1, 2, 3], [True] * 4), ([4, 5, 6, 0], [True, True, True, False])]
    assert next(iter(iterator))["valid"].sharding == sharding(4)


def test_more_rows_than_samples():
    assert epoch(iterate(3, 8)) == [[0, 1, 2, 0, 1, 2, 0, 1]]
    assert epoch(iterate(3, 8, PARTIAL)) == [[0, 1, 2]]
    with pytest.raises(UsageError, match="no batch"):
        iterate(3, 8, DROP)


def test_partial_requires_divisible_remainder():
    assert epoch(iterate(12, 8, PARTIAL, sharding=sharding(4))) == [list(range(8)), list(range(8, 12))]
    with pytest.raises(UsageError, match="PARTIAL") as caught:
        iterate(13, 8, PARTIAL, sharding=sharding(4))
    assert "4 or 8" in str(caught.value)


@settings(max_examples=25)
@given(st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([FILL, DROP, PARTIAL, PAD]), st.booleans())
def test_an_epoch_visits_every_sample_once(count, rows, policy, shuffle):
    if policy is DROP and rows > count:
        return
    iterator = iterate(count, rows, policy, random_shuffle=shuffle)
    for _ in range(2):
        seen = []
        for batch in iterator:
            valid = np.asarray(batch.get("valid", np.ones(len(batch["x"]), bool)))
            seen += np.asarray(batch["x"])[valid].tolist()
        visited = seen[:count]
        assert len(set(visited)) == len(visited)
        assert len(visited) == (count // rows * rows if policy is DROP else count)
        assert iterator.size == len(seen)


def test_shuffled_epochs_differ_and_depend_on_seed():
    first, again = iterate(20, 20, random_shuffle=True), iterate(20, 20, random_shuffle=True)
    assert epoch(first) != epoch(first)
    again.set_state(first.get_state())
    assert epoch(again) == epoch(first)


def augmented(digits):
    images, labels = digits

    def definition(shard_id, num_shards):
        data = fn.readers.arrays(
            {"image": images[..., None], "label": labels},
            layout={"image": "HWC", "label": ""},
            name="r",
            random_shuffle=True,
            shard_id=shard_id,
            num_shards=num_shards,
        )
        image = fn.crop_mirror_normalize(
            data["image"],
            mirror=fn.random.coin_flip(),
            crop=(20, 20),
            crop_pos_x=fn.random.uniform(range=[0, 1]),
            crop_pos_y=fn.random.uniform(range=[0, 1]),
            std=255.0,
        )
        noise = fn.cast(fn.random.uniform(range=[0, 255], shape=[20]), dtype=types.UINT8)
        return image, fn.one_hot(data["label"], num_classes=10), noise

    return definition


def mnist(path):
    def definition(shard_id, num_shards):
        jpegs, labels = fn.readers.caffe2(
            path=path, random_shuffle=True, name="r", shard_id=shard_id, num_shards=num_shards
        )
        images = fn.decoders.image(jpegs, device="mixed", output_type=types.GRAY)
        images = fn.crop_mirror_normalize(images, std=[255.0])
        return fn.reshape(images, shape=[784]), fn.one_hot(labels.gpu(), num_classes=10)

    return definition


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("name", ["mnist", "augmented"])
def test_batches_do_not_depend_on_devices_threads_or_prefetch(name, placement, digits, digits_lmdb):
    definition = mnist(digits_lmdb) if name == "mnist" else augmented(digits)
    outputs = ["image", "label", "noise"][: 2 if name == "mnist" else 3]

    def make(devices=1, threads=1, depth=2, pmap=False, serial=False):
        where = {"devices": jax.devices()[:devices]} if pmap else {"sharding": sharding(devices)}
        factory = data_iterator(definition, outputs, reader_name="r", **where)
        return factory(
            batch_size=16,
            seed=11,
            num_threads=threads,
            prefetch_queue_depth=depth,
            placement=placement,
            exec_async=not serial,
        )

    expected = check_iterator(make)
    assert len(expected[0]) == 4
    for options in (
        {"devices": 2},
        {"devices": 4, "threads": 4},
        {"devices": 8, "threads": 4, "depth": 0},
        {"devices": 8, "depth": 7},
        {"serial": True},
    ):
        iterator = make(**options)
        stream = [[{n: np.asarray(a) for n, a in batch.items()} for batch in iterator] for _ in range(2)]
        for mine, other in zip(stream, expected, strict=True):
            assert same_batches(mine, other), options
    stacked = [{n: np.asarray(a).reshape(16, *a.shape[2:]) for n, a in batch.items()} for batch in make(8, pmap=True)]
    assert same_batches(stacked, expected[0])


def test_host_and_device_agree(digits):
    def batches(placement):
        factory = data_iterator(augmented(digits), ["image", "label", "noise"], reader_name="r", sharding=sharding(8))
        return [dict(batch) for batch in factory(batch_size=16, seed=3, placement=placement)]

    for one, other in zip(batches("host"), batches("device"), strict=True):
        np.testing.assert_allclose(one["image"], other["image"], rtol=0, atol=4 * np.finfo(np.float32).eps)
        assert np.array_equal(one["label"], other["label"])
        assert np.abs(np.asarray(one["noise"], int) - np.asarray(other["noise"], int)).max() <= 1


def test_state_is_restored_on_other_devices_and_batch_sizes(digits):
    def make(devices, rows=16):
        factory = data_iterator(
            augmented(digits), ["image", "label", "noise"], reader_name="r", sharding=sharding(devices)
        )
        return factory(batch_size=rows, seed=5)

    reference = make(8)
    stream = [{n: np.asarray(a) for n, a in batch.items()} for batch in reference]
    one = make(2)
    for _ in range(2):
        next(one)
    state = json.loads(json.dumps(one.get_state()))
    assert state["row"] == 32
    for devices in (1, 4, 8):
        other = make(devices)
        other.set_state(state)
        assert same_batches([{n: np.asarray(a) for n, a in b.items()} for b in other], stream[2:])
    halves = make(2, rows=8)
    halves.set_state(state)
    label = np.concatenate([np.asarray(batch["label"]) for batch in halves])
    assert np.array_equal(label[: 61 - 32], np.concatenate([batch["label"] for batch in stream[2:]])[: 61 - 32])


def test_seed_is_part_of_state():
    first = iterate(50, 10, random_shuffle=True)  # each draws a seed
    second = iterate(50, 10, random_shuffle=True)
    assert first.get_state()["seed"] != second.get_state()["seed"]
    next(first)
    second.set_state(first.get_state())
    assert epoch(second) == epoch(first)


def test_states_of_other_definitions_and_data_are_refused():
    base = iterate(20, 4)
    with pytest.raises(StateError, match="another dataset") as caught:
        base.set_state(iterate(21, 4).get_state())
    assert base.get_state()["dataset"] in str(caught.value)
    with pytest.raises(StateError, match="another definition"):
        base.set_state(iterate(20, 4, random_shuffle=True).get_state())
    with pytest.raises(StateError, match="not the state"):
        base.set_state({"epoch": 3})
    with pytest.raises(StateError, match="version 99"):
        base.set_state({**base.get_state(), "version": 99})


def test_checkpoints_are_json_in_a_list():
    make = counting(10, random_shuffle=True)
    iterator = make(batch_size=3)
    next(iterator)
    saved = iterator.checkpoints()
    assert epoch(make(batch_size=3, checkpoints=saved)) == epoch(iterator)
    assert len(epoch(make(batch_size=3, checkpoints=[]))) == 4


def test_two_readers_have_separate_counts():
    def pairs():
        return fn.readers.arrays(np.arange(5), name="five"), fn.readers.arrays(np.arange(3), random_shuffle=True)

    make = data_iterator(pairs, ["a", "b"], reader_name="five")
    iterator = make(batch_size=2, seed=1)
    stream = [(np.asarray(b["a"]).tolist(), np.asarray(b["b"]).tolist()) for _ in range(3) for b in iterator]
    assert [a for a, _ in stream] == [[0, 1], [2, 3], [4, 0]] * 3
    followed = sum((b for _, b in stream), [])
    for start in range(0, 18, 3):
        assert sorted(followed[start : start + 3]) == [0, 1, 2]
    check_iterator(lambda: make(batch_size=2, seed=1), epochs=3)


def test_without_a_size_the_iterator_is_endless():
    @data_iterator(output_map=["x"], size=-1)
    def numbers():
        return fn.readers.arrays(np.arange(3))

    iterator = numbers(batch_size=2)
    assert [np.asarray(next(iterator)["x"]).tolist() for _ in range(4)] == [[0, 1], [2, 0], [1, 2], [0, 1]]
    assert iterator.size == -1
    with pytest.raises(TypeError, match="endless"):
        len(iterator)
    state = iterator.get_state()
    expected = [np.asarray(next(iterator)["x"]).tolist() for _ in range(5)]
    other = numbers(batch_size=2)
    other.set_state(state)
    assert [np.asarray(next(other)["x"]).tolist() for _ in range(5)] == expected


def test_size_defines_epochs():
    def numbers():
        return fn.readers.arrays(np.arange(100, dtype=np.int32))

    iterator = data_iterator(numbers, ["x"], size=7)(batch_size=3)
    assert (len(iterator), iterator.size) == (3, 9)
    assert epoch(iterator) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert epoch(iterator)[0] == [9, 10, 11]  # the reader goes on
    dropped = data_iterator(numbers, ["x"], size=7, last_batch_policy=DROP)(batch_size=3)
    assert len(epoch(dropped)) == 2


def test_random_numbers_without_a_reader():
    def noise():
        return fn.random.uniform(shape=[3])

    make = data_iterator(noise, ["x"], size=8)
    stream = check_iterator(lambda: make(batch_size=4, seed=2))
    assert len({batch["x"].tobytes() for batches in stream for batch in batches}) == 4


def test_iteration_resets_only_at_end_of_epoch(caplog):
    iterator = iterate(6, 2)
    assert next(iterator)["x"].tolist() == [0, 1]
    assert [b["x"].tolist() for b in iterator] == [[2, 3], [4, 5]]  # goes on where it was
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
    iterator.reset()
    assert iterator.next()["x"].tolist() == [0, 1]
    with caplog.at_level(logging.WARNING):
        iterator.reset()
    assert "middle of an epoch" in caplog.text
    assert iterator.next()["x"].tolist() == [2, 3]
    assert iter(iterator) is iterator


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("taken", [1, 2, 3])
def test_epoch_does_not_depend_on_where_previous_one_stopped(policy, taken):
    def two_readers():
        return fn.readers.arrays(np.arange(7), name="r"), fn.readers.arrays(np.arange(5), random_shuffle=True)

    def epoch(iterator):
        return [{name: array.tolist() for name, array in batch.items()} for batch in iterator]

    whole, left = (
        data_iterator(two_readers, ["x", "y"], reader_name="r", last_batch_policy=policy)(batch_size=2, seed=1)
        for _ in range(2)
    )
    epoch(whole)
    for _ in range(taken):
        next(left)
    left.next_epoch()
    assert epoch(left) == epoch(whole)


@pytest.mark.parametrize("auto_reset", [True, "yes"])
def test_auto_reset_starts_next_epoch(auto_reset):
    iterator = iterate(4, 2, auto_reset=auto_reset)
    seen = []
    for _ in range(3):
        try:
            while True:
                seen.append(next(iterator)["x"].tolist())
        except StopIteration:
            seen.append("end")
    assert seen == [[0, 1], [2, 3], "end"] * 3


def test_first_batch_is_prepared_by_default():
    def broken():
        data, _ = fn.readers.file(files=[__file__], name="r")
        return fn.decoders.image(data)

    with pytest.raises(RuntimeError, match="sample 0"):
        data_iterator(broken, ["x"], reader_name="r")(batch_size=1)
    started = iterate(4, 2, prepare_first_batch=False)
    assert started._cursor.outputs is None
    assert iterate(4, 2)._cursor.outputs is not None
    assert next(iterate(4, 2)).keys() == next(started).keys()


def test_bad_record_is_named_and_can_be_skipped(digits, jpeg, tmp_path):
    images, labels = digits
    records = [(jpeg(image), int(label)) for image, label in zip(images, labels, strict=True)]
    records[21] = (b"this is no image", 3)
    write_caffe2(tmp_path, records)
    make = data_iterator(
        mnist(tmp_path), ["image", "label"], reader_name="r", sharding=sharding(2), prepare_first_batch=False
    )
    iterator = make(batch_size=8, seed=4, num_threads=4)
    good = 0
    try:
        for _ in iterator:
            good += 1
    except SampleError as error:
        message = str(error)
    assert "sample 21" in message
    assert f"{tmp_path} at key 00000021" in message
    assert "known format" in message
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]
    state = iterator.get_state()
    assert state["row"] == 8 * good  # the place of the bad batch
    iterator.set_state({**state, "row": state["row"] + 8})
    assert len(list(iterator)) == 8 - good - 1


def test_pipelines_built_by_hand_become_one_run():
    @pipeline_def(num_threads=1, seed=9)
    def numbers(shard_id, num_shards):
        return fn.readers.arrays(
            np.arange(24), name="r", random_shuffle=True, shard_id=shard_id, num_shards=num_shards
        ) * 1.0 + fn.random.uniform(range=[0, 0.5])

    def make(count):
        return [numbers(shard_id=k, num_shards=count, batch_size=8 // count) for k in range(count)]

    one = DataIterator(make(1), ["x"], reader_name="r")
    four = DataIterator(make(4), ["x"], reader_name="r", sharding=sharding(4))
    assert (len(four), four.size, four.batch_size) == (3, 24, 8)
    stacked = DataIterator(make(4), ["x"], reader_name="r")
    for a, b, c in zip(one, four, stacked, strict=True):
        assert np.array_equal(a["x"], b["x"])
        assert c["x"].shape == (4, 2)
        assert np.array_equal(np.asarray(c["x"]).ravel(), a["x"])
        assert len(c["x"].devices()) == 1
    placed = [numbers(shard_id=k, num_shards=2, batch_size=4, device_id=3 - k) for k in range(2)]
    spread = next(DataIterator(placed, ["x"], reader_name="r"))["x"]
    assert [shard.device.id for shard in spread.addressable_shards] == [3, 2]
    single = DataIterator(make(1), ["x"], reader_name="r", pmap_compatible=True)
    assert next(single)["x"].shape == (1, 8)


def test_single_shard_reads_its_slice_of_every_global_batch():
    def numbers(shard_id, num_shards):
        return fn.readers.arrays(np.arange(47, dtype=np.int32), name="r", shard_id=shard_id, num_shards=num_shards)

    make = data_iterator(numbers, ["x"], reader_name="r")
    shards = [make(batch_size=3, shard_id=k, num_shards=2) for k in (0, 1)]
    assert [(len(shard), shard.size) for shard in shards] == [(8, 24), (8, 24)]
    rows = [epoch(shard) for shard in shards]
    merged = sum((a + b for a, b in zip(*rows, strict=True)), [])
    assert merged == [n % 47 for n in range(48)]


def test_contiguous_shards_read_static_parts():
    def numbers(shard_id, num_shards):
        return fn.readers.arrays(
            np.arange(8, dtype=np.int32),
            name="r",
            shard_id=shard_id,
            num_shards=num_shards,
            shard_mode="contiguous",
            stick_to_shard=True,
        )

    iterator = data_iterator(numbers, ["x"], reader_name="r", sharding=sharding(2))(batch_size=4)
    assert epoch(iterator) == [[0, 1, 4, 5], [2, 3, 6, 7]]
    assert "static parts" in iterator.explain()


@pytest.mark.parametrize("shards", [None, 4])
@pytest.mark.parametrize("padded", [False, True])
def test_partial_batches_of_contiguous_shards_of_different_length_are_refused(shards, padded):
    def numbers(count, shard_id=3, num_shards=4):
        shard = {"shard_id": shard_id, "num_shards": num_shards, "shard_mode": "contiguous"}
        return fn.readers.arrays(np.arange(count), name="r", pad_last_batch=padded, **shard)

    layout = None if shards is None else sharding(shards)
    make = data_iterator(numbers, ["x"], reader_name="r", last_batch_policy=PARTIAL, sharding=layout)
    assert make(count=24, batch_size=8).size == (24 if shards else 6)
    with pytest.raises(UsageError, match="shards of one length"):
        make(count=23, batch_size=8)


def test_local_readers_have_their_own_order():
    def numbers(shard_id, num_shards):
        return fn.readers.arrays(np.arange(5, dtype=np.int32) + 10 * shard_id, name="r")

    iterator = data_iterator(numbers, ["x"], reader_name="r", sharding=sharding(2))(batch_size=4)
    assert epoch(iterator) == [[0, 1, 10, 11], [2, 3, 12, 13], [4, 0, 14, 10]]
    assert "local" in iterator.explain()


def test_unnamed_outputs_are_left_out_by_the_iterator_of_dali():
    def three():
        x = fn.readers.arrays(np.arange(4), name="r")
        return x, x + 1, x + 2

    make = dali_iterator(three, ["a", "b"], reader_name="r")
    assert next(make(batch_size=2)).keys() == {"a", "b"}
    with pytest.raises(UsageError, match="fewer names than the definition has outputs"):
        data_iterator(three, ["a", "b"], reader_name="r")(batch_size=2)


def numbers_definition():
    return fn.readers.arrays(np.arange(8), name="r")


def hand_made(**options):
    with Pipeline(**{"batch_size": 2, **options}) as pipeline:
        pipeline.set_outputs(numbers_definition())
    return pipeline


# the misuse that DALI's reference lists, with the classes that it raises
def conditional_definition():
    number = fn.readers.arrays(np.arange(22, dtype=np.int32), random_shuffle=True, name="numbers")
    value = fn.random.uniform(range=[0.0, 1.0])
    if fn.random.coin_flip():
        if number > 10:
            return number, value + fn.random.uniform(range=[5.0, 6.0])
        value = value * 2.0
    elif not number % 3:
        value = fn.random.normal()
    return number, value


@pytest.mark.parametrize("placement", ["host", "device"])
def test_conditionals_are_identical_on_any_number_of_devices(placement):
    streams = []
    for devices, threads in ((1, 1), (4, 3)):
        define = pipeline_def(conditional_definition, enable_conditionals=True, seed=5, placement=placement)
        make = data_iterator(define, ["x", "y"], reader_name="numbers", sharding=sharding(devices))
        streams.append(check_iterator(lambda make=make, threads=threads: make(batch_size=8, num_threads=threads)))
    for one, other in zip(*streams, strict=True):
        assert same_batches(one, other)
    first, second = streams[0]
    assert not same_batches(first, second)


MISUSE = {
    "duplicate names": (lambda: DataIterator(hand_made(), ["x", "x"]), AssertionError, "twice"),
    "policy is no enum": (
        lambda: DataIterator(hand_made(), ["x"], reader_name="r", last_batch_policy="fill"),
        ValueError,
        "LastBatchPolicy.FILL",
    ),
    "auto_reset": (
        lambda: DataIterator(hand_made(), ["x"], reader_name="r", auto_reset="raise"),
        ValueError,
        "'raise'",
    ),
    "auto_reset 1": (lambda: DataIterator(hand_made(), ["x"], reader_name="r", auto_reset=1), ValueError, "1"),
    "size 0": (lambda: DataIterator(hand_made(), ["x"], size=0), AssertionError, "0"),
    "size and reader": (lambda: DataIterator(hand_made(), ["x"], 8, "r"), AssertionError, "size"),
    "padded and reader": (
        lambda: DataIterator(hand_made(), ["x"], reader_name="r", last_batch_padded=True),
        AssertionError,
        "pads",
    ),
    "no pipelines": (lambda: DataIterator([], ["x"]), AssertionError, "at least one"),
    "None": (lambda: DataIterator(None, ["x"]), AssertionError, "at least one"),
    "batch sizes differ": (
        lambda: DataIterator([hand_made(), hand_made(batch_size=3)], ["x"], reader_name="r"),
        AssertionError,
        "2, 3",
    ),
    "unknown reader": (lambda: DataIterator(hand_made(), ["x"], reader_name="rr"), RuntimeError, "'r'"),
    "more names than outputs": (lambda: DataIterator(hand_made(), ["x", "y"]), ValueError, "2 names"),
    "no names": (lambda: DataIterator(hand_made(), []), ValueError, "need names"),
    "names as a text": (lambda: DataIterator(hand_made(), "x"), ValueError, "list of names"),
    "a mask without a reader": (
        lambda: DataIterator(hand_made(), ["x"], size=5, last_batch_policy=PAD),
        ValueError,
        "reader_name=",
    ),
    "a mask without an end": (
        lambda: DataIterator(hand_made(), ["x"], last_batch_policy=PAD),
        ValueError,
        "reader_name=",
    ),
    "a taken name": (
        lambda: DataIterator(hand_made(), ["valid"], reader_name="r", last_batch_policy=PAD),
        ValueError,
        "'valid'",
    ),
    "shards on partly equal devices": (
        lambda: DataIterator([hand_made(device_id=d) for d in (0, 0, 1)], ["x"], reader_name="r"),
        AssertionError,
        "different devices",
    ),
    "no such device": (
        lambda: DataIterator([hand_made(device_id=d) for d in (0, 99)], ["x"], reader_name="r"),
        ValueError,
        "99",
    ),
    "pipelines for another number of blocks": (
        lambda: DataIterator([hand_made()] * 3, ["x"], reader_name="r", sharding=sharding(2)),
        ValueError,
        "3 pipelines",
    ),
    "sharding and devices": (
        lambda: data_iterator(numbers_definition, ["x"], sharding=sharding(2), devices=jax.devices()),
        ValueError,
        "only one",
    ),
    "no devices": (lambda: data_iterator(numbers_definition, ["x"], devices=[]), ValueError, "empty"),
    "no batch size": (lambda: data_iterator(numbers_definition, ["x"])(), ValueError, "batch_size"),
    "batch size 0": (lambda: data_iterator(numbers_definition, ["x"])(batch_size=0), ValueError, "batch size"),
    "no such argument": (
        lambda: data_iterator(numbers_definition, ["x"])(batch_size=2, num_thread=3),
        TypeError,
        "'num_threads'",
    ),
    "device_id": (
        lambda: data_iterator(numbers_definition, ["x"], sharding=sharding(2))(batch_size=2, device_id=0),
        TypeError,
        "device_id",
    ),
    "shard_id": (
        lambda: data_iterator(lambda shard_id: numbers_definition(), ["x"], sharding=sharding(2))(
            batch_size=2, shard_id=0
        ),
        TypeError,
        "shard_id",
    ),
    "arbitrary names": (lambda: data_iterator(lambda **kw: numbers_definition(), ["x"])(batch_size=2), TypeError, "kw"),
    "a condition without conditionals": (
        lambda: data_iterator(lambda: bool(numbers_definition()), ["x"])(batch_size=2),
        TypeError,
        "enable_conditionals",
    ),
    "threads": (lambda: Pipeline(2, 0), ValueError, "num_threads"),
    "placement": (lambda: Pipeline(2, placement="gpu"), ValueError, "'gpu'"),
    "no outputs": (lambda: Pipeline(2).run(), RuntimeError, "set_outputs"),
    "output dtype": (lambda: hand_made(output_dtype=types.FLOAT), ValueError, "float32"),
    "output rank": (lambda: hand_made(output_ndim=2), ValueError, "2 axes"),
    "output layout": (lambda: hand_made(output_layout=["HW"]), ValueError, "layout='HW'"),
    "a checkpoint for a pipeline": (lambda: Pipeline(2, checkpoint="x"), ValueError, "restore"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name):
    make, error, part = MISUSE[name]
    with pytest.raises(error) as caught:
        make()
    assert part in str(caught.value), str(caught.value)


def test_large_integers_are_not_truncated_silently():
    def wide():
        return fn.readers.arrays(np.array([1, 2**40]), name="r")

    with pytest.raises(RuntimeError, match="do not fit int32"):
        data_iterator(wide, ["x"], reader_name="r")(batch_size=2)
    assert (
        next(data_iterator(lambda: fn.readers.arrays(np.arange(2), name="r"), ["x"])(batch_size=2))["x"].dtype
        == "int32"
    )


def test_ragged_outputs_are_refused_with_fix(digits_lmdb):
    def encoded():
        return fn.readers.caffe2(path=digits_lmdb, name="r")

    with pytest.raises(RuntimeError) as caught:
        data_iterator(encoded, ["x", "y"], reader_name="r")(batch_size=4)
    assert "fn.decoders.image" in str(caught.value)
    assert "key" in str(caught.value)


def test_pipeline_def_definition_is_accepted():
    @data_iterator(output_map=["x"], reader_name="r")
    @pipeline_def(num_threads=2, batch_size=4)
    def numbers(first=0):
        return fn.readers.arrays(np.arange(8) + first, name="r")

    assert next(numbers(first=3))["x"].tolist() == [3, 4, 5, 6]


def test_arguments_by_position():
    @data_iterator(output_map=["x"], reader_name="r")
    def numbers(first, shard_id, num_shards):
        return fn.readers.arrays(np.arange(8) + first, name="r", shard_id=shard_id, num_shards=num_shards)

    assert next(numbers(3, batch_size=4))["x"].tolist() == [3, 4, 5, 6]
    assert next(numbers(3, 1, 2, batch_size=4))["x"].tolist() == [7, 8, 9, 10]


def test_stats_count_work():
    iterator = iterate(8, 2)
    list(iterator)
    stats = iterator.stats()
    assert stats["wait for the host"].samples == 8
    assert stats["readers.arrays"].samples >= 8


@given(st.integers(1, 100), st.integers(1, 12), st.sampled_from(list(LastBatchPolicy)), st.integers(0, 30))
def test_schedules_are_pure_and_counted(length, rows, policy, steps):
    schedule = Schedule(rows, length, rows, (rows,), policy)
    if not schedule.batches_per_epoch:
        with pytest.raises(UsageError):
            schedule.check()
        return
    step = schedule.first()
    for number in range(steps):
        epoch_number, batch = divmod(number, schedule.batches_per_epoch)
        assert (step.epoch, step.row) == (epoch_number, batch * rows)
        assert not schedule.is_epoch_end(step)
        step = schedule.next_step(step)


def test_decorator_and_iterator_take_the_same_arguments_in_the_same_order():
    decorator = list(inspect.signature(data_iterator).parameters)
    constructor = list(inspect.signature(DataIterator.__init__).parameters)
    # The definition, and what only making the pipelines needs.
    assert [name for name in decorator if name not in ("pipeline_fn", "devices", "enable_conditionals")] == [
        name for name in constructor if name not in ("self", "pipelines")
    ]


def test_endless_iterators_have_type_errors_for_len():
    with pytest.raises(ArgumentTypeError):
        len(DataIterator(hand_made(), ["x"]))


@pytest.mark.parametrize("policy", [FILL, DROP, PARTIAL])
def test_last_batch_policy_is_ignored_without_last_batch(policy):
    endless = DataIterator(hand_made(), ["x"], last_batch_policy=policy, last_batch_padded=True)
    for batch, same in zip(endless, DataIterator(hand_made(), ["x"]), strict=False):
        assert batch["x"].tolist() == same["x"].tolist()
        if endless.batches_delivered == 10:
            break
    assert endless._size == -1


class CountingAsPrograms(DataIterator):
    """Iterator that computes its length from private attributes of DALI's iterator, as published programs do."""

    def __len__(self):
        if self._reader_name and self._last_batch_policy is DROP:
            return self._size_no_pad // self._shards_num // self.batch_size
        return math.ceil(self.size / (self._num_gpus * self.batch_size))


@pytest.mark.parametrize("policy", [FILL, DROP])
@pytest.mark.parametrize(("shards", "pipelines"), [(1, 1), (2, 1), (2, 2)])
def test_programs_count_batches(policy, shards, pipelines):
    def sharded(shard):
        with Pipeline(4, seed=1) as pipeline:
            pipeline.set_outputs(fn.readers.arrays(np.arange(14), name="r", num_shards=shards, shard_id=shard))
        return pipeline

    made = [sharded(shard) for shard in range(pipelines)]
    iterator = CountingAsPrograms(made, ["x"], reader_name="r", last_batch_policy=policy)
    assert (len(iterator), iterator._pipes) == (super(CountingAsPrograms, iterator).__len__(), made)


def test_last_batch_padded_does_not_change_batches():
    one, other = [DataIterator(hand_made(), ["x"], size=5, last_batch_padded=padded) for padded in (True, False)]
    assert [epoch(one) for _ in range(3)] == [epoch(other) for _ in range(3)]
    assert (one._size, one.size) == (5, 6)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (FILL, [[0, 1, 2], [3, 4, 4]]),
        (PARTIAL, [[0, 1, 2], [3, 4]]),
    ],
)
def test_padded_readers_restart_with_each_sized_epoch(policy, expected):
    @data_iterator(output_map=["x"], size=5, last_batch_padded=True, last_batch_policy=policy)
    def numbers():
        return fn.readers.arrays(np.arange(5), pad_last_batch=True)

    iterator = numbers(batch_size=3)
    assert [epoch(iterator) for _ in range(3)] == [expected] * 3
    check_iterator(lambda: numbers(batch_size=3), epochs=2)


def test_stick_to_shard_reads_static_part():
    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding(2))
    def numbers(shard_id, num_shards):
        shard = {"shard_id": shard_id, "num_shards": num_shards, "stick_to_shard": True}
        return fn.readers.arrays(np.arange(8), name="r", **shard)

    iterator = numbers(batch_size=4)
    assert [epoch(iterator) for _ in range(2)] == [[[0, 1, 4, 5], [2, 3, 6, 7]]] * 2
    assert "static parts" in iterator.explain()


def test_stick_to_shard_refuses_slices_of_batches():
    with pytest.raises(DefinitionError, match='shard_mode="contiguous"'), Pipeline(batch_size=2):
        fn.readers.arrays(np.arange(8), num_shards=2, stick_to_shard=True, shard_mode="global")
