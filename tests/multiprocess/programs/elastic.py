"""Program that trains and saves each batch and the iterator state; the last process can be killed at a step."""

import json
import os
import signal
import sys
from pathlib import Path

import penstock.launch


def stream(sharding):
    """Return an iterator over shuffled numbers plus random numbers."""
    import numpy as np

    from penstock import data_iterator, fn

    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding, auto_reset=True)
    def numbers(shard_id, num_shards):
        shard = {"shard_id": shard_id, "num_shards": num_shards}
        x = fn.readers.arrays(np.arange(30, dtype=np.float32), name="r", random_shuffle=True, **shard)
        return x + fn.random.uniform(range=[0, 1])

    return numbers(batch_size=12, seed=3)


def main(folder, steps, killed_at):
    penstock.launch.initialize()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    folder, total = Path(folder), jax.jit(lambda x: x.sum())
    me, last = jax.process_index(), jax.process_count() - 1
    saved = folder / "state.json"
    state = json.loads(saved.read_text()) if saved.exists() else {"step": 0}
    iterator = stream(NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch")))
    if "iterator" in state:
        iterator.set_state(state["iterator"])
    step = state["step"]
    while step < int(steps):
        for batch in iterator:
            for shard in batch["x"].addressable_shards:
                np.save(folder / f"{step:03d}-{shard.index[0].start or 0:03d}.npy", shard.data)
            float(total(batch["x"]))  # all have saved theirs
            step += 1
            if me == 0:
                (folder / "new").write_text(json.dumps({"step": step, "iterator": iterator.get_state()}))
                (folder / "new").replace(saved)
            if step == int(killed_at) and me == last:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == int(steps):
                break
    print("REACHED", step)


if __name__ == "__main__":
    main(*sys.argv[1:])
