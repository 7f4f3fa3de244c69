"""The `penstock` command."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from penstock.cli import launch, pack, plan


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    Args:
        arguments: what follows the command's name; None takes the process's.
    """
    parser = argparse.ArgumentParser(prog="penstock", description="Image pipelines that feed JAX.")
    commands = parser.add_subparsers(required=True, metavar="command")
    launch.add_to(commands)
    pack.add_to(commands)
    plan.add_to(commands)
    parsed = parser.parse_args(arguments)
    return parsed.run(parsed)
