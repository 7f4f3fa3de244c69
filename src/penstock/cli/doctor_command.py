"""The command `penstock doctor PATH...`: check the installation, and measure how fast paths are read."""

import argparse
import json
from typing import Any

from penstock.diagnose.check import as_json, as_table
from penstock.diagnose.environment_checks import environment_checks
from penstock.diagnose.read_rates import read_checks


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation, and measure how fast paths are read",
        description="Prints versions, devices, CPUs, extras, caches and limits. Exits with 1 if there is a problem.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="file, folder or URL of an object store to read from")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Print the checks. Returns 1 if one has a problem."""
    checks = [*environment_checks(), *(check for path in parsed.paths for check in read_checks(path))]
    print(json.dumps(as_json(checks), indent=2) if parsed.json else as_table(checks))
    return 0 if as_json(checks)["ok"] else 1
