"""The `penstock` command."""

import argparse
from collections.abc import Sequence

from penstock import __version__
from penstock.cli import bench_command, doctor_command, launch_command, pack_command, plan_command, view_command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code.

    Args:
        arguments: The command's arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(prog="penstock", description="Image pipelines that feed JAX.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    bench_command.add_to(commands)
    doctor_command.add_to(commands)
    launch_command.add_to(commands)
    pack_command.add_to(commands)
    plan_command.add_to(commands)
    view_command.add_to(commands)
    parsed = parser.parse_args(arguments)
    return parsed.run(parsed)
