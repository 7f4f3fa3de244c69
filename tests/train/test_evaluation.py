"""Tests of exact evaluation and of batches of arrays in memory."""

import dataclasses
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from penstock import LastBatchPolicy, data_iterator, fn, train
from penstock.errors import UsageError


def sharding(devices):
    return train.batch_sharding(train.data_mesh(jax.devices()[:devices]))


@pytest.mark.parametrize(("rows", "devices"), [(9973, 8), (9973, 1), (200, 8), (1, 8)])
def test_evaluation_is_exact_for_any_number_of_samples(rows, devices, compilations):
    rng = np.random.default_rng(rows)
    data = {"p": rng.normal(size=(rows, 3)).astype(np.float32), "y": rng.integers(0, 3, rows)}

    def metric(scale, batch):
        hit = batch["p"].argmax(1) == batch["y"]
        with jax.numpy_dtype_promotion("standard"):
            loss = scale * (batch["p"] ** 2).sum(1) + jnp.log(0.0 + batch["valid"])  # infinite where a row was added
        return {"accuracy": hit, "loss": loss, "square": (batch["p"] ** 2).mean(1)}

    batches = train.batches(data, 200, sharding=sharding(devices))
    found = train.evaluate(metric, np.float32(2), batches)
    assert found["accuracy"] == (data["p"].argmax(1) == data["y"]).mean()
    squares = data["p"].astype(np.float64) ** 2
    assert found["loss"] == pytest.approx(2 * squares.sum(1).mean(), rel=1e-6)
    assert found["square"] == pytest.approx(squares.mean(), rel=1e-6)
    again = train.evaluate(metric, np.float32(2), batches)  # another epoch, the same program
    assert again == found
    assert compilations("totals") == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("devices", [1, 8])
def test_integers_are_summed_exactly(dtype, devices):
    wide = dtype.endswith("64")
    with jax.enable_x64(wide):
        if dtype == "bool":
            values = np.arange(600) % 3 == 0
        else:
            limits = np.iinfo(dtype)
            values = np.random.default_rng(5).integers(limits.min, limits.max, 600, dtype, endpoint=True)
            values[:400] = limits.max  # the sum of most of them overflows the type
        batches = train.batches({"x": values}, 128, sharding=sharding(devices))
        mean = train.evaluate(lambda _, batch: batch["x"], None, batches)
    assert mean == sum(map(int, values)) / 600


def test_batches_of_arrays_in_the_other_byte_order():
    data = np.arange(24.0).astype(np.float32)
    batch = next(train.batches(data.astype(data.dtype.newbyteorder("S")), 8, shuffle=True, seed=4))
    same = next(train.batches(data, 8, shuffle=True, seed=4))
    assert batch["x"].tolist() == same["x"].tolist()


def test_metric_and_its_closure_are_garbage_collected():
    class Data:
        factor = 2.0

    def metric(_, batch, data=Data()):  # noqa: B008  # what holds the default is looked at
        return batch["x"] * data.factor

    held = weakref.ref(metric.__defaults__[0])
    assert train.evaluate(metric, None, train.batches(np.ones(8), 8)) == 2
    del metric
    gc.collect()
    assert held() is None


def test_metric_without_weak_references_is_refused():
    class Slotted:
        __slots__ = ()

        def __call__(self, state, batch):
            return batch["x"]

    with pytest.raises(UsageError, match=r"weak references[\s\S]*__weakref__"):
        train.evaluate(Slotted(), None, train.batches(np.ones(8), 8))


def test_metric_need_not_be_hashable(compilations):
    @dataclasses.dataclass
    class Scaled:
        factor: float

        def __call__(self, _, batch):
            return batch["x"] * self.factor

    two, three = Scaled(2), Scaled(3)
    data = train.batches(np.ones(8), 8)
    assert [train.evaluate(metric, None, data) for metric in (two, three, two)] == [2, 3, 2]
    assert compilations("totals") == 2


def test_evaluation_does_not_block_between_batches(monkeypatch):
    waits, seen = [], []
    batches = train.batches({"x": np.arange(100.0)}, 8)
    monkeypatch.setattr(jax, "device_get", lambda tree, get=jax.device_get: waits.append(1) or get(tree))

    def watched():
        for batch in batches:
            seen.append(len(waits))
            yield batch

    with jax.transfer_guard_device_to_host("disallow_explicit"):
        # on the CPU the guard sees nothing; the count does
        assert train.evaluate(lambda _, batch: batch["x"], None, watched()) == 49.5
    assert (seen, len(waits)) == ([0] * 13, 1)


def test_state_on_any_device_is_kept(weights, errors, samples):
    batches = train.batches(samples, 16)
    right = float(errors(weights, samples).mean())
    for state in (weights, jax.device_put(weights, jax.devices()[3]), train.replicate(weights)):
        assert train.evaluate(errors, state, batches) == pytest.approx(right, rel=1e-6)
        assert train.evaluate(errors, state, batches) == pytest.approx(right, rel=1e-6)


def test_metric_may_contain_non_arrays(samples):
    state = {"f": jnp.abs, "w": np.float32(2)}
    found = train.evaluate(lambda s, b: s["w"] * s["f"](b["x"]).mean(1), state, train.batches(samples, 16))
    assert found == pytest.approx(2 * np.abs(samples["x"]).mean(), rel=1e-6)


def test_batches_without_mask_count_all_rows():
    batches = [{"x": jnp.arange(3.0)}, {"x": jnp.arange(5.0)}]
    assert train.evaluate(lambda _, batch: batch["x"], None, batches) == 13 / 8


def test_inexact_iterators_are_refused():
    def metric(_, batch):
        return batch["x"]

    data = {"x": np.arange(20.0)}
    for policy in (LastBatchPolicy.FILL, LastBatchPolicy.DROP):
        with pytest.raises(UsageError, match="leaves out or repeats"):
            train.evaluate(metric, None, train.batches(data, 8, last_batch_policy=policy))
        assert (
            train.evaluate(metric, None, train.batches(data, 4, last_batch_policy=policy, sharding=sharding(4))) == 9.5
        )
    begun = train.batches(data, 8)
    next(begun)
    with pytest.raises(UsageError, match=r"middle of an epoch\n  given:    1 of 3"):
        train.evaluate(metric, None, begun)
    endless = data_iterator(lambda: fn.readers.arrays(data["x"]), ["x"], size=-1)(batch_size=8)
    with pytest.raises(UsageError, match="endless"):
        train.evaluate(metric, None, endless)
    with pytest.raises(UsageError, match="no samples"):
        train.evaluate(metric, None, [])
    stacked = data_iterator(
        lambda: fn.readers.arrays(data["x"], name="r"), ["x"], reader_name="r", devices=jax.devices(),
        last_batch_policy=LastBatchPolicy.PAD,
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"layout of jax\.pmap"):
        train.evaluate(metric, None, stacked(batch_size=8))


def files(folder, flat):
    """Return file contents as predictions, and labels, optionally flattened."""
    content, labels = fn.readers.file(file_root=str(folder), name="reader")
    return fn.reshape(content, shape=[]), fn.squeeze(labels, axes=[0]) if flat else labels


@pytest.fixture
def folder(tmp_path):
    """Create 12 class folders with one file each, whose only byte is the class."""
    for number in range(12):
        (tmp_path / f"{number:02}").mkdir()
        (tmp_path / f"{number:02}" / "1.jpg").write_bytes(bytes([number]))
    return tmp_path


def right(_, batch):
    return batch["x"].astype(jnp.int32) == batch["labels"]


def wrong(metric, iterator, given, expected="shape (8,)", fix="flatten the labels"):
    """Check that a metric is refused at the first batch, before it is compiled."""
    taken = []

    def watched():
        for batch in iterator:
            taken.append(batch)
            yield batch

    with jax.numpy_rank_promotion("allow"), pytest.raises(UsageError, match="one number per row") as refused:
        train.evaluate(metric, None, watched())
    text = str(refused.value)
    assert f"given:    {given}\n" in text
    assert f"expected: {expected}\n" in text
    assert fix in text
    assert "test_evaluation.py" in text
    assert len(taken) == 1


@pytest.mark.parametrize("devices", [1, 8])
def test_metric_must_return_one_number_per_row(devices, folder, compilations):
    rows = {"reader_name": "reader", "last_batch_policy": LastBatchPolicy.PAD, "sharding": sharding(devices)}
    make = data_iterator(files, ["x", "labels"], **rows)
    assert train.evaluate(right, None, make(folder, True, batch_size=8)) == 1
    compiled = compilations("totals")
    labels = make(folder, False, batch_size=8)
    wrong(right, labels, "right of shape (8, 8)", fix="fn.squeeze(labels, axes=[0])")
    labels.next_epoch()
    wrong(
        lambda _, batch: {"flat": batch["x"], "a": {"b": right(_, batch)}},
        labels,
        "<lambda>['a']['b'] of shape (8, 8)",
    )
    data = train.batches({"x": np.arange(16.0).reshape(8, 2)}, 8, sharding=sharding(devices))
    wrong(lambda _, batch: batch["x"], data, "<lambda> of shape (8, 2)", fix="reduce the other axes")
    wrong(lambda _, batch: batch["x"][:, :1], data, "<lambda> of shape (8, 1)")
    wrong(lambda _, batch: batch["x"].mean(), data, "<lambda> of shape ()", fix="leave the mean over rows to evaluate")
    wrong(lambda _, batch: batch["x"][:4, 0], data, "<lambda> of shape (4,)", fix="mean over rows")
    assert compilations("totals") == compiled
    with pytest.raises(UsageError, match="returned no values"):
        train.evaluate(lambda _, batch: None, None, data)


def test_refused_iterator_error_explains_restart(folder):
    make = data_iterator(files, ["x", "labels"], reader_name="reader", last_batch_policy=LastBatchPolicy.PAD)
    labels = make(folder, False, batch_size=8)
    with jax.numpy_rank_promotion("allow"), pytest.raises(UsageError, match="one number per row"):
        train.evaluate(right, None, labels)
    with pytest.raises(UsageError, match=r"middle of an epoch[^@]*fix: .*next_epoch\(\)"):
        train.evaluate(right, None, labels)
    labels.next_epoch()
    assert train.evaluate(lambda _, batch: right(_, {**batch, "labels": batch["labels"][:, 0]}), None, labels) == 1


@pytest.mark.parametrize("devices", [1, 8])
def test_invalid_metric_raises_before_training(devices, folder):
    rows = {"reader_name": "reader", "last_batch_policy": LastBatchPolicy.PAD, "sharding": sharding(devices)}
    make = data_iterator(files, ["x", "labels"], **rows)
    step = train.data_parallel(lambda state, batch: state + 1, sharding(devices))

    def run(flat):
        taken = []
        count = train.Callback()
        count.on_step_end = taken.append
        data = train.batches(np.ones(16), 8, sharding=sharding(devices))
        test = train.Evaluate(right, make(folder, flat, batch_size=8))
        try:
            return train.fit(step, np.float32(0), data, epochs=1, callbacks=[test, count]).history.epochs
        finally:
            assert len(taken) == 2 * flat

    with jax.numpy_rank_promotion("allow"), pytest.raises(UsageError, match=r"right of shape \(8, 8\)"):
        run(flat=False)
    assert run(flat=True) == [{"test": 1.0}]


@pytest.mark.parametrize(
    "mask", [np.ones((8, 1), bool), np.ones(1, bool), np.full(8, 0.5, np.float32), np.ones((8, 4), bool)]
)
def test_mask_must_be_one_boolean_per_row(mask):
    batches = [{"x": jnp.arange(8.0), "valid": jnp.asarray(mask)}]
    with jax.numpy_rank_promotion("allow"), pytest.raises(UsageError, match="one boolean per row") as refused:
        train.evaluate(lambda _, batch: batch["x"], None, batches)
    assert f"given:    valid, {mask.dtype}{list(mask.shape)}\n  expected: bool[8]\n" in str(refused.value)


def test_batches_shuffle_in_each_epoch_and_resume():
    data = {"x": np.arange(64), "y": np.arange(64) % 4}
    batches = train.batches(data, 16, shuffle=True, seed=2)
    epochs = [[batch["x"].tolist() for batch in batches] for _ in range(2)]
    assert [sorted(sum(epoch, [])) for epoch in epochs] == [list(range(64))] * 2
    assert epochs[0] != epochs[1]
    again = train.batches(data, 16, shuffle=True, seed=2)
    next(again)
    other = train.batches(data, 16, shuffle=True, seed=9)
    other.set_state(again.get_state())
    rest = list(other)
    assert [batch["x"].tolist() for batch in rest] == epochs[0][1:]
    assert all((batch["y"] == batch["x"] % 4).all() for batch in rest)
    assert rest[0]["x"].sharding == train.batch_sharding()


def test_batches_default_to_drop_if_shuffled_and_pad_otherwise():
    x = np.arange(61)
    assert [len(batch["x"]) for batch in train.batches(x, 16, shuffle=True)] == [16] * 3
    masks = [batch["valid"].sum().item() for batch in train.batches(x, 16)]
    assert masks == [16, 16, 16, 13]
    rows = [row for batch in train.batches((x, -x), 16) for row in (batch["x"] + batch["y"])[batch["valid"]].tolist()]
    assert rows == [0] * 61


def test_invalid_arrays_are_refused():
    with pytest.raises(UsageError, match="names x and y"):
        train.batches((np.ones(4), np.ones(4), np.ones(4)), 4)
    with pytest.raises(UsageError, match="8 equal parts"):
        train.batches(np.ones(40), 4)


def sharded(reader, devices=4, policy=LastBatchPolicy.PAD, **options):
    """Return an iterator over a definition that is traced for each block of rows."""
    return data_iterator(reader, ["x"], last_batch_policy=policy, sharding=sharding(devices), **options)(batch_size=8)


def mean(iterator):
    return train.evaluate(lambda _, batch: batch["x"], None, iterator)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [40, 41, 42, 43, 61])
@pytest.mark.parametrize("stick", [False, True])
def test_evaluation_is_exact_over_contiguous_shards(rows, stick):
    data = np.arange(rows, dtype=np.float32)

    def parts(shard_id, num_shards):
        shard = {"shard_id": shard_id, "num_shards": num_shards, "stick_to_shard": stick}
        return fn.readers.arrays(data, name="r", shard_mode="contiguous", random_shuffle=True, **shard)

    iterator = sharded(parts, reader_name="r")
    assert iterator.visits_each_sample_once
    assert iterator.size == rows
    for _ in range(3):
        assert mean(iterator) == data.mean(dtype=np.float64)
    for policy in (LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL):
        if rows % 8:
            with pytest.raises(UsageError, match=r"leaves out or repeats|PARTIAL needs"):
                mean(sharded(parts, policy=policy, reader_name="r"))
        else:
            assert mean(sharded(parts, policy=policy, reader_name="r")) == data.mean(dtype=np.float64)


@pytest.mark.parametrize("mode", ["contiguous", "global"])
def test_single_shard_reader_is_refused(mode):
    def half():
        return fn.readers.arrays(np.arange(32.0), name="r", shard_id=1, num_shards=2, shard_mode=mode)

    iterator = sharded(half, reader_name="r")
    assert not iterator.visits_each_sample_once
    with pytest.raises(UsageError, match="some of the shards"):
        mean(iterator)


def test_shard_data_sets_of_equal_length_are_accepted():
    def own(lengths):
        def reader(shard_id):
            return fn.readers.arrays(np.full(lengths[shard_id], shard_id, np.float32), name="r")

        return reader

    assert mean(sharded(own([9, 9, 9, 9]), reader_name="r")) == 1.5
    iterator = sharded(own([9, 8, 9, 9]), reader_name="r")
    assert not iterator.visits_each_sample_once
    with pytest.raises(UsageError, match="leaves out or repeats"):
        mean(iterator)


def test_size_does_not_determine_end_of_data():
    def reader():
        return fn.readers.arrays(np.arange(61.0), name="r")

    with pytest.raises(UsageError, match="fix:      reader_name="):
        sharded(reader, size=61)
    for policy, size in ((LastBatchPolicy.FILL, 64), (LastBatchPolicy.PARTIAL, 60)):
        iterator = sharded(reader, 4, policy, size=size)
        assert not iterator.visits_each_sample_once
        with pytest.raises(UsageError, match="size is not the data's own end"):
            mean(iterator)


def test_middle_of_epoch_with_other_batch_size():
    first = train.batches({"x": np.arange(64.0)}, 8)
    next(first)
    other = train.batches({"x": np.arange(64.0)}, 24)
    other.set_state(first.get_state())
    assert other.batches_delivered == 0
    assert not other.at_start
    with pytest.raises(UsageError, match="middle of an epoch"):
        mean(other)


def test_state_with_a_key_is_checked_and_evaluated():
    evaluate = train.Evaluate(lambda state, batch: batch["x"] * state["w"], train.batches(np.ones(16), 8), "val")
    step = train.data_parallel(lambda state, batch: {**state, "w": state["w"] + 1})
    state = {"w": np.float32(0), "key": jax.random.key(0)}
    loop = train.fit(step, state, train.batches(np.ones(8), 8), epochs=2, callbacks=[evaluate])
    assert [record["val"] for record in loop.history.epochs] == [1, 2]


@pytest.mark.parametrize("every", [1, 2])
def test_evaluation_on_the_training_iterator_does_not_move_the_training(every):
    step = train.data_parallel(lambda state, batch: (state, {"first": batch["x"][0]}))

    def run(evaluate):
        data = train.batches(np.arange(32.0, dtype=np.float32), 8, shuffle=True)
        callbacks = [train.Evaluate(lambda _, batch: batch["x"], data, every=every)] * evaluate
        return train.fit(step, np.float32(0), data, epochs=4, callbacks=callbacks).history

    assert run(evaluate=True).steps == run(evaluate=False).steps
    assert [record.get("test") for record in run(evaluate=True).epochs[every - 1 :: every]] == [15.5] * (4 // every)
