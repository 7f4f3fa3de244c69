"""Program that trains and evaluates with a checkpoint in the middle; each process prints its results."""

import sys

import penstock.launch


def main(folder, how, steps):
    penstock.launch.initialize()
    import json
    import os
    import signal

    import jax
    import jax.numpy as jnp
    import numpy as np

    from penstock import train

    rng = np.random.default_rng(0)
    data = {"p": rng.normal(size=(9973, 10)).astype(np.float32), "y": rng.integers(0, 10, 9973).astype(np.int32)}

    def metric(weights, batch):
        logits = batch["p"] @ weights
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["y"][:, None], axis=1)[:, 0]
        return {"accuracy": logits.argmax(axis=1) == batch["y"], "loss": -picked}

    def step(weights, batch):
        loss, gradient = jax.value_and_grad(lambda weights: metric(weights, batch)["loss"].mean())(weights)
        return weights - 0.5 * gradient, loss

    class Signal(train.Callback):
        def on_step_end(self, loop):
            if how == "signal" and loop.step == 20 and jax.process_index() == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    identity = np.eye(10, dtype=np.float32)
    first = train.evaluate(metric, identity, train.batches(data, 200))
    loop = train.fit(
        train.data_parallel(step),
        identity,
        train.batches(data, 200, shuffle=True),
        steps=int(steps),
        callbacks=[
            train.Evaluate(metric, train.batches(data, 200)),
            train.StopOnSignal(),
            Signal(),
            *([train.Checkpoint(folder, save_interval_steps=10)] if how != "whole" else []),
        ],
    )
    weights = np.asarray(train.unreplicate(loop.state))
    report = {
        "devices": [jax.local_device_count(), jax.device_count()],
        "first": first,
        "step": loop.step,
        "stopped": loop.stopped,
        "history": loop.history.state(),
        "weights": weights.tobytes().hex(),
    }
    print("REPORT", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
