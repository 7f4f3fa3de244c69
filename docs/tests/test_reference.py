"""The reference has an entry for everything that is public. `make docs` runs this after the build."""

import ast
import importlib
import inspect
import re
import tomllib
from pathlib import Path

import command_help
import operator_facts
import operator_page
import operator_pictures
import pytest
from sphinx.util.inventory import InventoryFile

from penstock import errors
from penstock.native.machine_code import SETTINGS

DOCS = Path(__file__).parents[1]
SOURCE = DOCS.parent / "src"
REFERENCE = DOCS / "reference"
SITE = DOCS / "_build" / "html"

OPERATORS = {facts.name: facts for facts in operator_facts.operators()}


def assigns_all(path):
    body = ast.parse(path.read_text()).body
    return any(isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" for node in body)


PUBLIC = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if assigns_all(path)
]


@pytest.fixture(scope="module")
def entries():
    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    return {name for kind, names in inventory.data.items() if kind.startswith("py:") for name in names}


def homes(module, name):
    """The names under which something may have its entry: another module may be the one that describes it."""
    yield f"{module}.{name}"
    value = getattr(importlib.import_module(module), name)
    if inspect.ismodule(value):
        yield value.__name__
    else:
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def test_the_public_modules_are_found():
    assert {"penstock", "penstock.train", "penstock.types", "penstock.launch"} <= set(PUBLIC)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_has_an_entry(module, entries):
    names = importlib.import_module(module).__all__
    assert [name for name in names if not entries & set(homes(module, name))] == []


def test_every_operator_has_an_entry_and_a_page(entries):
    assert len(OPERATORS) >= 150
    assert {f"penstock.fn.{name}" for name in OPERATORS} <= entries
    assert [name for name in OPERATORS if not (SITE / "reference" / "operators" / f"{name}.html").is_file()] == []


def test_every_family_of_operators_has_a_title():
    assert {facts.family for facts in OPERATORS.values()} == set(operator_page.FAMILIES)


def test_every_image_operator_has_pictures():
    expected = {name for name, facts in OPERATORS.items() if facts.family in operator_pictures.FOLDERS}
    assert set(operator_pictures.VARIATIONS) == expected
    for name in expected:
        text = (SITE / "reference" / "operators" / f"{name}.html").read_text()
        assert len(re.findall(r"<img[^>]*_images/", text)) == 4, name


def test_every_operator_says_where_it_runs():
    assert [name for name, facts in OPERATORS.items() if not facts.places] == []


def test_inline_code_leads_to_the_reference():
    text = (SITE / "reference" / "api" / "types.html").read_text()
    assert re.search(r'href="../operators/resize.html#penstock.fn.resize"[^>]*><code', text)


def constants():
    """The strings in the source."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def test_every_environment_variable_is_on_the_page():
    libraries = "CUDA|DALI|JAX|NCCL|NUMBA|OMPI|PENSTOCK|PYNVIMGCODEC|SLURM|XDG"
    used = {text for text in constants() if re.fullmatch(rf"(?:{libraries})_[A-Za-z_]+", text)} | set(SETTINGS)
    page = (REFERENCE / "configuration.md").read_text()
    named = set(re.findall(rf"`((?:{libraries})_[A-Za-z_]+)`", page))
    assert used - named == set(), "in the source, not in docs/reference/configuration.md"
    assert named - used == set(), "in docs/reference/configuration.md, not in the source"


def test_the_page_has_every_extra_with_its_packages():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    expected = {
        extra: [re.match(r"[\w.-]+", requirement)[0] for requirement in requirements]
        for extra, requirements in project["optional-dependencies"].items()
    }
    table = (REFERENCE / "configuration.md").read_text().partition("## Extras")[2]
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \|", table, flags=re.MULTILINE)
    assert {extra: packages.split(", ") for extra, packages in rows} == expected


def test_every_command_has_a_section():
    listed = command_help.help_text().partition("command\n")[2]
    assert tuple(re.findall(r"^ {4}([a-z]+) ", listed, flags=re.MULTILINE)) == command_help.COMMANDS
    page = (REFERENCE / "cli.md").read_text()
    for command in command_help.COMMANDS:
        section = page.partition(f"\n## penstock {command}\n")[2].partition("\n## ")[0]
        assert f"{{literalinclude}} commands/{command}.txt" in section, command


def test_every_error_has_a_row_and_an_entry():
    page = (REFERENCE / "errors.md").read_text()
    raised = {*errors.__all__} - {"PenstockError", "PenstockWarning"}
    assert set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)) == raised
    assert set(re.findall(r"autoexception:: (\w+)", page)) == {*errors.__all__}
