"""`penstock launch -n 2 script.py ...`: several processes of one job on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.launch import launch


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "launch",
        help="run a program as several processes of one job on this machine",
        description="Runs a program as several processes of one job. Each joins it by penstock.launch.initialize(), "
        "or by jax.distributed.initialize with arguments of its own. If one fails, all are ended.",
    )
    parser.add_argument("-n", "--processes", type=int, default=1, help="how many processes (1)")
    parser.add_argument(
        "-d", "--devices", type=int, default=1, help="CPU devices of each process (1); GPUs are divided"
    )
    parser.add_argument("--port", type=int, help="where process 0 listens for the others (a free port)")
    parser.add_argument("script", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the processes; the exit code is that of the first one that fails."""
    if not parsed.script.is_file():
        print(f"penstock launch: there is no file {str(parsed.script)!r}", file=sys.stderr)
        return 2
    command = [sys.executable, str(parsed.script), *parsed.arguments]
    try:
        return launch(command, parsed.processes, parsed.devices, port=parsed.port)
    except UsageError as error:
        error.where = None  # which is a line of Python's own
        print(f"penstock launch: {error}", file=sys.stderr)
        return 2
