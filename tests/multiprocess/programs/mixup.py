"""Program of two shards that read different images and mix each row with the same row of the other shard.

Joins the job in which it is started; with arguments, by `jax.distributed.initialize`. Each process saves its rows,
which the test checks. A process that catches its own exit goes on, and ends with the exit code 0.
"""

import contextlib
import sys
from functools import partial
from pathlib import Path


def main(folder, coordinator=None, processes=None, process=None):
    import jax

    if coordinator is None:
        import penstock.launch

        penstock.launch.initialize()
    else:
        jax.distributed.initialize(coordinator, int(processes), int(process))

    import numpy as np
    from jax.experimental.shard_map import shard_map
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import penstock.fn as fn
    from penstock.plugin.jax import data_iterator
    from penstock.plugin.jax.fn import jax_function

    folder = Path(folder)
    lists = [sorted(str(path) for path in (folder / name).glob("*.jpg")) for name in ("first", "second")]
    count = jax.device_count()
    sharding = NamedSharding(Mesh(jax.devices(), axis_names=("batch")), PartitionSpec("batch"))
    rows = PartitionSpec("batch")

    @jax_function(sharding=sharding)
    @jax.jit
    @partial(shard_map, mesh=sharding.mesh, in_specs=rows, out_specs=rows)
    @jax.vmap
    def mixed(picture):
        other = jax.lax.pshuffle(picture, "batch", [number ^ 1 for number in range(count)])
        return jax.numpy.clip(0.5 * picture + 0.5 * other, 0, 255).astype(jax.numpy.uint8)

    @data_iterator(output_map=["pictures"], sharding=sharding)
    def pictures(shard_id, num_shards):
        encoded, _ = fn.readers.file(files=lists[shard_id % 2], name="files")
        return mixed(fn.resize(fn.decoders.image(encoded, device="mixed"), size=(32, 40)))

    iterator = pictures(batch_size=4 * count, num_threads=2)
    for number in range(3):
        batch = next(iterator)["pictures"]
        assert batch.shape == (4 * count, 32, 40, 3)
        for shard in batch.addressable_shards:
            np.save(folder / f"{number}-{shard.index[0].start or 0}.npy", shard.data)
        if jax.process_index() == 1:
            with contextlib.suppress(SystemExit):
                sys.exit(7)
    print(
        "process", jax.process_index(), "of", jax.process_count(), "with", jax.local_device_count(), "devices is done"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
