"""Training of two processes with all callbacks; with "raise", a callback of process 1 raises an exception."""

import sys

import penstock.launch


def main(folder, how):
    penstock.launch.initialize()
    import jax
    import numpy as np

    from penstock import train

    class Raise(train.Callback):
        def on_step_end(self, loop):
            if loop.step == 3 and jax.process_index() == 1:
                raise ValueError("the callback is wrong")

    batches = train.batches(np.ones(64, np.float32), 16)
    test = train.Evaluate(
        lambda state, batch: batch["x"] * 0 + state["w"] % 8, train.batches(np.ones(61, np.float32), 16), "val"
    )
    callbacks = [
        test,
        train.EarlyStopping("val", "max", patience=2),
        train.LogMetrics(train.CSVLogger(folder + "/metrics.csv"), every=1),
        train.ProgressBar("images", interval=0),
        train.Checkpoint(folder + "/saves", max_to_keep=1, monitor="val", mode="max"),
        *([Raise()] if how == "raise" else []),
    ]
    step = train.data_parallel(lambda state, batch: ({"w": state["w"] + 1}, {"loss": state["w"] * batch["x"].mean()}))
    loop = train.fit(step, {"w": np.float32(0)}, batches, epochs=9, callbacks=callbacks)
    best = train.restore_weights(folder + "/saves", loop.state, step="best")["w"]
    print(f"END {jax.process_index()} {loop.epoch} {float(best)} {loop.stopped}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
