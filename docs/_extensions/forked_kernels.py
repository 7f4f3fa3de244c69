"""Kernels of pages, forked from a process that has imported what most pages import.

Each page runs in a process of its own. To import IPython and JAX takes 1.5 s of CPU time, more than the cells of most
pages, so a fork server of `multiprocessing` imports them once. A fork of it is as good as a new process, because JAX
has started neither a thread nor a backend in it.
"""

from __future__ import annotations

import os
import signal
import tempfile
from importlib.metadata import EntryPoint
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from typing import Any

from ipykernel.kernelapp import IPKernelApp
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

NAME = "forked"
PRELOADED = [
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "jupyter_client.provisioning",
    "jax.numpy",
    "numba",
    "flax.nnx",
    "optax",
    "penstock.fn",
    "penstock.train",
]


class ForkedProvisioner(LocalProvisioner):
    """Starts kernels as forks instead of new interpreters, with sockets that are files.

    A free TCP port, which the kernel binds some time after it is chosen, may be taken by another page meanwhile.
    """

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Choose the sockets of a kernel."""
        manager: Any = self.parent
        self._sockets = tempfile.TemporaryDirectory(prefix="kernel-")
        manager.transport, manager.ip = "ipc", f"{self._sockets.name}/socket"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        """Start the kernel that a command of `ipykernel_launcher` would start."""
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        self.process: Any = Process(target=_run, args=(arguments, kwargs.get("cwd"), dict(kwargs["env"])))
        self.process.start()
        self.pid = self.process.pid
        return self.connection_info

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the sockets, which nobody else would: Sphinx ends its processes without finalizers."""
        self._sockets.cleanup()
        await super().cleanup(restart=restart)


class Process(ForkServerProcess):
    """A process with the methods of `subprocess.Popen` that provisioners call."""

    stdin = stdout = stderr = None

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self.exitcode

    def wait(self) -> int | None:
        """Wait for the end of the process."""
        self.join()
        return self.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process."""
        if self.pid is not None and self.is_alive():
            os.kill(self.pid, number)


def _run(arguments: list[str], directory: str | None, environment: dict[str, str]) -> None:
    """Run a kernel in the forked process."""
    os.environ.clear()
    os.environ.update(environment)
    if directory is not None:
        os.chdir(directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The kernel ends when its parent, the fork server, does.
    IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}"])


def setup(app: Any) -> dict[str, bool]:
    """Let forks run the pages."""
    del app
    get_context("forkserver").set_forkserver_preload(PRELOADED)
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:ForkedProvisioner", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
    return {"parallel_read_safe": True, "parallel_write_safe": True}
