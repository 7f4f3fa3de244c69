"""`penstock plan script.py`: what runs where, and why, before a byte is read."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from penstock.iterate.dry_run import dry_run


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "plan",
        help="print what runs where and why in every iterator that a program makes",
        description="Runs a program up to its first batch, and prints the plan of each iterator made by then.",
    )
    parser.add_argument("--placement", choices=("auto", "host", "device"), help="plan as if the program asked for this")
    parser.add_argument("script", type=Path, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the program as far as its plans, and print them."""
    if not parsed.script.is_file():
        print(f"penstock plan: there is no file {str(parsed.script)!r}", file=sys.stderr)
        return 2
    plans: list[str] = []
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(parsed.script), *parsed.arguments]
    sys.path.insert(0, str(parsed.script.resolve().parent))
    try:
        with dry_run(plans.append, parsed.placement):
            runpy.run_path(str(parsed.script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
    print("\n\n".join(plans) or f"{parsed.script} made no iterator before it ended")
    return 0 if plans else 1
