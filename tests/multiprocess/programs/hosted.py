"""Program whose batches input hosts compute: each process saves its rows."""

import sys
from pathlib import Path

import numpy as np

import penstock.launch
from penstock import data_iterator, fn


def shards(shard_id, num_shards):
    """Numbers of which each block reads its shard, random numbers, and samples that fail."""
    read = fn.readers.arrays(
        np.arange(60, dtype=np.int32), random_shuffle=True, shard_id=shard_id, num_shards=num_shards, name="r"
    )

    def check(number, rng):
        if number % 7 == 0:
            raise ValueError(f"{number} is bad")
        return number + np.int32(rng.integers(1000))

    return fn.python_function(read, function=check, dtype=np.int32, ndim=0), fn.random.uniform()


def whole(factor):
    """Multiples of shuffled numbers."""
    return fn.readers.arrays(np.arange(40, dtype=np.int32), random_shuffle=True, name="r") * factor, fn.random.uniform()


def main(folder, *addresses):
    folder = Path(folder)
    penstock.launch.initialize()
    import jax

    sharding = jax.NamedSharding(jax.make_mesh((4,), ("batch",)), jax.P("batch"))
    for definition, arguments in ((shards, {}), (whole, {"factor": 3})):
        names = ["x", "u", "valid"]
        make = data_iterator(definition, names, reader_name="r", sharding=sharding, on_error="skip")
        with make(**arguments, batch_size=8, seed=3, input_hosts=addresses) as iterator:
            for number, batch in enumerate(iterator):
                for name, array in batch.items():
                    rows = np.concatenate([np.asarray(shard.data) for shard in array.addressable_shards])
                    np.save(folder / f"{definition.__name__}-{number}-{name}-{jax.process_index()}.npy", rows)
            if addresses:
                hosts = iterator._cursor.run._context.executor._pool.hosts
                print("ROWS", sum(host.rows for host in hosts), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
