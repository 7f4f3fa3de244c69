"""Program with checkpoints in the background that fails or is killed while one is written; prints how it ends."""

import sys

import penstock.launch


def main(folder, how, process):
    penstock.launch.initialize()
    import json
    import os
    import signal
    import threading

    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    from penstock import train
    from penstock.errors import CheckpointError
    from penstock.train.checkpoint_files import CheckpointFiles

    mine = jax.process_index() == int(process)
    fifth_step = threading.Event()

    def fail():
        # Only in the second save, and after steps that followed it.
        assert threading.current_thread() is not threading.main_thread()
        assert fifth_step.wait(60)
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("No space left on device")

    class Failing:
        def result(self, timeout=None):
            fail()

    async def async_save(handler, directory, *args, real=ocp.StandardCheckpointHandler.async_save, **options):
        futures = await real(handler, directory, *args, **options)
        return [*futures, Failing()] if "unfinished-4" in str(directory) else futures

    def commit(files, unfinished, step, about, real=CheckpointFiles.commit):
        fail() if step == 4 else real(files, unfinished, step, about)

    if mine and how in ("arrays", "kill"):
        ocp.StandardCheckpointHandler.async_save = async_save
    elif mine and how == "commit":
        CheckpointFiles.commit = commit

    class Steps(train.Callback):
        def on_step_end(self, loop):
            self.step = loop.step
            if loop.step == 5:
                fifth_step.set()

    steps, error, cause = Steps(), None, None
    step = train.data_parallel(lambda total, batch: total + batch["x"].sum())
    data = train.batches(np.arange(64, dtype=np.float32), 8, shuffle=True)
    checkpoint = train.Checkpoint(folder, save_interval_steps=2, max_to_keep=1, enable_async_checkpointing=True)
    try:
        loop = train.fit(step, np.zeros(1000, np.float32), data, steps=7, callbacks=[steps, checkpoint])
        total = np.asarray(train.unreplicate(loop.state)).tobytes().hex()
    except CheckpointError as raised:
        total, error, cause = None, str(raised), type(raised.__cause__).__name__
    report = {"process": jax.process_index(), "step": steps.step, "total": total, "error": error, "cause": cause}
    print("REPORT", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
