"""Tests of replication to all devices and back."""

import equinox as eqx
import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from flax.training.train_state import TrainState
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from penstock import train


def linen():
    module = flax.linen.Dense(3)
    return TrainState.create(
        apply_fn=module.apply, params=module.init(jax.random.key(0), jnp.ones((1, 2))), tx=optax.sgd(0.1)
    )


def equinox():
    model = eqx.nn.MLP(2, 3, 4, 1, key=jax.random.key(1))
    return model, optax.sgd(0.1, 0.9).init(eqx.filter(model, eqx.is_inexact_array))


def net():
    model = nnx.Sequential(nnx.Linear(2, 3, rngs=nnx.Rngs(0)), nnx.relu, nnx.Dropout(0.5, rngs=nnx.Rngs(1)))
    return nnx.state(model)


TREES = {
    "linen": linen,
    "equinox": equinox,
    "nnx": net,
    "dict": lambda: {
        "a": np.arange(4.0, dtype=np.float32),
        "b": [jax.random.key(3), np.float32(2)],
        "f": len,
        "n": None,
        "i": 3,
    },
}


def same(one, other):
    def values(leaf):
        return jax.random.key_data(leaf) if jnp.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key) else leaf

    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        if isinstance(a, jax.Array | np.ndarray | np.generic):
            assert np.array_equal(values(a), values(b))
        else:
            assert a is b


@pytest.mark.parametrize("kind", TREES)
def test_replicate_and_unreplicate_round_trip(kind):
    tree = TREES[kind]()
    copies = train.replicate(tree)
    for leaf, original in zip(jax.tree.leaves(copies), jax.tree.leaves(tree), strict=True):
        if isinstance(original, jax.Array | np.ndarray):
            assert leaf.sharding == train.replicated_sharding()
    same(train.unreplicate(copies), tree)
    stacked = train.unreplicate_from_pmap(train.replicate_for_pmap(tree))
    assert not [leaf for leaf in jax.tree.leaves(stacked) if isinstance(leaf, bool | int | float)]
    same(
        jax.tree.map(lambda leaf, was: leaf.item() if isinstance(was, bool | int | float) else leaf, stacked, tree),
        tree,
    )


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("devices", [1, 8])
def test_donating_copy_keeps_original(kind, devices):
    tree = TREES[kind]()
    sharding = train.replicated_sharding(train.data_mesh(jax.devices()[:devices]))
    tree = jax.tree.map(lambda leaf: jax.device_put(leaf, sharding) if isinstance(leaf, jax.Array) else leaf, tree)
    before = [np.array(leaf) for leaf in jax.tree.leaves(tree) if isinstance(leaf, np.ndarray)]
    copies = [leaf for leaf in jax.tree.leaves(train.replicate(tree, sharding)) if isinstance(leaf, jax.Array)]
    grown = jax.jit(
        lambda leaves: [leaf if leaf.dtype != jnp.float32 else leaf + 1 for leaf in leaves], donate_argnums=0
    )
    jax.block_until_ready(grown(copies))
    assert any(leaf.is_deleted() for leaf in copies)
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array))
    for then, leaf in zip(before, [x for x in jax.tree.leaves(tree) if isinstance(x, np.ndarray)], strict=True):
        assert np.array_equal(then, leaf)


def test_repeated_array_becomes_two_copies():
    shared = jnp.ones(3)
    copies = train.replicate({"a": shared, "b": shared})
    jax.jit(lambda tree: tree["a"] + 1, donate_argnums=0)(dict(copies, b=None))
    assert copies["a"].is_deleted()
    assert copies["b"].tolist() == [1, 1, 1]


def test_the_mesh_has_one_auto_axis_over_all_devices():
    mesh = train.data_mesh()
    assert (mesh.axis_names, mesh.axis_types, mesh.size) == (("batch",), (AxisType.Auto,), 8)
    assert train.batch_sharding().spec == PartitionSpec("batch")
    assert train.data_mesh(jax.devices()[2:4]).devices.tolist() == jax.devices()[2:4]


def test_a_tree_of_shardings():
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("batch", "model"))
    cut, whole = (NamedSharding(mesh, PartitionSpec(*spec)) for spec in ((None, "model"), ()))
    state = train.replicate({"w": np.ones((3, 4)), "rest": [np.zeros(2), np.tanh]}, {"w": cut, "rest": whole})
    assert state["w"].sharding == cut
    assert state["w"].addressable_data(0).shape == (3, 2)
    assert state["rest"][0].sharding == whole
    same(train.unreplicate(state), {"w": np.ones((3, 4)), "rest": [np.zeros(2), np.tanh]})


def test_stacked_copies_are_one_per_device():
    stacked = train.replicate_for_pmap({"w": np.arange(3.0)}, jax.local_devices()[:4])["w"]
    assert [(piece.device.id, piece.data.tolist()) for piece in stacked.addressable_shards] == [
        (number, [[0, 1, 2]]) for number in range(4)
    ]
    assert jax.pmap(lambda w: w.sum(), devices=jax.local_devices()[:4])(stacked).tolist() == [3] * 4
