"""What is compiled when the package is built is what the usual programs call."""

import importlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cases import CASES

import penstock
from penstock import Pipeline, fn, types
from penstock.image.describe import random_window
from penstock.image.execute import pass_executor, value_pass
from penstock.native import machine_code, precompile_modules
from penstock.native.argument_block import flatten_arguments
from penstock.native.compiled import Compiled
from penstock.testing.operator_checks import host_outputs

ROOT = Path(__file__).parents[2]


class Recording:
    """A compiled function that notes with what kinds of arguments it is used."""

    def __init__(self, function, seen, of=None):
        self.function, self.seen, self.of = function, seen, of or function

    def __call__(self, *arguments):
        self.seen.append((self.of, flatten_arguments(arguments)[0]))
        return self.function(*arguments)

    def pays_off(self, *_):
        return True

    def variant(self, **constants):
        assert constants in self.function.variants
        return Recording(self.function.variant(**constants), self.seen, self.function)

    def bind(self, *arguments):
        self.seen.append((self.of, flatten_arguments((*arguments, 0, 0))[0]))
        return self.function.bind(*arguments)


def test_the_usual_calls_are_compiled_ahead(monkeypatch):
    seen = []
    usual = {"blend": value_pass, "copy_windows": pass_executor, "look_up": value_pass, "draw_windows": random_window}
    functions = {getattr(module, name) for name, module in usual.items()}
    for name, module in usual.items():
        monkeypatch.setattr(module, name, Recording(getattr(module, name), seen))
    with Pipeline(2, seed=1) as pipeline:
        images = fn.readers.arrays(np.zeros((4, 6, 7, 3), np.uint8))
        large = fn.random_resized_crop(images, size=[5, 5])
        outputs = fn.crop_mirror_normalize(large, mean=[1.0, 2.0, 3.0], mirror=fn.random.coin_flip())
        as_they_are = fn.crop_mirror_normalize(images, crop=[3, 3], mirror=fn.random.coin_flip())
        pipeline.set_outputs(outputs, fn.flip(large), fn.crop(images, crop=[3, 3], dtype=types.UINT8), as_they_are)
    pipeline.run()
    assert {function for function, _ in seen} == functions
    for function, kinds in seen:
        assert kinds in function.ahead, function


def test_loops_of_operators_are_marked_with_the_kinds_that_they_are_called_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for case in (case for cases in CASES.values() for case in cases[:1]):
        host_outputs(case)
    used = []
    for name in precompile_modules.MODULES:
        for loop in vars(importlib.import_module(f"penstock.{name}")).values():
            if isinstance(loop, Compiled) and loop.ahead:
                called = {kinds for form in (loop, *loop._variants.values()) for kinds in form._native}
                assert not called or called & {*loop.ahead}, f"{loop.__name__} is called with {called}"
                used += [loop] * bool(called)
    assert len(used) > 20


def test_all_that_is_marked_is_compiled():
    folder = Path(penstock.__file__).parent
    marked = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")
              if re.search(r"^@precompile\(", path.read_text("utf-8"), re.MULTILINE)}  # fmt: skip
    assert marked == set(precompile_modules.MODULES)


def test_the_build_imports_only_what_its_environment_has():
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    declared = [re.match(r"[\w-]+", item)[0].replace("-", "_") for item in hook["custom"]["dependencies"]]
    # numba requires NumPy and llvmlite
    absent = importlib.metadata.packages_distributions().keys() - {"numpy", "llvmlite", "penstock", *declared}
    names = [f"penstock.{name}" for name in precompile_modules.MODULES]
    code = (
        f"import sys\nsys.modules.update(dict.fromkeys({absent}))\n"
        f"import penstock.native.precompile_modules, {', '.join(names)}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_marked_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "environment_ahead", lambda: "here")
    monkeypatch.setattr(Compiled, "precompiled", lambda function, where: {f"{function.__name__}-{where}": b"code"})
    monkeypatch.setattr(precompile_modules.os, "environ", {})
    precompile_modules.main(tmp_path)
    written = {path.stem for path in tmp_path.iterdir()}
    assert {"blend-here", "copy_windows-here", "draw_windows-here", "_draw-here", "_draw_more-here"} <= written


def test_a_release_is_not_built_for_a_processor_that_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "environment_ahead", lambda: None)
    with pytest.raises(SystemExit, match="release wheels are built on a processor with"):
        precompile_modules.main(tmp_path)
    assert not list(tmp_path.iterdir())
