"""Arguments are declared once: signatures, help, stubs and checks all come from that declaration."""

import importlib.util
import inspect
import json
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock.fn
from penstock import fn, types
from penstock.errors import ArgumentTypeError
from penstock.fn._operator_modules import OPERATOR_MODULES
from penstock.graph import lookup
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.tracing.registry import declare_modules

ROOT = Path(__file__).parents[2]


def generator():
    spec = importlib.util.spec_from_file_location("generate_stubs", ROOT / "tools" / "generate_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", OPERATOR_MODULES)
def test_every_operator_shows_its_parameters(name):
    function = lookup(name)
    signature = inspect.signature(function)
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert (
        {*CommonArguments.__annotations__}
        <= {*signature.parameters}
        <= function.argument_names
        | {parameter.name for parameter in signature.parameters.values() if parameter.kind is parameter.VAR_POSITIONAL}
    )
    for parameter in signature.parameters.values():
        assert f" {parameter.name}: " in function.__doc__.replace("*", ""), f"{parameter.name} is not described"
        assert "Annotated" not in str(parameter.annotation)


def test_help_shows_signature_and_arguments():
    text = pydoc.plain(pydoc.render_doc(fn.resize))
    assert re.search(r"resize\(\s*data: ", text)  # Python 3.13 writes one parameter per line
    assert "resize_shorter: float | " in text
    assert "resize_shorter: Length of the shorter side" in text
    assert "bytes_per_sample_hint: " in text
    assert "**" not in text


def test_defaults_that_differ_from_those_of_a_group():
    assert inspect.signature(fn.resize).parameters["antialias"].default is True
    assert inspect.signature(fn.fast_resize_crop_mirror).parameters["antialias"].default is False
    assert inspect.signature(fn.flip).parameters["preserve"].default is False
    assert inspect.signature(fn.python_function).parameters["preserve"].default is True
    assert inspect.signature(fn.resize).parameters["interp_type"].default is types.INTERP_LINEAR


def test_an_operator_is_the_same_as_a_class_attribute():
    class Model:
        flip = fn.flip

    assert Model.flip is Model().flip is fn.flip


def test_fn_lists_operators_and_nothing_else():
    for module in (fn, fn.readers, fn.random, fn.experimental, fn.transforms):
        assert module.__all__ == dir(module)
    assert "_operator_modules" not in dir(fn)
    submodules = {name.partition(".")[0] for name in OPERATOR_MODULES if "." in name} | {"experimental"}
    assert {*dir(fn)} == {name for name in OPERATOR_MODULES if "." not in name} | submodules
    assert dir(fn.noise) == ["gaussian", "salt_and_pepper", "shot"]


def test_generated_files_are_current():
    try:
        different = [path.name for path, text in generator().generate().items() if path.read_text() != text]
    finally:
        declare_modules(OPERATOR_MODULES)  # the generator does without the table
    assert not different, "run tools/generate_stubs.py"


def test_operators_load_on_first_use():
    loaded = "[name for name in sys.modules if name.startswith('penstock.operators.readers.')]"
    program = f"import sys\nfrom penstock import fn\nprint({loaded})"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout == "[]\n"


def test_unknown_arguments_are_reported_with_a_suggestion():
    with penstock.Pipeline(batch_size=1), pytest.raises(ArgumentTypeError, match="no argument 'sise'") as caught:
        fn.resize(fn.readers.arrays([[1]]), sise=3)
    assert "size" in str(caught.value)
    with (
        penstock.Pipeline(batch_size=1),
        pytest.raises(ArgumentTypeError, match=r"fn\.flip: preserve has the wrong type"),
    ):
        fn.flip(fn.readers.arrays([[[1]]]), preserve="yes")


PROGRAM = """
import numpy as np
from penstock import fn, types

jpegs, labels = fn.readers.file(file_root="images", random_shuffle=True, name="reader")
images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
images = fn.resize(images, size=[224, 224], interp_type=types.INTERP_CUBIC)
images = fn.resize(images, resize_shorter=fn.random.uniform(range=[256.0, 480.0]))
left, right = fn.flip([images, images], horizontal=fn.random.coin_flip(probability=0.5))
images = fn.crop_mirror_normalize(left, crop=(224, 224), mean=[0.0], std=np.ones(3), mirror=1, dtype=types.FLOAT)
images = fn.cast(np.zeros(3, np.uint8), dtype=types.FLOAT) + fn.gaussian_blur(images, sigma=1.5, seed=3)
"""
MISTAKES = """
fn.rezise(images, size=3)
fn.resize(images, sise=3)
fn.flip(images, horizontal="yes")
fn.readers.fil(file_root="images")
"""


@pytest.mark.slow
def test_pyright_checks_programs(tmp_path):
    pyright = Path(sys.executable).with_name("pyright")
    if not pyright.exists():
        pytest.skip("pyright is not installed (dependency group lint)")
    (tmp_path / "program.py").write_text(PROGRAM + MISTAKES)
    extra = [str(Path(penstock.fn.__file__).parents[2])]
    settings = {"typeCheckingMode": "strict", "extraPaths": extra, "include": ["program.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(pyright), "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    errors = {(item["range"]["start"]["line"], item["message"]) for item in report["generalDiagnostics"]}
    first = PROGRAM.count("\n") + 1
    assert sorted({line for line, _ in errors}) == [first, first + 1, first + 2, first + 3], errors
    assert any(line == first and "rezise" in message for line, message in errors)
    assert any(line == first + 1 and "sise" in message for line, message in errors)
