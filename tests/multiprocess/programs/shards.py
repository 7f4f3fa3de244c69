"""Program of DALI's two-process tests: rows exchanged between shards, sums over them, arrays of local parts."""

import sys

import penstock.launch


def main(batch):
    penstock.launch.initialize()
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import DataIterator, Pipeline, data_iterator, fn
    from penstock.plugin.base_iterator import LastBatchPolicy
    from penstock.plugin.jax.fn import jax_function

    batch, count = int(batch), jax.device_count()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))
    rows = PartitionSpec("batch")

    # the odd samples of a batch go to the other shard
    @jax_function(sharding=sharding)
    @jax.jit
    @jax.shard_map(mesh=sharding.mesh, in_specs=rows, out_specs=rows)
    def exchanged(x):
        other = jax.lax.pshuffle(x, "batch", [number ^ 1 for number in range(count)])
        return jnp.where((jnp.arange(batch) % 2 == 1)[:, None], other, x)

    @data_iterator(output_map=["x"], sharding=sharding, reader_name="own")
    def shards(shard_id, num_shards):
        own = np.arange(3 * batch, dtype=np.float32)[:, None] + 1000 * shard_id
        return exchanged(fn.readers.arrays(own, name="own"))

    iterator = shards(batch_size=batch * count)
    seen = 0
    for number, made in enumerate(iterator):
        for shard in made["x"].addressable_shards:
            block = (shard.index[0].start or 0) // batch
            own, other = ((np.arange(batch) + number * batch + 1000 * who) for who in (block, block ^ 1))
            assert np.array_equal(shard.data[:, 0], np.where(np.arange(batch) % 2 == 1, other, own))
        seen += 1
    assert seen == len(iterator) == 3

    # two readers of one length stay in step, from epoch to epoch
    @data_iterator(output_map=["x", "y"], sharding=sharding, reader_name="own", last_batch_policy=LastBatchPolicy.DROP)
    def paired(shard_id, num_shards):
        own = np.arange(2 * batch + 1, dtype=np.float32) + 1000 * shard_id
        return fn.readers.arrays(own, name="own", random_shuffle=True), fn.readers.arrays(own, random_shuffle=True)

    iterator = paired(batch_size=batch * count, seed=3)
    for made in (made for _ in range(3) for made in iterator):
        for one, two in zip(made["x"].addressable_shards, made["y"].addressable_shards, strict=True):
            assert np.array_equal(one.data, two.data)

    # a sum over all shards
    @data_iterator(output_map=["x"], size=-1, sharding=sharding)
    def ones(shard_id, num_shards):
        psum = jax.shard_map(lambda x: jax.lax.psum(x, "batch"), mesh=sharding.mesh, in_specs=rows, out_specs=rows)
        return jax_function(psum, sharding=sharding)(fn.constant(np.float32([1])))

    total = next(ones(batch_size=count))["x"]
    assert all(np.array_equal(shard.data, [[count]]) for shard in total.addressable_shards)

    # pipelines made by hand, one for each local block, become a global array
    blocks = [index[0].start or 0 for index in sharding.addressable_devices_indices_map((count,)).values()]
    pipelines = []
    for block in sorted(blocks):
        with Pipeline(batch_size=batch, seed=0) as pipeline:
            pipeline.set_outputs(fn.readers.arrays(np.arange(9 * batch), shard_id=block, num_shards=count, name="r"))
        pipelines.append(pipeline)
    made = next(DataIterator(pipelines, ["x"], reader_name="r", sharding=sharding))["x"]
    assert made.shape == (batch * count,)
    for shard in made.addressable_shards:
        assert np.array_equal(shard.data, np.arange(batch * count)[shard.index])
    assert int(jax.jit(jnp.sum)(made)) == batch * count * (batch * count - 1) // 2

    # a state is the same everywhere, and makes the same of the same
    running = jax_function(lambda state, x: (state + x.sum(), x + state), state=np.float32(0))
    stateful = data_iterator(
        lambda: running(fn.readers.arrays(np.arange(32, dtype=np.float32))), ["x"], sharding=sharding
    )
    iterator = stateful(batch_size=8, seed=1)
    next(iterator)
    state = iterator.get_state()
    assert float(np.asarray(state["operators"][0][0])) == 28
    expected = next(iterator)["x"]
    other = stateful(batch_size=8)
    other.set_state(state)
    again = next(other)["x"]
    for one, two in zip(expected.addressable_shards, again.addressable_shards, strict=True):
        assert np.array_equal(one.data, two.data)
        assert np.array_equal(one.data, np.arange(8, 16, dtype=np.float32)[one.index] + 28)
    print("all as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
