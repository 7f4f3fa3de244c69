"""What a user's program knows of penstock's types: pyright in strict mode, and the signatures that editors show.

A program is a function's text. A comment at the end of a line is what pyright says there: "type: ..." for what
`reveal_type` tells, or "error: ..." with the first 70 characters of an error. All other lines have to be right.
"""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock import Pipeline, data_iterator, peekable_data_iterator, pipeline_def
from penstock.pipeline.pipeline_options import OPTION_NAMES

PIPELINES = """
from penstock import DataIterator, Pipeline, PeekableDataIterator, data_iterator, fn, peekable_data_iterator
from penstock import pipeline_def


@pipeline_def(batch_size=4, seed=1)
def training(root: str = "photos", shard_id: int = 0):
    return fn.random.coin_flip()


@pipeline_def
def plain(root: str):
    return fn.random.coin_flip()


@data_iterator(output_map=["x"], reader_name="r")
def batches(root: str = "photos"):
    return fn.random.coin_flip()


@peekable_data_iterator(output_map=["x"])
def peekable(root: str = "photos"):
    return fn.random.coin_flip()


reveal_type(training())  # type: Pipeline
reveal_type(training("photos", shard_id=1))  # type: Pipeline
reveal_type(training(batch_size=2, num_threads=3))  # type: Pipeline
reveal_type(training(root="more", seed=3))  # type: Pipeline
reveal_type(plain("photos"))  # type: Pipeline
reveal_type(Pipeline(4).run())  # type: tuple[TensorList, ...]
with Pipeline(batch_size=4) as pipeline:
    reveal_type(pipeline)  # type: Pipeline

training(batch_sise=2)  # error: No overloads for "__call__" match the provided arguments
training(batch_size="2")  # error: No overloads for "__call__" match the provided arguments
training(root=3)  # error: Argument of type "Literal[3]" cannot be assigned to parameter "root" o
plain(3)  # error: Argument of type "Literal[3]" cannot be assigned to parameter "root" of type "str"
pipeline_def(batch_sise=2)  # error: No overloads for "pipeline_def" match the provided arguments
Pipeline(batch_sise=2)  # error: No parameter named "batch_sise"

iterator = batches(batch_size=8)
reveal_type(iterator)  # type: DataIterator
reveal_type(batches(root="more", batch_size=8))  # type: DataIterator
reveal_type(batches(checkpoints=iterator.checkpoints(), batch_size=8))  # type: DataIterator
reveal_type(data_iterator(training, ["x"])(seed=3))  # type: DataIterator
reveal_type(data_iterator(training, ["x"])("more", 1))  # type: DataIterator
reveal_type(DataIterator(training(), ["x"]))  # type: DataIterator
reveal_type(peekable(batch_size=8))  # type: PeekableDataIterator
reveal_type(PeekableDataIterator([training()], ["x"], size=4))  # type: PeekableDataIterator

for batch in iterator:
    reveal_type(batch)  # type: dict[str, Array]
    reveal_type(batch["x"])  # type: Array
reveal_type(next(iterator))  # type: dict[str, Array]
reveal_type(iterator.element_spec)  # type: dict[str, ShapeDtypeStruct]
reveal_type(peekable(batch_size=8).peek())  # type: dict[str, Array]
reveal_type(peekable(batch_size=8).peek_async().result())  # type: dict[str, Array]

batches(batch_sise=8)  # error: No overloads for "__call__" match the provided arguments
data_iterator(output_map=["x"], reader="r")  # error: No overloads for "data_iterator" match the provided arguments
DataIterator(training(), ["x"], reader="r")  # error: No parameter named "reader"
"""


def expected(program):
    lines = enumerate(program.splitlines())
    comments = ((number, re.search(r"# (type|error): (.{,70})", line)) for number, line in lines)
    return {number: tuple(comment.groups()) for number, comment in comments if comment}


def checked(program, folder):
    """What pyright says of each line: the type, or the first line of the first error."""
    (folder / "program.py").write_text(program)
    source = str(Path(penstock.__file__).parents[1])
    settings = {"include": ["program.py"], "typeCheckingMode": "strict", "extraPaths": [source]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "-p", str(folder), "--pythonpath", sys.executable, "--outputjson"]
    quiet = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=quiet)
    said = {}
    for entry in json.loads(done.stdout)["generalDiagnostics"]:
        message = entry["message"].splitlines()[0]
        revealed = re.fullmatch(r'Type of ".*" is "(.*)"', message) if entry["severity"] == "information" else None
        kind, text = ("type", revealed[1]) if revealed else (entry["severity"], message[:70])
        said.setdefault(entry["range"]["start"]["line"], (kind, text))
    return said


@pytest.mark.slow
@pytest.mark.parametrize("program", [PIPELINES], ids=["pipelines"])
def test_what_a_type_checker_says_of_a_program(program, tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed (dependency group lint)")
    assert checked(program, tmp_path) == expected(program)


@pytest.mark.parametrize("function", [pipeline_def, data_iterator, peekable_data_iterator])
def test_signatures_show_all_parameters(function):
    parameters = inspect.signature(function).parameters.values()
    assert not [p for p in parameters if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]


def test_the_options_of_a_pipeline_are_its_parameters():
    parameters = inspect.signature(Pipeline).parameters
    assert parameters.keys() - {"hints"} <= OPTION_NAMES <= inspect.signature(pipeline_def).parameters.keys()
