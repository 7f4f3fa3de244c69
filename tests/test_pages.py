"""The blocks of the README run as a reader would run them. `make docs` runs the pages of the documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.testing import write_photographs

ROOT = Path(__file__).parents[1]


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


def test_the_readme_names_the_commands_that_continuous_integration_runs():
    runs = re.findall(r"^make -j 2 --output-sync=line (.+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert runs == ["environments", "test test-all docs"]
    commands = [f"make {target}" for target in runs[1].split()]
    shown = [text for language, text in blocks(ROOT / "README.md") if language == "console"]
    for command in commands:
        assert any(line.startswith(f"$ {command} ") for text in shown for line in text.splitlines())
    targets = (ROOT / "Makefile").read_text()
    assert re.search(r"^test-all: test .*\btest-plain test-rest\b", targets, re.MULTILINE)
    assert re.search(r"^docs:(.*\n)*?\t.*\bsphinx -b html\b.* -W ", targets, re.MULTILINE)
