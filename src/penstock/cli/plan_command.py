"""The command `penstock plan script.py`: print the plans of a program without training."""

import argparse
import sys
from typing import Any

from penstock.cli.program_run import existing_script, report_misplaced_options, run_program
from penstock.errors import PenstockError
from penstock.iterate.dry_run import dry_run


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "plan",
        help="print where each node of a program's iterators runs, and why",
        description="Runs a program up to its first batch, and prints the plan of each iterator that it has made.",
    )
    parser.add_argument("--placement", choices=("auto", "host", "device"), help="override the program's placement")
    parser.add_argument("script", type=existing_script, help="the program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the program up to its first batch, and print the plans."""
    report_misplaced_options("plan", parsed)
    plans: list[str] = []
    try:
        with dry_run(lambda iterator: plans.append(iterator.explain()), parsed.placement):
            run_program(parsed.script, parsed.arguments)
    except PenstockError as error:
        print(f"penstock plan: {error}", file=sys.stderr)
        return 1
    print("\n\n".join(plans) or f"{parsed.script} made no iterator before it ended")
    return 0 if plans else 1
