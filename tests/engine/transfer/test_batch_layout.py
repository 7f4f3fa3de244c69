"""Tests of batch layouts: any NamedSharding whose first axis splits the batch, and the layout of pmap."""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import DataIterator, LastBatchPolicy, Pipeline, data_iterator, fn, train
from penstock.engine.transfer.batch_layout import PmapLayout, ShardedLayout, SingleDevice
from penstock.engine.transfer.emulated_devices import InFlightLimit
from penstock.errors import UsageError

DEVICES = np.array(jax.devices())
DATA = np.arange(64 * 6, dtype=np.float32).reshape(64, 6)


def mesh(shape, names, devices=DEVICES, kind=AxisType.Auto):
    count = int(np.prod(shape))
    return Mesh(np.array(devices[:count]).reshape(shape), names, axis_types=(kind,) * len(names))


SHARDINGS = {
    "one axis": NamedSharding(mesh((8,), ("batch",)), P("batch")),
    "a spec as long as the array": NamedSharding(mesh((8,), ("batch",)), P("batch", None)),
    "two axes together": NamedSharding(mesh((4, 2), ("a", "b")), P(("a", "b"))),
    "two axes the other way round": NamedSharding(mesh((4, 2), ("a", "b")), P(("b", "a"))),
    "replicated over the second axis": NamedSharding(mesh((4, 2), ("data", "model")), P("data")),
    "features over the second axis": NamedSharding(mesh((4, 2), ("data", "model")), P("data", "model")),
    "reversed": NamedSharding(mesh((8,), ("batch",), DEVICES[::-1]), P("batch")),
    "interleaved": NamedSharding(mesh((8,), ("batch",), DEVICES[[0, 4, 1, 5, 2, 6, 3, 7]]), P("batch")),
    "some of the devices": NamedSharding(mesh((2,), ("batch",), DEVICES[3:]), P("batch")),
    "one device": NamedSharding(mesh((1,), ("batch",), DEVICES[5:]), P("batch")),
    "replicated": NamedSharding(mesh((8,), ("batch",)), P()),
    "explicit": NamedSharding(mesh((8,), ("batch",), kind=AxisType.Explicit), P("batch")),
    "explicit, two axes": NamedSharding(mesh((4, 2), ("data", "model"), kind=AxisType.Explicit), P("data", "model")),
    "jax.make_mesh": NamedSharding(jax.make_mesh((8,), ("batch",)), P("batch")),
}


def definition(shard_id, num_shards):
    x = fn.readers.arrays(DATA, name="r", random_shuffle=True, shard_id=shard_id, num_shards=num_shards)
    return x * 2.0, x[0] + fn.random.uniform(range=[0, 1])


def plain(shard_id=0, num_shards=1):
    return definition(shard_id, num_shards)


def batches(iterator):
    return [{name: np.asarray(array) for name, array in batch.items()} for batch in iterator]


@pytest.fixture(scope="module")
def expected():
    return batches(data_iterator(plain, ["x", "y"], reader_name="r")(batch_size=16, seed=5, placement="host"))


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("name", SHARDINGS)
def test_all_shardings_yield_same_global_batches(name, placement, expected):
    sharding = SHARDINGS[name]
    per_output = {"x": sharding, "y": NamedSharding(sharding.mesh, P(*sharding.spec[:1]))}
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=per_output)(
        batch_size=16, seed=5, placement=placement
    )
    for batch, other in zip(iterator, expected, strict=True):
        for output, array in batch.items():
            assert array.sharding == per_output[output], "the user's own sharding, not one like it"
            np.testing.assert_allclose(np.asarray(array), other[output], rtol=0, atol=4e-5 * (placement == "device"))
            for shard in array.addressable_shards:
                np.testing.assert_array_equal(shard.data, np.asarray(array)[shard.index])


def test_one_sharding_applies_to_all_outputs_with_enough_axes(expected):
    sharding = SHARDINGS["two axes together"]
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=sharding)(batch_size=16, seed=5)
    first = next(iterator)
    assert [array.sharding for array in first.values()] == [sharding, sharding]
    assert np.array_equal(first["x"], expected[0]["x"])


def test_outputs_may_have_different_shardings(expected):
    grid = mesh((4, 2), ("a", "b"))
    shardings = {"x": NamedSharding(grid, P(("a", "b"))), "y": NamedSharding(grid, P("a"))}
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=shardings)(batch_size=16, seed=5)
    for batch, other in zip(iterator, expected, strict=True):
        assert batch["y"].sharding == shardings["y"]
        assert all(np.array_equal(batch[name], other[name]) for name in other)


@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("count", [1, 2, 8])
def test_devices_argument_yields_pmap_layout(count, placement, expected):
    devices = list(DEVICES[::-1][:count])
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", devices=devices)(
        batch_size=16, seed=5, placement=placement
    )
    for batch, other in zip(iterator, expected, strict=True):
        assert batch["x"].shape == (count, 16 // count, 6)
        assert [shard.device for shard in batch["x"].addressable_shards] == devices
        np.testing.assert_allclose(np.asarray(batch["x"]).reshape(16, 6), other["x"])
        sums = jax.pmap(lambda x: x.sum(axis=0))(batch["x"]) if count == 8 else None
        if sums is not None:
            np.testing.assert_allclose(np.asarray(sums).sum(0), other["x"].sum(0), rtol=1e-6)


@pytest.mark.parametrize("placement", ["host", "device"])
def test_ambient_mesh_is_ignored(placement, expected):
    explicit = jax.make_mesh((8,), ("batch",))
    with jax.set_mesh(explicit):
        alone = data_iterator(plain, ["x", "y"], reader_name="r")(batch_size=16, seed=5, placement=placement)
        sharded = data_iterator(definition, ["x", "y"], reader_name="r", sharding=SHARDINGS["one axis"])(
            batch_size=16, seed=5, placement=placement
        )
        for one, other, plain_batch in zip(alone, sharded, expected, strict=True):
            assert len(one["x"].devices()) == 1
            np.testing.assert_allclose(np.asarray(one["x"]), plain_batch["x"])
            np.testing.assert_allclose(np.asarray(other["x"]), plain_batch["x"])


def test_batches_on_explicit_axes_support_arithmetic():
    sharding = SHARDINGS["explicit"]
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=sharding)(batch_size=16)
    batch = next(iterator)
    with jax.set_mesh(sharding.mesh):
        assert jax.jit(lambda x: (x + 1.0).mean())(batch["x"]) > 0


def test_without_a_sharding_arrays_are_uncommitted():
    iterator = data_iterator(plain, ["x", "y"], reader_name="r")(batch_size=16)
    batch = next(iterator)
    replicated = jax.device_put(np.ones(6, np.float32), SHARDINGS["replicated"])
    assert jax.jit(lambda x, w: x @ w)(batch["x"], replicated).shape == (16,)


def test_single_device_accepts_any_device_id(monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: [jax.devices()[3]])

    def of(rank):
        with Pipeline(4, device_id=rank) as pipeline:
            pipeline.set_outputs(fn.readers.arrays(DATA, name="r", shard_id=rank, num_shards=2))
        return pipeline

    whole = np.concatenate([next(DataIterator(of(rank), ["x"], reader_name="r"))["x"] for rank in range(2)])
    stacked = next(DataIterator([of(0), of(1)], ["x"], reader_name="r"))["x"]
    assert stacked.devices() == {jax.devices()[3]}
    np.testing.assert_array_equal(stacked, whole.reshape(2, 4, 6))


@pytest.mark.parametrize(("rows", "nearest"), [(10, "8 or 16"), (3, "8"), (63, "56 or 64")])
def test_indivisible_batch_is_refused_with_nearest_sizes(rows, nearest):
    for option in ({"sharding": SHARDINGS["one axis"]}, {"devices": list(DEVICES)}):
        with pytest.raises(UsageError, match=f"expected: {nearest}"):
            data_iterator(definition, ["x", "y"], reader_name="r", **option)(batch_size=rows)


def test_incompatible_shardings_are_refused():
    def make(sharding):
        return data_iterator(definition, ["x", "y"], reader_name="r", sharding=sharding)(batch_size=16)

    with pytest.raises(UsageError, match="does not fit"):
        make(SHARDINGS["features over the second axis"])  # y has one axis less
    with pytest.raises(UsageError, match="does not fit"):
        make(
            {
                "x": NamedSharding(mesh((2, 4), ("a", "b")), P("a", "b")),
                "y": NamedSharding(mesh((2, 4), ("a", "b")), P("a")),
            }
        )
    with pytest.raises(UsageError, match="different sets of devices"):
        make({"x": SHARDINGS["one axis"], "y": SHARDINGS["some of the devices"]})
    with pytest.raises(UsageError, match="entry for each output"):
        make({"x": SHARDINGS["one axis"], "z": SHARDINGS["one axis"]})
    with pytest.raises(UsageError, match="do not nest"):
        ShardedLayout(
            [NamedSharding(mesh((2, 3), ("a", "b")), P("a")), NamedSharding(mesh((2, 3), ("a", "b")), P("b"))]
        )
    for wrong in (mesh((8,), ("b",)), P("b"), "batch", jax.sharding.SingleDeviceSharding(DEVICES[0])):
        with pytest.raises(UsageError, match="NamedSharding"):
            make(wrong)
    with pytest.raises(AssertionError):  # DALI's kind of error for it
        make("batch")


def test_another_order_of_devices_is_for_the_host_alone(expected):
    make = data_iterator(
        plain, ["x", "y"], reader_name="r", sharding={"x": SHARDINGS["one axis"], "y": SHARDINGS["reversed"]}
    )
    for one, other in zip(batches(make(batch_size=16, seed=5, placement="host")), expected, strict=True):
        np.testing.assert_array_equal(one["y"], other["y"])
    with pytest.raises(UsageError, match=r'one order of devices(.|\n)*\[0, 1, .* and \[7, 6, (.|\n)*placement="host"'):
        make(batch_size=16, placement="device")


def test_blocks_are_numbered_in_row_order():
    assert (ShardedLayout([SHARDINGS["reversed"]]).blocks, ShardedLayout([SHARDINGS["reversed"]]).shards) == (
        8,
        tuple(range(8)),
    )
    assert ShardedLayout([SHARDINGS["replicated over the second axis"]]).blocks == 4
    assert ShardedLayout([SHARDINGS["replicated"]]).blocks == 1
    assert SingleDevice().local_rows(3).tolist() == [0, 1, 2]
    with pytest.raises(UsageError, match="distinct"):
        PmapLayout([DEVICES[0], DEVICES[0]], 2)


def test_shard_arguments_match_blocks():
    seen = []

    def observed(shard_id, num_shards):
        seen.append((shard_id, num_shards))
        return definition(shard_id, num_shards)[0]

    data_iterator(observed, ["x"], reader_name="r", sharding=SHARDINGS["features over the second axis"])(batch_size=16)
    assert seen == [(k, 4) for k in range(4)]
    seen.clear()
    data_iterator(observed, ["x"], reader_name="r", devices=list(DEVICES[:2]))(batch_size=16)
    assert seen == [(0, 2), (1, 2)]
    seen.clear()
    data_iterator(observed, ["x"], reader_name="r")(batch_size=16)
    assert seen == [(0, 1)]


def test_batches_held_by_jax_are_never_overwritten():
    """On the CPU, JAX uses the buffers without a copy, so batches that are held must not change later."""
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=SHARDINGS["one axis"])(
        batch_size=16, seed=5, placement="host"
    )
    held, copies = [], []
    for _ in range(6):
        for batch in iterator:
            held.append(batch)
            copies.append({name: np.array(array) for name, array in batch.items()})
    for batch, copy in zip(held, copies, strict=True):
        assert all(np.array_equal(batch[name], copy[name]) for name in copy)


def test_transfer_on_cpu_is_zero_copy():
    with Pipeline(16, 1, seed=0, placement="host") as pipeline:
        pipeline.set_outputs(fn.readers.arrays(np.zeros((64, 32), np.float32), name="r"))
    iterator = DataIterator(pipeline, ["x"], reader_name="r", sharding=SHARDINGS["one axis"])
    (buffer,) = iterator._cursor.run._loader.get(iterator._cursor.step).columns
    array = iterator._cursor.run._layout.put_batch({0: buffer})[0]
    pointers = {shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}
    assert pointers == {buffer.ctypes.data + k * buffer.nbytes // 8 for k in range(8)}


def test_iterator_waits_for_emulated_devices():
    """Without the wait per batch, twenty programs per batch on eight devices deadlock XLA's CPU client."""
    sharding = SHARDINGS["one axis"]
    weights = jax.device_put(np.eye(6, dtype=np.float32), SHARDINGS["replicated"])
    step = jax.jit(lambda w, x: w + 1e-9 * (x.T @ x))
    iterator = data_iterator(definition, ["x", "y"], reader_name="r", sharding=sharding)(batch_size=16)
    for _ in range(10):
        for batch in iterator:
            for _ in range(20):
                weights = step(weights, batch["x"])
    assert np.isfinite(np.asarray(weights)).all()
    assert InFlightLimit(list(DEVICES[:1]))._barrier is None


@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize(
    "name", ["one axis", "features over the second axis", "one device", "replicated", "jax.make_mesh"]
)
def test_batches_are_explicit_transfers(name, placement):
    sharding = SHARDINGS[name]
    per_output = {"x": sharding, "y": NamedSharding(sharding.mesh, P(*sharding.spec[:1]))}
    with jax.transfer_guard("disallow"):
        iterator = data_iterator(
            plain, ["x", "y"], reader_name="r", sharding=per_output, last_batch_policy=LastBatchPolicy.PAD
        )(batch_size=24, seed=5, placement=placement)
        assert len(list(iterator)) == 3
    assert jax.config.jax_transfer_guard_host_to_device is None, "the user's guard is unchanged"


def test_training_under_a_transfer_guard():
    def step(scale, batch):
        return scale + 1, {"loss": (scale * batch["x"]).sum()}

    with jax.transfer_guard("disallow"):
        for iterator in (
            train.batches(DATA, 16, shuffle=True),
            data_iterator(plain, ["x", "y"], devices=jax.local_devices())(batch_size=16),
        ):
            assert len(list(iterator)) == 4
        loop = train.fit(train.data_parallel(step), np.float32(0), train.batches(DATA, 16, shuffle=True), epochs=1)
        train.evaluate(lambda scale, batch: scale * batch["x"].sum(1), loop.state, train.batches(DATA, 24))
        train.replicate_for_pmap({"step": 0})
