"""The command `penstock bench PROGRAM[:NAME]`: measure a program's pipeline, and name what limits it."""

import argparse
import json
import sys
from contextlib import redirect_stdout
from typing import Any, cast

from penstock.cli.program_run import program_name, report_misplaced_options, run_program
from penstock.diagnose.benchmark import Benchmark, benchmark
from penstock.errors import PenstockError
from penstock.iterate.dry_run import dry_run
from penstock.iterate.iterator_effects import definition_name


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "bench",
        help="measure a program's pipeline, and name what limits it",
        description="Runs a program until an iterator is asked for its first batch, and measures its pipeline there.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=_seconds, default=30.0, help="duration of the measurements; 30 by default")
    parser.add_argument(
        "program",
        type=program_name,
        metavar="PROGRAM[:NAME]",
        help="the program, and the definition to measure if the program has several iterators",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Run the program up to the first batch, measure, and print. Returns 1 if no iterator was measured."""
    report_misplaced_options("bench", parsed)
    program, name = parsed.program
    results: list[Benchmark] = []
    names: list[str] = []

    def measure(iterator: Any) -> bool:
        # A program may ask for more batches while it ends, such as in a `finally` block.
        if results:
            return True
        if name and name != definition_name(iterator):
            return False
        results.append(benchmark(iterator, parsed.seconds))
        return True

    try:
        # The program may print, and a file of JSON must contain nothing else.
        with (
            redirect_stdout(sys.stderr),
            dry_run(lambda iterator: names.append(definition_name(iterator)), ends=measure),
        ):
            names_of_program = run_program(program, parsed.arguments)
            # A module without a main block may define the iterator and leave its call to others.
            make: Any = names_of_program.get(name)
            if name not in names and callable(make):
                next(cast(Any, make()))
    except PenstockError as error:
        print(f"penstock bench: {error}", file=sys.stderr)
        return 1
    if not results:
        known = f"its iterators are {', '.join(dict.fromkeys(names))}" if names else "it made no iterator"
        print(f"penstock bench: {program} asked for no batch to measure; {known}", file=sys.stderr)
        return 1
    result = results[0]
    print(json.dumps(result.as_json(), indent=2) if parsed.json else result.as_table())
    return 0


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 3600")
    return seconds
