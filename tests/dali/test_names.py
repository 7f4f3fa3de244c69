"""Every public name of DALI is here, or is refused with a sentence: the table in docs/how-to/migrate/dali.md."""

import ast
import importlib
import inspect
import os
import re
from pathlib import Path

import pytest

import penstock
from penstock import Pipeline, backend, fn
from penstock.errors import PenstockError

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "migrate" / "dali.md"
AUGMENTATIONS = (
    "augmentations", "auto_augment", "rand_augment", "trivial_augment", "core", "core.decorator", "core.policy",
)  # fmt: skip
MODULES = (
    "", "types", "pipeline", "math", "tensors", "backend", "tfrecord", "data_node", "plugin", "plugin.jax",
    *(f"auto_aug.{name}" for name in AUGMENTATIONS),
)  # fmt: skip


def theirs(module):
    """The public names of a module of DALI's that are DALI's own."""
    found = importlib.import_module(f"nvidia.dali.{module}".rstrip("."))
    for name, value in sorted(vars(found).items()):
        home = str(getattr(value, "__name__" if inspect.ismodule(value) else "__module__", None) or "nvidia")
        own = home.startswith("nvidia") or type(value).__module__.startswith("nvidia")
        if own and not name.startswith("_") and not (inspect.ismodule(value) and module not in ("", "plugin")):
            yield name


def functions(module, prefix=""):
    for name, value in sorted(vars(module).items()):
        if (
            inspect.ismodule(value)
            and value.__name__.startswith("nvidia.dali.fn.")
            and name not in ("hidden", "_conditional")
        ):
            yield from functions(value, f"{prefix}{name}.")
        elif inspect.isfunction(value) and not name.startswith("_") and value.__module__.startswith("nvidia"):
            yield prefix + name


def found(owner, name):
    """What penstock has under a dotted name; or the error that says what to do instead."""
    for part in name.split("."):
        try:
            owner = getattr(owner, part)
        except AttributeError as error:
            return error
    return owner


def public(kind):
    return [name for name in dir(kind) if not name.startswith("_")]


def walk():
    """Pairs of a name of DALI's and what penstock has there, or the error."""
    for module in MODULES:
        importlib.import_module(f"penstock.{module}".rstrip("."))
        for name in theirs(module):
            full = f"{module}.{name}".lstrip(".")
            yield full, found(penstock, full)
    for name in functions(dali.fn):
        yield f"fn.{name}", found(fn, name)
    with Pipeline(2, 1) as pipeline:
        node = fn.readers.arrays([1, 2])
        pipeline.set_outputs(node)
    batch = pipeline.run()[0]
    for kind, mine in (
        (dali.Pipeline, pipeline),
        (dali.data_node.DataNode, node),
        (dali.backend.TensorListCPU, batch),
        (dali.backend.TensorCPU, backend.TensorCPU([1, 2])),
    ):
        for name in public(kind):
            yield f"{kind.__name__}.{name}", found(mine, name)


def test_every_name_is_here_or_says_what_to_do():
    mute = [
        name for name, thing in walk() if isinstance(thing, AttributeError) and not isinstance(thing, PenstockError)
    ]
    assert mute == []


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("from penstock.plugin.pytorch import DALIGenericIterator", "torch.from_dlpack"),
        ("from penstock.plugin import pytorch", "torch.from_dlpack"),
        ("import penstock.plugin.pytorch.fn", "torch.from_dlpack"),
        ("import penstock.plugin_manager", "docs/how-to/extend/operators.md"),
        ("import penstock.plugin.jax.integration", "jax.numpy.asarray"),
        ("import penstock.experimental.torchvision", "docs/how-to/migrate/pytorch.md"),
        ("from penstock.experimental.torchvision.v2 import functional", "docs/how-to/migrate/pytorch.md"),
    ],
)
def test_importing_a_module_that_only_dali_has_says_what_to_do(statement, fix):
    with pytest.raises(ImportError, match=fix) as caught:
        exec(statement, {})
    assert isinstance(caught.value, PenstockError)


@pytest.mark.parametrize("place", ["plugin.numba", "plugin.numba.experimental"])
def test_the_class_of_numba_is_where_dali_has_it(place):
    here, there = (importlib.import_module(f"{package}.{place}") for package in ("penstock", "nvidia.dali"))
    assert here.NumbaFunction.__name__ == there.NumbaFunction.__name__


def test_the_inner_base_of_iterators_can_be_imported_and_says_what_to_do():
    from penstock.plugin.base_iterator import _DaliBaseIterator

    with pytest.raises(PenstockError, match="DALIGenericIterator"):
        type("Mine", (_DaliBaseIterator,), {})
    with pytest.raises(PenstockError, match="DALIGenericIterator"):
        _DaliBaseIterator([], ["data"])


def test_a_module_that_nothing_has_is_as_unknown_as_ever():
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("penstock.plugin.pytorhc")


@pytest.mark.parametrize("module", ["", "v2/functional/"])
def test_each_transform_of_the_torchvision_module_has_a_counterpart(module):
    # It cannot be imported without PyTorch.
    code = (Path(dali.__file__).parent / f"experimental/torchvision/{module}__init__.py").read_text()
    names = ast.literal_eval(re.search(r"__all__ = (\[.*?\])", code, re.DOTALL)[1])
    page = PAGE.with_name("pytorch.md").read_text()
    words = {word.lower() for word in re.findall(r"\w+", page)}
    assert [name for name in names if not {name.lower(), name.replace("_", "")} & words] == []


def lines():
    missing = [(name, thing) for name, thing in walk() if isinstance(thing, PenstockError)]
    yield "| name in DALI | instead |"
    yield "|---|---|"
    for name, error in missing:
        if "there is no operator" not in str(error):  # that one is not offered yet: the table of operators tells
            fix = re.search(r"fix:      (.*)", str(error))[1]
            yield f"| `{name}` | {fix} |"


def test_the_table_of_names_is_up_to_date():
    table, text = "\n".join(lines()), PAGE.read_text()
    pattern = r"(<!-- generated: names of DALI -->\n).*?(<!-- end -->)"
    written = re.sub(pattern, lambda match: f"{match[1]}\n{table}\n\n{match[2]}", text, flags=re.DOTALL)
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        PAGE.write_text(written)
    assert PAGE.read_text() == written, f"{PAGE} is not up to date: PENSTOCK_UPDATE_GOLDEN=1 writes it"
