"""Text of ``penstock COMMAND --help``, for the page about the commands."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout, suppress
from pathlib import Path

from penstock.cli import main

COMMANDS = ("bench", "doctor", "launch", "pack", "plan", "serve", "view")


def help_text(*command: str) -> str:
    """Return the help of a command, in lines of 88 characters."""
    os.environ["COLUMNS"] = "90"  # argparse keeps two columns free
    text = io.StringIO()
    with redirect_stdout(text), suppress(SystemExit):
        main([*command, "--help"])
    return text.getvalue()


def write_help(folder: Path) -> None:
    """Write the help of each command as ``COMMAND.txt``, and that of the program as ``penstock.txt``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "penstock.txt").write_text(help_text())
    for command in COMMANDS:
        (folder / f"{command}.txt").write_text(help_text(command))
