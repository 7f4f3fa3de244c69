"""The examples of the README and of the documentation run on a machine with one device, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import write_photographs

ROOT = Path(__file__).parents[1]
NEEDS_MORE = {
    "data.md": "the extra parquet",
    "how-it-works.md": "the extra lmdb, and eight devices",
    "pictures.md": "the extra pictures",
    "training.md": "the extra train",
}
"""Pages with an example that a plain installation on one device cannot run; each page says so."""


def blocks(path):
    return re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


def test_the_program_of_the_readme_runs_on_a_folder_of_photographs(tmp_path):
    write_photographs(tmp_path / "photos", classes=("cat", "dog"), samples_per_class=40)
    (program,) = [text for language, text in blocks(ROOT / "README.md") if language == "python"]
    assert len([line for line in program.splitlines() if line.strip()]) <= 20
    environment = {k: v for k, v in os.environ.items() if k not in {"XLA_FLAGS", "JAX_NUM_CPU_DEVICES"}}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path,
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == 3 * ["(32, 224, 224, 3) bfloat16 (32,)"]


def test_every_other_block_of_the_readme_is_a_command():
    assert {language for language, _ in blocks(ROOT / "README.md")} == {"python", "console"}


@pytest.mark.parametrize(("page", "need"), NEEDS_MORE.items())
def test_a_page_that_needs_more_says_so(page, need):
    text = (ROOT / "docs" / page).read_text()
    for extra in re.findall(r"extra (\w+)", need):
        assert f"penstock[{extra}]" in text
    assert ("eight devices" in text) or "devices" not in need


def test_the_readme_names_the_command_that_continuous_integration_runs():
    command = (ROOT / ".ci" / "run").read_text().splitlines()[-1].removeprefix("exec ")
    shown = [text for language, text in blocks(ROOT / "README.md") if language == "console"]
    assert any(line.startswith(f"$ {command} ") for text in shown for line in text.splitlines())
    target = command.removeprefix("make ")
    assert re.search(rf"^{target}:.*\btest-plain\b", (ROOT / "Makefile").read_text(), re.MULTILINE)
