"""Tables of the pages in docs/how-to/migrate: what another library writes, and what Penstock writes."""

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import penstock
from penstock import LastBatchPolicy, auto_aug, data_iterator, fn, pipeline_def, rocal, train, types
from penstock.pipeline.pipeline_options import PipelineOptions
from penstock.testing import write_photographs

PAGES = Path(__file__).parents[2] / "docs" / "how-to" / "migrate"
CODE = re.compile(r"`([^`]+)`")
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def training(*, batch_size, num_threads, seed, prefetch_queue_depth, py_num_workers, placement):
    """A function under `@data_iterator`, for the names of its arguments."""


@data_iterator(prepare_first_batch=False)
def _numbers():
    return {"x": fn.readers.arrays(np.arange(200))}


assert set(inspect.signature(training).parameters) <= set(PipelineOptions.__annotations__)

# The names that programs with Penstock import, and those that the pages introduce.
OURS = {
    "LastBatchPolicy": LastBatchPolicy,
    "data_iterator": data_iterator,
    "fn": fn,
    "iterator": _numbers(batch_size=1),
    "np": np,
    # The names of a module that loads them at their first use: `vars` lists only those that some test has used.
    "penstock": SimpleNamespace(
        **{"auto_aug": auto_aug, "rocal": rocal, **{name: getattr(penstock, name) for name in dir(penstock)}}
    ),
    "pipeline_def": pipeline_def,
    "train": train,
    "training": training,
    "types": types,
}


@dataclass
class Row:
    """A row of a table: code of the other library, code of Penstock, and the rest of the row."""

    theirs: list[str]
    ours: list[str]
    rest: list[str]

    def __str__(self):
        return " / ".join(self.theirs)


def tables(page):
    """Yield the tables of a page with a column "Penstock": the names of their columns, and their rows."""
    for table in re.findall(r"(?:^\|.*\n)+", (PAGES / page).read_text(), re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines())
        if "Penstock" in head and head[0] != "Penstock":
            yield head, [Row(CODE.findall(cells[0]), CODE.findall(cells[1]), cells[2:]) for cells in lines]


def correspondences(page):
    """Return the rows of the tables of names."""
    return [row for head, rows in tables(page) if head[2] != "Largest difference" for row in rows]


def differences(page):
    """Return the rows of the tables of numbers, each with its largest difference."""
    rows = [row for head, rows in tables(page) if head[2] == "Largest difference" for row in rows]
    return [(row.theirs[0], row.ours[0], float(row.rest[0])) for row in rows]


def programs(page):
    """Return the code blocks of a page: (True if the site runs it, its code)."""
    blocks = re.findall(r"^```(\{code-cell\} )?python\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL)
    return [(bool(runs), code) for runs, code in blocks]


def _dotted(node):
    """Return the dotted name of an expression, or None."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (owner := _dotted(node.value)):
        return [*owner, node.attr]
    return None


def unknown_names(code, namespace):
    """Return what a snippet names that does not exist: attributes, functions, and arguments of calls.

    Args:
        code: An expression, or a decorator.
        namespace: Values of the names that the snippet may begin with. Other names, such as `images`, are the user's.
    """
    wrong = []
    for node in ast.walk(ast.parse(code.removeprefix("@"))):
        if isinstance(node, ast.Attribute | ast.Name) and (name := _dotted(node)) and name[0] in namespace:
            value = namespace[name[0]]
            for attribute in name[1:]:
                if not hasattr(value, attribute):
                    wrong.append(".".join(name))
                    break
                value = getattr(value, attribute)
        if isinstance(node, ast.Call) and (name := _dotted(node.func)) and name[0] in namespace:
            value = namespace[name[0]]
            for attribute in name[1:]:
                value = getattr(value, attribute, None)
            wrong += [f"{'.'.join(name)}({problem})" for problem in _wrong_arguments(value, node)]
    return wrong


def _wrong_arguments(function, call):
    """Return the names of the arguments of a call that the function does not have."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function without a signature
        return []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return []
    names = {parameter.name for parameter in parameters}
    return [keyword.arg for keyword in call.keywords if keyword.arg and keyword.arg not in names]


def photographs(folder):
    """Return the pixels of six photographs."""
    paths = sorted(write_photographs(folder, samples_per_class=2).rglob("*.jpg"))
    return [np.asarray(fn.decoders.image(path)) for path in paths]


def ours_on(pixels, code):
    """Return the result of a snippet of Penstock's for an image (height, width, channels)."""
    batch = penstock.Batch(np.asarray(pixels)[None], layout="HWC")
    result = eval(code, {**OURS, "MEAN": MEAN, "STD": STD, "images": batch})
    if result.layout == "CHW":
        result = fn.transpose(result, perm=[1, 2, 0])
    return np.asarray(result.as_array()[0], np.float64)


def check_difference(theirs, ours, documented):
    """Check that a documented largest difference is the measured one, up to a factor of two."""
    assert theirs.shape == ours.shape
    measured = np.abs(theirs - ours).max()
    assert documented / 2 <= measured <= documented, f"measured {measured}"
