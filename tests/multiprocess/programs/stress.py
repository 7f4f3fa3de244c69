"""Stress program: collectives in the pipeline and the training step, with random delays in host threads and consumer.

If the two were dispatched in another order on two processes, the job would hang or mix up their numbers.
"""

import random
import sys
import time

import penstock.launch


def main(steps):
    penstock.launch.initialize()
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import data_iterator, fn

    steps, count = int(steps), jax.device_count()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))
    rows = PartitionSpec("batch")
    dice = random.Random(jax.process_index())

    def late(x):
        if dice.random() < 0.2:
            time.sleep(dice.random() * 2e-3)
        return x

    @fn.jax_function(sharding=sharding)
    @jax.jit
    @jax.shard_map(mesh=sharding.mesh, in_specs=rows, out_specs=rows)
    def centred(x):
        swapped = jax.lax.pshuffle(x, "batch", [number ^ 1 for number in range(count)])
        return jnp.stack([swapped, x - jax.lax.pmean(x.mean(), "batch")], axis=1)

    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding, auto_reset=True)
    def numbers():
        x = fn.readers.arrays(np.arange(40 * count, dtype=np.float32), name="r", random_shuffle=True)
        return centred(fn.python_function(x, function=late))

    @jax.jit
    def train(total, x):
        mean = jax.shard_map(
            lambda x: jax.lax.pmean(x.mean(axis=0), "batch"),
            mesh=sharding.mesh,
            in_specs=rows,
            out_specs=PartitionSpec(),
        )(x)
        return total + mean

    total = jax.device_put(np.zeros(2, np.float32), NamedSharding(sharding.mesh, PartitionSpec()))
    iterator = numbers(batch_size=2 * count, num_threads=3, seed=1)
    done, begun = 0, time.perf_counter()
    while done < steps:
        for batch in iterator:
            total = train(total, batch["x"])
            done += 1
            if dice.random() < 0.01:
                time.sleep(dice.random() * 5e-3)
            if done == steps:
                break
    values = np.asarray(total)
    mean = (40 * count - 1) / 2  # of every epoch of 20 batches; the last one is whole, too
    assert steps % 20 == 0
    np.testing.assert_allclose(values[0], mean * steps, rtol=1e-3)
    assert abs(values[1]) < 1e-3 * steps
    print(f"{steps} steps in {time.perf_counter() - begun:.1f} s", values.tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
