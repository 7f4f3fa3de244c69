"""The `penstock` command."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from penstock import __version__

_COMMANDS = ("bench", "doctor", "launch", "pack", "plan", "serve", "view")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns its exit code.

    Args:
        arguments: The command's arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(prog="penstock", description="Image pipelines that feed JAX.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    words = sys.argv[1:] if arguments is None else arguments
    first = next((word for word in words if not word.startswith("-")), None)
    # Most commands import JAX, which takes more than a second, and `penstock launch` does not need it.
    for name in (first,) if first in _COMMANDS else _COMMANDS:
        import_module(f"penstock.cli.{name}_command").add_to(commands)
    parsed = parser.parse_args(arguments)
    return parsed.run(parsed)
