"""The command `penstock launch -n 2 script.py ...`: run a program as several processes of a job on this machine."""

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
        "or by jax.distributed.initialize with its own arguments. If one fails, all are ended.",
    )
    parser.add_argument("-n", "--processes", type=int, default=1, help="number of processes (1)")
    parser.add_argument(
        "-d", "--devices", type=int, default=1, help="CPU devices of each process (1); GPUs are divided"
    )
    parser.add_argument("--port", type=int, help="port at which process 0 listens for the others (a free one)")
    parser.add_argument("script", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the processes. Returns the exit code of the first one that fails."""
    if not parsed.script.is_file():
        print(f"penstock launch: the file does not exist: {str(parsed.script)!r}", file=sys.stderr)
        return 2
    # The same interpreter, so that the processes import the same packages.
    command = [sys.executable, str(parsed.script), *parsed.arguments]
    try:
        return launch(command, parsed.processes, parsed.devices, port=parsed.port)
    except UsageError as error:
        error.where = None  # not a line of the user's program
        print(f"penstock launch: {error}", file=sys.stderr)
        return 2
