"""Program that saves or restores a training with Orbax's `CheckpointManager`, and reports the steps after it."""

import sys

import penstock.launch


def main(folder, how):
    penstock.launch.initialize()
    import hashlib
    import json

    import jax
    import jax.numpy as jnp
    import numpy as np
    import orbax.checkpoint as ocp

    from penstock import train

    x = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    replicated = train.replicated_sharding()

    @train.data_parallel
    def step(state, batch):
        weights, velocity = state["model"], state["optimizer"]
        slope = jax.grad(lambda weights: ((batch["x"] @ weights - jnp.sin(batch["x"])) ** 2).mean())(weights)
        velocity = 0.9 * velocity + slope
        return {"model": weights - 0.1 * velocity, "optimizer": velocity}

    state = train.replicate({"model": np.eye(4, dtype=np.float32), "optimizer": np.zeros((4, 4), np.float32)})
    data = train.batches({"x": x}, 40, shuffle=True, seed=5)
    with ocp.CheckpointManager(folder) as manager:
        if how == "save":
            for batch in data.take(31):
                state = step(state, batch)
            trees = {name: ocp.args.StandardSave({"w": array}) for name, array in state.items()}
            manager.save(31, args=ocp.args.Composite(**trees, data=train.IteratorSave(data)))
        else:
            like = {"w": jax.ShapeDtypeStruct((4, 4), np.float32, sharding=replicated)}
            trees = dict.fromkeys(state, ocp.args.StandardRestore(like))
            restored = manager.restore(31, args=ocp.args.Composite(**trees, data=train.IteratorRestore(data)))
            state = {name: restored[name]["w"] for name in state}
        report = {name: np.asarray(train.unreplicate(array)).tobytes().hex() for name, array in state.items()}
        digest = hashlib.sha256()
        for batch in data.take(30):
            state = step(state, batch)
            digest.update(np.asarray(train.unreplicate(batch["x"])).tobytes())
    print("REPORT", json.dumps({**report, "position": data.get_state()["row"], "batches": digest.hexdigest()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
