"""Wheels: an ordinary one holds Python alone; a release holds machine code, says for what, and needs no numba."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags

import penstock
from penstock.native import machine_code

ROOT = Path(__file__).parents[1]
FILES = ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore")
CALL = """
import sys, numpy as np
from penstock.numerics.random_bits import random_bits, row_counters
assert random_bits(np, 1, 0, row_counters(0, np.arange(2)), 3).shape == (2, 3)
print("numba" in sys.modules, sys.modules["penstock"].__file__)
"""


@pytest.fixture
def tree(tmp_path):
    """A source tree in which little is compiled ahead."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "ahead"))
    for name in FILES:
        shutil.copy(ROOT / name, tree / name)
    ahead = tree / "src/penstock/native/precompile_modules.py"
    few = '\nMODULES = ("numerics.random_bits",)'
    text, count = re.subn(r"\nMODULES = \[.*?\n\]", few, ahead.read_text(), flags=re.DOTALL)
    assert count == 1
    ahead.write_text(text)
    return tree


def build(tree, target, release=False):
    """The path of what is built."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HATCH", "NUMBA"))}
    environment = inherited | ({"HATCH_BUILD_HOOKS_ENABLE": "true"} if release else {})
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tree.parent / target)]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = (tree.parent / target).iterdir()
    return path


def names(wheel):
    return set(zipfile.ZipFile(wheel).namelist())


SOURCES = (".py", ".pyi", ".typed", ".md", ".css", ".js")


def machine_code_in(wheel):
    return [name for name in names(wheel) if Path(name).suffix not in SOURCES and "dist-info" not in name]


def test_an_ordinary_wheel_is_for_every_platform_and_holds_no_machine_code(tree):
    wheel = build(tree, "wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert machine_code_in(wheel) == []
    assert "penstock/fn/readers.pyi" in names(wheel)


def test_an_ordinary_build_needs_no_compiler():
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'\[build-system\]\nrequires = \["hatchling[^"]*"\]\n', text)


def test_the_description_on_pypi_links_to_files_of_the_repository(tree):
    wheel = zipfile.ZipFile(build(tree, "wheel"))
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    targets = re.findall(r"\]\(([^)]*)\)", wheel.read(name).decode())
    assert all(re.match("https://", target) for target in targets)
    ours = [target.partition(f"/v{penstock.__version__}/")[2] for target in targets if "/penstock-data/" in target]
    assert "docs/index.md" in ours
    assert sum(target.endswith(".jpg") for target in ours) == 1
    shown = re.findall(r"\]\((?!https:)([^)]*)\)", (ROOT / "README.md").read_text())
    assert ours == shown


def test_a_source_distribution_builds_the_same_wheel(tree):
    with tarfile.open(build(tree, "sdist")) as packed:
        packed.extractall(tree.parent / "unpacked", filter="data")
    (unpacked,) = (tree.parent / "unpacked").iterdir()
    from_source = names(build(tree, "wheel"))
    (tree.parent / "again").mkdir()
    assert names(build(unpacked.rename(tree.parent / "again" / "tree"), "wheel")) == from_source


@pytest.mark.slow
def test_a_release_wheel_is_for_one_platform_and_compiles_nothing_at_first_use(tree, monkeypatch):
    for name in machine_code.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    machine_code.environment_ahead.cache_clear()
    if machine_code.environment_ahead() is None:
        pytest.skip("releases are not built on this processor")
    wheel = build(tree, "wheel", release=True)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = wheel.name.removesuffix(".whl").rpartition("-")[2]
    assert re.fullmatch(rf"penstock-[\d.]+-{python}-none-{platform}\.whl", wheel.name)
    assert platform in {tag.platform for tag in sys_tags()} - {"any"}  # pip installs it here
    assert not platform.startswith("linux")  # PyPI refuses it
    folder = f"penstock/native/ahead/{sys.implementation.cache_tag}/"
    assert machine_code_in(wheel)
    assert all(name.startswith(folder) and name.endswith(".code") for name in machine_code_in(wheel))
    assert not list(tree.rglob("*.code"))  # the next ordinary wheel would take them along

    installed, caches = tree.parent / "installed", tree.parent / "caches"
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {**os.environ, "PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(caches)}
    done = subprocess.run([sys.executable, "-c", CALL], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == f"False {installed / 'penstock/__init__.py'}\n", done.stdout + done.stderr
    assert not caches.exists()
