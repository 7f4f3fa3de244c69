"""The generated parts of the documentation are what the code says. PENSTOCK_UPDATE_GOLDEN=1 writes them anew."""

import ast
import inspect
import os
import re
import typing
from pathlib import Path

import pytest

import penstock
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.tracing import registry
from penstock.image.describe.steps import Step
from penstock.operators.readers.reader_arguments import ReaderArguments
from penstock.plan.stage_grouping import StageKind
from penstock.rocal.operator_table import OPERATORS
from penstock.rocal.pipeline import REFUSED

DOCS = Path(__file__).parents[1] / "docs"
SPELLED_BY_PYTHON = ("arithmetic.", "getitem", "math.", "test.")


def operators():
    """Penstock's own operators with the names of their arguments, inputs and common ones left out."""
    assert penstock.fn
    for name in registry.registered():
        if not name.startswith(SPELLED_BY_PYTHON):
            function = registry.lookup(name)
            parameters = inspect.signature(function).parameters.values()
            inputs = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)}
            yield name, function.argument_names - inputs - set(CommonArguments.__annotations__), inputs


def code(names):
    return ", ".join(f"`{name}`" for name in sorted(names))


def dali_table():
    backend = pytest.importorskip("nvidia.dali.backend", reason="DALI is not installed (dependency group dali)")
    known = set(backend.RegisteredCPUOps()) | set(backend.RegisteredGPUOps()) | set(backend.RegisteredMixedOps())
    yield "| operator | arguments of DALI's that are not offered | arguments that only penstock has |"
    yield "|---|---|---|"
    schemas = {schema.lower(): schema for schema in known}  # RMS, MFCC
    for name, mine, inputs in operators():
        letters = "__".join([*name.split(".")[:-1], name.split(".")[-1].replace("_", "")]).lower()
        schema = schemas.get(letters) or schemas.get(f"experimental__{letters}")
        if schema is None:
            yield f"| `{name}` | DALI has no such operator | |"
            continue
        theirs = set(backend.GetSchema(schema).GetArgumentNames()) - set(CommonArguments.__annotations__)
        loader = set(ReaderArguments.__annotations__) if name.startswith("readers.") else set()
        yield f"| `{name}` | {code(theirs - mine - inputs)} | {code(mine - theirs - loader)} |"


def rocal_table():
    yield "| rocAL's | penstock's | arguments with another name | arguments without effect |"
    yield "|---|---|---|---|"
    for name, row in OPERATORS.items():
        if not row.steps:
            continue
        renamed = {
            f"`{theirs}` is `{argument.core}`"
            for step in row.steps
            for theirs, argument in step.arguments.items()
            if argument.core not in ("", theirs)
        }
        hints = {theirs for step in row.steps for theirs, argument in step.arguments.items() if not argument.core}
        ours = ", ".join(f"`{step.core}`" for step in row.steps)
        yield f"| `{name}` | {ours} | {', '.join(sorted(renamed))} | {code(hints)} |"
    missing = [name for name, row in OPERATORS.items() if not row.steps]
    yield ""
    yield f"Refused, for want of a counterpart: {code(missing)}."


def rocal_methods():
    yield "| method | instead |"
    yield "|---|---|"
    for name, instead in sorted(REFUSED.items()):
        yield f"| `{name}` | {instead} |"


PARTS = {
    ("how-to/migrate/dali.md", "operators of DALI"): dali_table,
    ("how-to/migrate/rocal.md", "operators of rocAL"): rocal_table,
    ("how-to/migrate/rocal.md", "methods of rocAL"): rocal_methods,
}


@pytest.mark.parametrize(("page", "part"), PARTS)
def test_the_generated_parts_are_up_to_date(page, part):
    path, lines = DOCS / page, "\n".join(PARTS[page, part]())
    text = path.read_text()
    written = re.sub(rf"(<!-- generated: {part} -->\n).*?(<!-- end -->)", rf"\1\n{lines}\n\n\2", text, flags=re.DOTALL)
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        path.write_text(written)
    assert f"\n{lines}\n" in path.read_text(), f"docs/{page} is not up to date: PENSTOCK_UPDATE_GOLDEN=1 writes it"


def test_every_operator_is_on_the_page_for_dali():
    text = (DOCS / "how-to/migrate/dali.md").read_text()
    assert [name for name, _, _ in operators() if f"| `{name}` |" not in text] == []


def test_every_step_of_the_image_engine_is_on_the_page_about_operators():
    text = (DOCS / "how-to/extend/operators.md").read_text()
    assert [step.__name__ for step in typing.get_args(Step) if f"\n| `{step.__name__}(" not in text] == []


def test_every_way_of_a_stage_is_on_the_page_about_how_it_works():
    text = (DOCS / "explanation/how-a-batch-is-made.md").read_text()
    assert [way.value for way in StageKind if f"\n| {way.value} |" not in text] == []


def test_every_departure_from_rocal_is_pinned_by_a_test():
    text = (DOCS / "how-to/migrate/rocal.md").read_text()
    rows = [line for line in text.splitlines() if re.search(r"\| `test_\w+` \|$", line)]
    tests = (Path(__file__).parent / "rocal" / "test_programs.py").read_text()
    assert len(rows) >= 20
    for row in rows:
        name = re.search(r"`(test_\w+)` [|]$", row)[1]
        assert f"def {name}(" in tests, row
    section = text.partition("## Differences and reasons")[2].partition("\n## ")[0]
    assert len(rows) == sum(line.startswith("| ") for line in section.splitlines()) - 1


def source_of(path, name):
    """The text of a test, of what it names of its own module, and of the programs that it runs."""
    text = (DOCS.parent / path).read_text()
    parts = {}
    for node in ast.parse(text).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for each in (getattr(target, "name", getattr(target, "id", "")) for target in targets):
            start = min([node.lineno, *(line.lineno for line in getattr(node, "decorator_list", ()))])
            parts[each] = "\n".join(text.splitlines()[start - 1 : node.end_lineno])
    todo, used = [name], set()
    while todo:
        used |= {this := todo.pop()}
        todo += [each for each in set(re.findall(r"\w+", parts[this])) & set(parts) - used if each]
    found = "\n".join(parts[each] for each in used)
    programs = (DOCS.parent / path).parent.glob("programs/*.py")
    return found + "".join(each.read_text() for each in programs if f'"{each.name}"' in found)


def test_every_row_of_the_failures_has_its_test():
    rows = [
        line
        for line in (DOCS / "explanation/failures.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith("| Failure |")
    ]
    assert len(rows) >= 20
    wrong = []
    for row in rows:
        (path, name) = re.search(r"`(tests/\S+)::(\w+)` \|$", row).groups()
        seen = row.split(" | ")[1]
        source = source_of(path, name)
        claims = [*re.findall(r"\b[A-Z]\w+Error\b|SIG[A-Z]+", seen), *re.findall(r"exit code (\d+)", seen)]
        wrong += [(name, claim) for claim in claims if claim not in source]
    assert wrong == [], "each test checks the errors, signals and exit codes of its row"
