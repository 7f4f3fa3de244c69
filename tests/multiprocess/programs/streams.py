"""Program in which each process saves its rows of all definitions and batches."""

import sys
from pathlib import Path

import penstock.launch

MORE = {
    "plain": [("straight", "device"), ("reversed", "device"), ("square", "host")],
    "slices": [("reversed", "host"), ("square", "device")],
    "contiguous": [("reversed", "host")],
    "local": [("reversed", "host"), ("straight", "device")],
}
"""The layouts and placements besides the first."""


def definitions(np, fn, types):
    images = np.random.default_rng(0).integers(0, 256, (37, 6, 5, 3), np.uint8)
    numbers = np.arange(37, dtype=np.int32)
    parts = [np.arange(100 * shard, 100 * shard + 9 + shard, dtype=np.int32) for shard in range(4)]

    def plain():
        x, y = fn.readers.arrays((images, numbers), layout=("HWC", ""), name="r", random_shuffle=True)
        x = fn.crop_mirror_normalize(
            x, crop=(4, 4), crop_pos_x=fn.random.uniform(range=[0, 1]), mirror=fn.random.coin_flip()
        )
        return x, y

    def slices(shard_id, num_shards):
        x = fn.readers.arrays(numbers, name="r", random_shuffle=True, shard_id=shard_id, num_shards=num_shards)
        return x, fn.random.uniform(range=[0, 1])

    def unsharded(shard_id, num_shards):
        return fn.readers.arrays(numbers, name="r", random_shuffle=True), fn.random.uniform(range=[0, 1])

    def contiguous(shard_id, num_shards):
        shard = {"shard_id": shard_id, "num_shards": num_shards, "shard_mode": "contiguous"}
        return fn.readers.arrays(numbers, name="r", random_shuffle=True, **shard), fn.random.uniform(range=[0, 1])

    def local(shard_id, num_shards):
        return fn.readers.arrays(parts[shard_id], name="r", random_shuffle=True), fn.random.uniform(range=[0, 1])

    def mixed(shard_id, num_shards):
        odd, even = (fn.readers.arrays(numbers, subset=slice(first, None, 2)) for first in (1, 0))
        shard = {"shard_id": shard_id, "num_shards": num_shards}
        x = fn.readers.mix(odd, even, weights=[2, 1], name="r", random_shuffle=True, **shard)
        return x, fn.readers.arrays(numbers, weights=numbers, **shard)

    def keyed():
        import jax

        def noise(x, key):
            return x + jax.vmap(lambda k: jax.random.uniform(jax.random.wrap_key_data(k)))(key)

        x = fn.cast(fn.readers.arrays(numbers, name="r", random_shuffle=True), dtype=types.FLOAT)
        return fn.jax_function(noise)(x, fn.random.keys()), x

    return plain, slices, unsharded, contiguous, local, mixed, keyed


def main(folder):
    penstock.launch.initialize()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import LastBatchPolicy, data_iterator, fn, types

    devices = np.array(jax.devices()[:4])
    meshes = {
        "straight": NamedSharding(Mesh(devices, ("batch",)), PartitionSpec("batch")),
        "reversed": NamedSharding(Mesh(devices[::-1], ("batch",)), PartitionSpec("batch")),
        "square": NamedSharding(Mesh(devices.reshape(2, 2), ("data", "model")), PartitionSpec("data")),
    }
    states = []
    for definition in definitions(np, fn, types):
        name = definition.__name__
        for mesh, placement in (("straight", "host"), *MORE.get(name, ())):
            options = {"reader_name": "r", "sharding": meshes[mesh], "last_batch_policy": LastBatchPolicy.PAD}
            make = data_iterator(definition, ["x", "y"], auto_reset=True, **options)
            iterator = make(batch_size=8, seed=5, placement=placement, num_threads=2)
            for epoch in range(2):
                for number, batch in enumerate(iterator):
                    save(Path(folder), f"{name}-{mesh}-{placement}-{epoch}-{number}", batch, np)
            states.append((name, mesh, len(iterator), iterator.size, iterator.get_state()))

    def sample(info):
        if info.idx_in_epoch >= 21:
            raise StopIteration
        return np.int32(info.idx_in_epoch)

    def short():
        return {"x": fn.external_source(sample, batch=False, dtype=types.INT32)}

    ended = data_iterator(short, size=20, sharding=meshes["straight"])(batch_size=8)
    print("ENDS", [len(list(ended)) for _ in range(2)])
    drawn = data_iterator(definitions(np, fn, types)[0], ["x", "y"], reader_name="r", sharding=meshes["straight"])
    seed = drawn(batch_size=8).get_state()["seed"]
    print("STATES", states)
    print("SEED", seed)


def save(folder, name, batch, np):
    for output, array in batch.items():
        for shard in array.addressable_shards:
            np.save(folder / f"{name}-{output}-{shard.index[0].start or 0:03d}.npy", shard.data)


if __name__ == "__main__":
    main(*sys.argv[1:])
