"""The programs on the pages for DALI and rocAL: DALI runs one with changed imports, and what replaces a name exists."""

import importlib.util
import re
import subprocess
import sys

import pytest
from migration_tables import OURS, PAGES, programs, unknown_names

import penstock
from penstock.dynamic import as_batch
from penstock.testing import write_photographs


def outputs(code, folder):
    program = [sys.executable, "-c", code]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_program_for_dali_runs_with_changed_imports(tmp_path):
    write_photographs(tmp_path / "photos")
    theirs, ours = (next(code for runs, code in programs("dali.md") if runs == site) for site in (False, True))
    printed = outputs(ours, tmp_path)
    assert len(printed) == 6
    # The only reader of the shorter program defines the epoch by its name in the longer one.
    assert outputs(theirs.replace("nvidia.dali", "penstock"), tmp_path) == printed


def test_a_program_for_the_dynamic_mode_runs_in_both(tmp_path):
    write_photographs(tmp_path / "photos")
    (theirs,) = [code for runs, code in programs("dali-dynamic-mode.md") if not runs]
    ours = next(code for runs, code in programs("dali-dynamic-mode.md") if runs)
    printed = outputs(ours, tmp_path)
    assert printed == ["(16, 64, 64, 3) (16, 1)"] * 3
    assert outputs(theirs.replace("nvidia.dali", "penstock"), tmp_path) == printed
    if importlib.util.find_spec("nvidia.dali"):
        assert outputs(theirs, tmp_path) == printed


@pytest.mark.parametrize("page", ["dali.md", "dali-dynamic-mode.md", "rocal.md"])
def test_imports_in_the_first_tables_work(page):
    statements = re.findall(r"`((?:from|import) penstock[^`]*)`", (PAGES / page).read_text())
    assert statements
    for statement in statements:
        exec(statement, {})


@pytest.mark.parametrize("page", ["dali-dynamic-mode.md", "rocal.md"])
def test_the_first_tables_name_what_exists(page):
    text = (PAGES / page).read_text().partition("\n## Differences")[0]
    assert as_batch
    names = {**OURS, "ndd": penstock.dynamic}
    for code in re.findall(r"`((?:@?data_iterator|fn\.|ndd\.|penstock\.|training)[^`]*)`", text):
        assert unknown_names(code, names) == [], code
