"""Program with bad samples: each process saves its rows and the counts of the job."""

import json
import sys
from pathlib import Path

import penstock.launch


def main(folder):
    folder = Path(folder)
    penstock.launch.initialize()
    import jax
    import numpy as np
    from jax.experimental.multihost_utils import sync_global_devices

    from penstock import LastBatchPolicy, data_iterator, fn, train
    from penstock.errors import SampleError

    bad = frozenset(range(0, 60, 7))
    sharding = jax.NamedSharding(jax.make_mesh((4,), ("batch",)), jax.P("batch"))

    def check(number):
        if int(number) in bad:
            raise ValueError(f"{number} is bad")
        return number

    def definition():
        x = fn.readers.arrays(np.arange(60, dtype=np.int32), name="r", random_shuffle=True)
        y = fn.readers.arrays(np.arange(60, dtype=np.int32) ** 2, name="s", random_shuffle=True)
        return fn.python_function(x, function=check, dtype=np.int32, ndim=0), y, fn.random.uniform()

    def iterator(on_error, **limits):
        names = ["x", "y", "u"] + (["valid"] if on_error == "skip" else [])
        policy = LastBatchPolicy.PAD if on_error == "skip" else LastBatchPolicy.FILL
        make = data_iterator(
            definition, names, reader_name="r", sharding=sharding, on_error=on_error, last_batch_policy=policy, **limits
        )
        return make(batch_size=8, seed=3)

    for on_error in ("skip", "replace"):
        quarantine = folder / f"{on_error}.jsonl"
        one = iterator(on_error, quarantine=quarantine)
        for epoch in range(2):
            for number, batch in enumerate(one):
                for name, array in batch.items():
                    rows = np.concatenate([np.asarray(shard.data) for shard in array.addressable_shards])
                    np.save(folder / f"{on_error}-{epoch}-{number}-{name}-{jax.process_index()}.npy", rows)
            sync_global_devices(f"epoch {epoch} has been taken")
            state = one.get_state()
            one = iterator(on_error, quarantine=quarantine)  # counts go on from the state
            one.set_state(state)
        print("COUNTS", on_error, json.dumps(one.stats()["bad samples"]))
    mean = train.evaluate(lambda _, batch: batch["x"], 0, iterator("skip"))
    print("MEAN", mean)
    limited = iterator("skip", max_bad_samples=4)
    try:
        for _ in limited:
            pass
    except SampleError as error:
        print("LIMIT", error.args[0].splitlines()[0])
        raise


if __name__ == "__main__":
    main(sys.argv[1])
