"""Program of two training processes, one of which ends in one of many ways."""

import importlib
import itertools
import os
import signal
import sys

import penstock.launch


def join(how):
    """Join the job; with an address, without `penstock.launch`."""
    address = os.environ.get("BARE")
    if address is None:
        penstock.launch.initialize()
        return
    import jax

    limits = {"heartbeat_timeout_seconds": int(os.environ.get("HEARTBEAT", "100"))}
    if how == "no step":
        importlib.import_module("penstock.iterate")  # as programs do that import all first
        importlib.import_module("penstock.engine.jobs.members")._JOINED_WAIT = 5.0
    jax.distributed.initialize(address, 2, int(os.environ["NUMBER"]), **limits)


def goes_on(how):
    """Perform the failure in one process; return True if it continues."""
    if how.startswith("exception"):
        raise ValueError("bad luck")
    if how == "exit":
        sys.exit(7)
    if how == "quit":
        exit(7)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    return how != "early"


def main(how):
    join(how)
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import data_iterator, fn

    me = jax.process_index()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))

    def checked(x):
        if how == "sample" and x == 21:
            raise ValueError("no good")
        return x

    @data_iterator(output_map=["x"], reader_name="r", sharding=sharding, auto_reset=True)
    def numbers():
        x = fn.readers.arrays(np.arange(40, dtype=np.float32), name="r")
        return fn.python_function(x, function=checked)

    @jax.jit
    def step(x):
        return x.sum()

    if me == 1 and how == "no iterator":
        print("PLAN over")
        return
    if how == ("before" if me else "before in 0"):
        raise ValueError("bad luck")
    iterator = numbers(batch_size=8, seed=1)
    for number in itertools.count() if how == "endless" else range(30):
        batch = next(iterator, None) or next(iterator)
        if number == 6 and me == 1 and how == "no step":
            raise SystemExit(7)
        total = step(batch["x"])
        if number == 6 and me == (0 if how == "exception in 0" else 1) and not goes_on(how):
            break
        float(total)
        if number == 3:
            print("PLAN goes on", flush=True)
            state = iterator.get_state()
        if how == "moved" and me == 1 and number == 6:
            iterator.set_state(state)
    print("PLAN over")


if __name__ == "__main__":
    main(sys.argv[1])
