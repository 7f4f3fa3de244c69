"""Save that another thread completes, with the same outcome in all processes of the job."""

import itertools
import threading
import time
from collections.abc import Callable

from penstock.engine.jobs.jax_runtime import coordination_client, process_number
from penstock.engine.jobs.key_value_store import KeyValueStore
from penstock.engine.jobs.members import join_job
from penstock.errors import CheckpointError

# Saves begin in the same order in all processes, so the number identifies a save in the job.
_numbers = itertools.count()

# Seconds between two reads of the store: few at first, because a save of a small state takes milliseconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1


class BackgroundSave:
    """Save that another thread completes. All processes of the job succeed, or all fail with the same cause.

    Orbax's own barrier, JAX's, lets the others wait for a process that has failed until a timeout of 20 minutes.
    """

    def __init__(self) -> None:
        client, (process, self._processes) = coordination_client(), process_number()
        folder = f"penstock/checkpoints/{next(_numbers)}"
        self._store = None if client is None else KeyValueStore(client, folder, process)
        self._barriers = itertools.count()
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Call a function on another thread, which writes the part of this process."""
        self._thread = threading.Thread(target=self._run, args=(write,), name="penstock checkpoint")
        self._thread.start()

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
            self.barrier()
        except Exception as error:  # noqa: BLE001  # `wait` raises it on the thread of the training
            self._error = error
            if self._store is not None and not isinstance(error, _OtherProcessError):
                self._store.put(f"failed/{self._store.process}", str(error))

    def barrier(self) -> None:
        """Wait until all processes are here. Call it on the thread that writes, equally often in each process.

        Raises:
            CheckpointError: Another process could not write its part.
            JobError: Another process has failed for another reason.
        """
        members = join_job()
        if self._store is None or members is None:
            return
        reached, pause = f"reached/{next(self._barriers)}", _FIRST_PAUSE
        self._store.put(f"{reached}/{self._store.process}", "")
        while len(self._store.read(reached)) < self._processes:
            for name, message in self._store.read("failed").items():
                raise _OtherProcessError(f"in process {name.removeprefix('failed/')}: {message}")
            members.check()
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def wait(self) -> None:
        """Wait until the save is complete.

        Raises:
            CheckpointError: A process could not write its part. All processes raise it.
            JobError: A process has failed for another reason.
        """
        if self._thread is None:
            return
        self._thread.join()
        # Raised once: the training ends with it.
        error, self._error = self._error, None
        if error is not None:
            raise error

    def forget(self) -> None:
        """Remove the save from the store, once all processes have returned from `wait`."""
        if self._store is not None and self._store.process == 0:
            self._store.remove("")


class _OtherProcessError(CheckpointError):
    """Failure of another process, which that process has put into the store."""
