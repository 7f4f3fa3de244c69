"""Program with checkpoints in the background that fails or is killed while one is written; prints how each run ends.

Arguments: a folder, and the runs in it, such as ``arrays-1``: the way in which the second save fails, and the process
in which it does. A run of a name that exists resumes it, and does not fail.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from pathlib import Path
from unittest import mock

import penstock.launch


def failing(how, fifth_step):
    """Return a context in which the second save fails after steps that followed it."""
    import orbax.checkpoint as ocp

    from penstock.train.checkpoint_files import CheckpointFiles

    def fail():
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

    if how == "commit":
        return mock.patch.object(CheckpointFiles, "commit", commit)
    return mock.patch.object(ocp.StandardCheckpointHandler, "async_save", async_save)


def main(folder, *names):
    # Before the processes meet, so that none sees what another one has begun.
    existing = [name for name in names if (Path(folder) / name).exists()]
    penstock.launch.initialize()
    import jax
    import numpy as np

    from penstock import train
    from penstock.errors import CheckpointError

    class Steps(train.Callback):
        def __init__(self):
            self.step, self.fifth = 0, threading.Event()

        def on_step_end(self, loop):
            self.step = loop.step
            if loop.step == 5:
                self.fifth.set()

    def run(name, *, resumed):
        how, _, process = name.partition("-")
        fails = process and int(process) == jax.process_index() and not resumed
        steps, total, error, cause = Steps(), None, None, None
        step = train.data_parallel(lambda total, batch: total + batch["x"].sum())
        data = train.batches(np.arange(64, dtype=np.float32), 8, shuffle=True)
        options = {"save_interval_steps": 2, "max_to_keep": 1, "enable_async_checkpointing": True}
        callbacks = [steps, train.Checkpoint(Path(folder) / name, **options)]
        with failing(how, steps.fifth) if fails else contextlib.nullcontext():
            try:
                loop = train.fit(step, np.zeros(1000, np.float32), data, steps=7, callbacks=callbacks)
                total = np.asarray(train.unreplicate(loop.state)).tobytes().hex()
            except CheckpointError as raised:
                error, cause = str(raised), type(raised.__cause__).__name__
        report = {"process": jax.process_index(), "name": name, "step": steps.step, "total": total}
        left = sorted(path.name for path in (Path(folder) / name).iterdir())
        print("REPORT", json.dumps({**report, "error": error, "cause": cause, "left": left}))

    for number, name in enumerate(names):
        run(name, resumed=name in (*existing, *names[:number]))


if __name__ == "__main__":
    main(*sys.argv[1:])
