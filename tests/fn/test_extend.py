"""A package of somebody else's: installed, found by its entry points, and checked with `penstock.testing`."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import extend

PACKAGE = Path(__file__).parent / "sample_package"
CHECKS = """
import doctest, importlib, inspect, sys
import numpy as np
from penstock import fn, testing
from penstock.graph.tracing.registry import available

assert {"brighten", "readers.squares"} <= available()
assert "brighten.brighten" not in sys.modules  # it is loaded on first use
brighten, squares = fn.brighten, fn.readers.squares
assert list(inspect.signature(brighten).parameters)[:3] == ["images", "factor", "name"]
assert inspect.signature(squares).parameters["random_shuffle"].default is False
images = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), np.uint8)
factors = np.float32([0, 0.5, 1, 3])
testing.check_operator(testing.OperatorCase(lambda x, factor: brighten(x, factor=factor), [images, factors]))
testing.check_docstring("brighten")
testing.check_docstring("readers.squares")
from brighten.squares import SquaresSource
testing.check_source(SquaresSource(7))
for module in ("brighten.brighten", "brighten.squares"):
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted and not result.failed, result
print("passed")
"""


def test_extend_exports_what_it_imports():
    assert list(extend.__all__) == sorted(extend.__all__)
    assert {name for name, value in vars(extend).items() if name[0] != "_"} == {*extend.__all__}
    for name in extend.__all__:
        assert inspect.getmodule(getattr(extend, name)) is not extend


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_the_sample_package_imports_public_modules_only(path):
    tree = ast.walk(ast.parse(path.read_text()))
    modules = {node.module for node in tree if isinstance(node, ast.ImportFrom) and node.module != "__future__"}
    assert {name for name in modules if name.startswith("penstock")} <= {"penstock.extend"}


@pytest.mark.slow
def test_an_installed_package_adds_operators(tmp_path):
    for name in ("pip", "hatchling"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(tmp_path / "site"), str(PACKAGE)], check=True, timeout=120)
    (tmp_path / "checks.py").write_text(CHECKS)
    paths = [str(tmp_path / "site"), str(Path(penstock.__file__).parents[1])]
    program = f"import sys; sys.path[:0] = {paths!r}; exec(open({str(tmp_path / 'checks.py')!r}).read())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "passed\n", done.stderr
