"""Tests that the programs of docs/how-to/train/training.md have the documented lengths. `make docs` runs them."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "train" / "training.md").read_text()
PROGRAMS = dict(re.findall(r"<!-- program: (\w+) -->\n```{code-cell} python\n(.*?)```", PAGE, re.DOTALL))


def lines(program):
    """Count the lines of code without comments and blank lines."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in program.splitlines())


@pytest.mark.parametrize(("name", "row"), [("flax", "Flax CNN"), ("equinox", "Equinox MLP")])
def test_program_lengths_match_documentation(name, row):
    written = int(re.search(rf"^\| {row}.* \| (\d+) \|$", PAGE, re.MULTILINE)[1])
    assert lines(PROGRAMS[name]) == written <= 40
