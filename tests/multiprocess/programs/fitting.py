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
    test = train.Evaluate(lambda state, batch: batch["x"] * state, train.batches(np.ones(61, np.float32), 16), "val")
    callbacks = [
        test,
        train.EarlyStopping("val", "min", patience=2),
        train.LogMetrics(train.CSVLogger(folder + "/metrics.csv"), every=1),
        train.ProgressBar("images", interval=0),
        train.Checkpoint(folder + "/saves"),
        *([Raise()] if how == "raise" else []),
    ]
    step = train.data_parallel(lambda state, batch: (state, {"loss": state * batch["x"].mean()}))
    loop = train.fit(step, np.float32(1), batches, epochs=9, callbacks=callbacks)
    print(f"END {jax.process_index()} {loop.epoch} {loop.stopped}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
