"""The command `penstock view PROGRAM`: show the effect of each operator on samples, in a browser."""

import argparse
import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penstock.cli.program_run import ProgramName, program_name, report_misplaced_options, run_program
from penstock.errors import PenstockError
from penstock.iterate.dry_run import FirstBatchError, dry_run
from penstock.iterate.iterator_effects import definition_name, iterator_effects
from penstock.pictures.operator_effects import DefinitionEffects
from penstock.pictures.view_page import view_page


def add_to(commands: Any) -> None:
    """Add the command to an `argparse` parser."""
    parser = commands.add_parser(
        "view",
        help="show the effect of each operator on samples, in a browser",
        description="Runs a program up to the first iterator, or up to that of the definition NAME. Writes an HTML "
        "page that shows what each operator of its definition takes, draws and returns for the first samples.",
    )
    parser.add_argument("--samples", type=_positive, default=4, metavar="N", help="number of samples (default: 4)")
    parser.add_argument(
        "--seed", type=int, metavar="SEED", help="seed of the random numbers; the samples stay the same"
    )
    parser.add_argument("--compare-seed", type=int, metavar="SEED", help="show another seed beside the first one")
    parser.add_argument(
        "--compare",
        type=program_name,
        metavar="PROGRAM[:NAME]",
        help="show another definition beside the first one, with the same seeds and arguments",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="the page to write; by default a temporary file")
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument(
        "program", type=program_name, metavar="PROGRAM[:NAME]", help="the program, and a definition of it"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Write the page and open it. Returns 1 if there is no iterator or the file cannot be written."""
    report_misplaced_options("view", parsed)
    if parsed.output is not None and (problem := _problem_of(parsed.output)) is not None:
        print(f"penstock view: {problem}", file=sys.stderr)
        return 2
    try:
        return _view(parsed)
    except PenstockError as error:
        print(f"penstock view: {error}", file=sys.stderr)
        return 1


def _problem_of(output: Path) -> str | None:
    """Return why a file cannot be written, as far as it is known before the program runs."""
    try:
        if not output.absolute().parent.is_dir():
            return f"there is no folder {str(output.absolute().parent)!r}"
        return f"{str(output)!r} is a folder; name a file" if output.is_dir() else None
    except OSError as error:  # such as a name that is too long
        return f"{str(output)!r} cannot be written: {error.strerror}"


def _view(parsed: argparse.Namespace) -> int:
    """Write the page and open it. Returns the exit code."""
    first = _effects(parsed.program, parsed.arguments, parsed.samples, parsed.seed, None)
    second = None
    if first is not None and (parsed.compare is not None or parsed.compare_seed is not None):
        seed = first.seed if parsed.compare_seed is None else parsed.compare_seed
        other = parsed.compare or parsed.program
        second = _effects(other, parsed.arguments, parsed.samples, seed, first.order_seed)
        if second is None:
            return 1
    if first is None:
        return 1
    # A file name need not be valid text; what cannot be encoded is written as an escape.
    page = view_page(first, second).encode("utf-8", "backslashreplace")
    path = parsed.output
    try:
        path = path or _temporary_path()
        path.write_bytes(page)
    except OSError as error:
        print(f"penstock view: {path or 'a temporary file'} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{path} ({len(page) / 1e6:.1f} MB)")
    if not parsed.no_browser and not webbrowser.open(path.resolve().as_uri()):
        print("there is no browser to open it in", file=sys.stderr)
    return 0


def _effects(
    program: ProgramName, arguments: Sequence[str], count: int, seed: int | None, order_seed: int | None
) -> DefinitionEffects | None:
    """Return the effects of a definition; None, with a message, if the program makes no iterator of that name."""
    names: list[str] = []
    effects: list[DefinitionEffects] = []

    def record(iterator: Any) -> None:
        names.append(definition_name(iterator))
        if program.definition in ("", names[-1]):
            # Now, while the data exist: programs remove temporary folders when they end.
            effects.append(iterator_effects(iterator, count, seed, order_seed))
            raise FirstBatchError

    with dry_run(record):
        run_program(program.script, arguments)
    if effects and not effects[0].samples:
        print(f"penstock view: the data of {effects[0].name} end before the first sample", file=sys.stderr)
        return None
    if effects:
        return effects[0]
    listed = ", ".join(dict.fromkeys(names))
    problem = f"made no iterator of {program.definition!r}" if names else "made no iterator"
    print(
        f"penstock view: {program.script} {problem} before its first batch"
        + (f"; it made those of {listed}" if names else ""),
        file=sys.stderr,
    )
    return None


def _temporary_path() -> Path:
    handle, name = tempfile.mkstemp(prefix="penstock-view-", suffix=".html")
    os.close(handle)
    return Path(name)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number
