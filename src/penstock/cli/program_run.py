"""Runs of a user's program by commands that examine its iterators."""

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple


class ProgramName(NamedTuple):
    """A program and one of its definitions.

    Args:
        script: The program.
        definition: Name of a definition; "" for the one of the first iterator.
    """

    script: Path
    definition: str


def existing_script(text: str) -> Path:
    """Return the path of a program, for `argparse`.

    Raises:
        argparse.ArgumentTypeError: There is no such file, or it cannot be read.
    """
    try:
        if not Path(text).is_file():
            raise argparse.ArgumentTypeError(f"there is no file {text!r}")
        Path(text).open("rb").close()
    except OSError as error:  # `is_file` raises it, too, such as for a name that is too long
        raise argparse.ArgumentTypeError(f"{text!r} cannot be read: {error.strerror}") from None
    return Path(text)


def program_name(text: str) -> ProgramName:
    """Return a program and the definition that ``PROGRAM:NAME`` names, for `argparse`.

    Raises:
        argparse.ArgumentTypeError: There is no such file, or it cannot be read.
    """
    script, colon, definition = text.rpartition(":")
    if colon and definition.isidentifier():
        return ProgramName(existing_script(script), definition)
    return ProgramName(existing_script(text), "")


def report_misplaced_options(command: str, parsed: argparse.Namespace) -> None:
    """Tell the user that an option of the command stands behind the program, which receives it.

    It may be an option of the program of the same name, so this is not an error.
    """
    own = {f"--{name.replace('_', '-')}" for name in vars(parsed)}
    if misplaced := [word for word in parsed.arguments if word.partition("=")[0] in own]:
        words = ", ".join(misplaced)
        print(
            f"penstock {command}: {words} goes to the program; options of the command come before it", file=sys.stderr
        )


def run_program(script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a program as the main program, with its own arguments and import path, as `python program.py` does.

    Args:
        script: The program.
        arguments: Arguments of the program.

    Returns:
        Its global names; none if it ended with `sys.exit`.

    Raises:
        SystemExit: The program ended with an exit code of a failure.
    """
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    # As "__main__", so that the main block runs and makes its iterators.
    try:
        return runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise
        return {}
    finally:
        sys.argv, sys.path[:] = argv, path
