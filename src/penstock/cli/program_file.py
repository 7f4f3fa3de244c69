"""Programs that a command runs: as `python program.py` does, with their own arguments and import path."""

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_program(program: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a program as "__main__", so that its main block makes its iterators. Returns its global names.

    Args:
        program: The file, which exists.
        arguments: Arguments of the program.
    """
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.resolve().parent))
    try:
        return runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
