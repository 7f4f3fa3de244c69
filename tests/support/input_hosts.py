"""Processes of `penstock serve` for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

PROGRAM = Path(__file__).with_name("served_program.py")


class Host:
    """A process of `penstock serve`."""

    def __init__(self, *arguments, program=f"{PROGRAM}", listen="127.0.0.1:0", **environment):
        command = [sys.executable, "-m", "penstock.cli", "serve", str(program), "--listen", listen, "--threads", "2"]
        self.process = subprocess.Popen(
            [*command, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu", **environment},
        )
        self.line = self.process.stdout.readline().strip()
        self.address = self.line.rpartition(" ")[2]

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def hosts(count, *arguments, **options):
    """Yield some hosts, which end with the block."""
    started = []
    try:
        for _ in range(count):
            started.append(Host(*arguments, **options))  # noqa: PERF401  # those that started must end
        yield started
    finally:
        for host in started:
            host.end()
