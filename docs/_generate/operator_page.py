"""Markdown of the operators' pages: one page per operator, and an index by family."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import operator_pictures
from operator_facts import COMMON, Facts, Parameter, entries

from penstock.graph import Input
from penstock.graph.arguments.argument_groups import CommonArguments, group_docs

DOCS = Path(__file__).resolve().parents[1]
REPOSITORY = "https://github.com/penstock-data/penstock"
DALI = DOCS / "how-to" / "migrate" / "dali.md"

# Title of each family, in the order of the index.
FAMILIES = {
    "readers": "Read data sets",
    "inputs": "Receive data from your program",
    "decoders": "Decode",
    "file_io": "Read and write files",
    "resizing": "Resize",
    "cropping": "Crop, flip, pad and erase",
    "color": "Change colors",
    "filters": "Filter",
    "noise": "Add noise",
    "warping": "Rotate and warp",
    "transforms": "Make affine matrices",
    "boxes": "Boxes and coordinates",
    "segmentation": "Masks",
    "follow": "Move boxes, points and masks with their images",
    "random": "Draw random numbers",
    "elementwise": "Constants and dtypes",
    "tensors": "Shapes, axes and order",
    "reductions": "Reduce",
    "audio": "Audio",
    "user_code": "Call your own functions",
}
DTYPES = {"integer": "integers", "floating": "floating point", "number": "integers and floating point"}


def operator_page(facts: Facts, uses: Sequence[tuple[str, str]], dali_row: tuple[str, str] | None) -> str:
    """Return the page of an operator.

    Args:
        facts: The operator.
        uses: Path from the page and title of each page whose programs call it.
        dali_row: Cells of its row in the table of the page for users of DALI: arguments of DALI's that are not offered,
            arguments that only Penstock has; None without the table.
    """
    return "\n".join(
        [
            f"# fn.{facts.name}",
            "",
            facts.summary,
            "",
            *_pictures(facts.name),
            *_text("", facts.sections[""].partition("\n\n")[2]),
            f":::{{py:function}} penstock.fn.{facts.name}{facts.signature}",
            ":::",
            "",
            *_inputs(facts),
            *_arguments(facts),
            *_text("Returns", facts.sections["Returns"]),
            *_raises(facts),
            *_example(facts),
            *_places(facts),
            *_dali(dali_row),
            *_uses(uses),
            *_source(facts),
        ]
    )


def _pictures(name: str) -> Iterator[str]:
    if name not in operator_pictures.VARIATIONS:
        return
    yield "::::{grid} 2 2 4 4"
    yield ":gutter: 1"
    yield from _picture("photograph.jpg", "input", "The input: a flower")
    for number, caption in enumerate(operator_pictures.captions(name), 1):
        yield from _picture(f"{name}-{number}.jpg", f"`{caption}`", f"The flower with {caption}")
    yield "::::"
    yield ""


def _picture(file: str, caption: str, alternative: str) -> Iterator[str]:
    yield ":::{grid-item}"
    yield f"![{alternative}](pictures/{file})"
    yield ""
    yield caption
    yield ":::"


def _text(title: str, text: str) -> Iterator[str]:
    if text:
        yield from ([f"## {title}", ""] if title else [])
        yield text
        yield ""


def _inputs(facts: Facts) -> Iterator[str]:
    # An operator checks what a mark cannot say itself, and its docstring describes it.
    marked = [(item, item.requirement) for item in facts.inputs if item.requirement is not None]
    if not marked:
        return
    yield "## Inputs"
    yield ""
    yield "| Input | Dtypes | Layout or shape |"
    yield "|---|---|---|"
    for item, requirement in marked:
        optional = "" if item.default is None else " (optional)"
        dtypes, shape = requirement_text(requirement)
        yield f"| `{item.name}`{optional} | {dtypes} | {shape} |"
    yield ""


def requirement_text(requirement: Input) -> tuple[str, str]:
    """Return what an input must be, in words: its dtypes, and its layout or shape."""
    dtypes = ", ".join(DTYPES.get(name, name) for name in requirement.dtypes) or "any"
    parts: list[str] = []
    if requirement.needs:
        parts.append(requirement.needs)
    if requirement.layouts:
        parts.append(f"layout {' or '.join(requirement.layouts)}")
    if requirement.axes:
        parts.append(f"a layout with {' and '.join(requirement.axes)}")
    if requirement.without:
        parts.append(f"no axis {' or '.join(requirement.without)}")
    if requirement.channels:
        parts.append(f"{' or '.join(map(str, requirement.channels))} channels")
    if requirement.shape is not None:
        extents = [str(extent or "n") for extent in requirement.shape]
        parts.append(f"shape ({', '.join(extents)}{',' if len(extents) == 1 else ''})")
    if isinstance(requirement.ranks, tuple):
        parts.append(f"{' or '.join(map(str, requirement.ranks))} axes".replace("1 axes", "1 axis"))
    elif requirement.ranks is not None:
        parts.append("at least one axis")
    return dtypes, "; ".join(parts) or "any"


def _arguments(facts: Facts) -> Iterator[str]:
    shown = [item for item in facts.parameters if item.has_effect]
    yield "## Arguments"
    yield ""
    if any(item.per_sample for item in shown):
        yield "An argument *per sample* takes a constant, or a value of the pipeline with one entry per sample."
        yield ""
    inputs = {item.name for item in facts.inputs}
    for item in shown:
        yield f"`{item.name}`: {'input' if item.name in inputs else _kind(item)}"
        yield f":   {item.text}"
        yield ""
    yield "All operators also take the [common arguments](index.md#arguments-that-every-operator-takes)."
    ignored = [f"`{item.name}`" for item in facts.parameters if not item.has_effect]
    if ignored:
        yield f"For programs written for DALI, these arguments are accepted and have no effect: {', '.join(ignored)}."
    yield ""


def _kind(item: Parameter) -> str:
    kind, default = item.kind, f"default `{item.default}`"
    if item.default in ("None", None):
        kind, default = kind.removesuffix(" | None"), "required" if item.default is None else "optional"
    if item.name.startswith("*"):
        default = "any number of them"
    parts = [f"`{kind}`", default]
    parts += [item.limits] if item.limits else []
    parts += ["*per sample*"] if item.per_sample else []
    return ", ".join(parts)


def _raises(facts: Facts) -> Iterator[str]:
    if "Raises" in facts.sections:
        yield "## Raises"
        yield ""
        for name, text in entries(facts.sections["Raises"]).items():
            yield f"`{name}`"
            yield f":   {text}"
            yield ""


def _example(facts: Facts) -> Iterator[str]:
    yield "## Example"
    yield ""
    yield "```pycon"
    yield facts.sections["Example"]
    yield "```"
    yield ""


def _places(facts: Facts) -> Iterator[str]:
    yield "## Where it runs"
    yield ""
    if len(facts.places) == 1:
        yield facts.places[0]
    else:
        yield "Its parts run in different places, depending on the arguments:"
        yield ""
        yield from (f"* {place}" for place in facts.places)
        yield ""
    yield "`explain()` of an iterator shows where each operator of your pipeline runs, and why."
    yield "[How a batch is made](../../explanation/how-a-batch-is-made.md) describes host and devices."
    yield ""


def _dali(row: tuple[str, str] | None) -> Iterator[str]:
    if row is None:
        return
    yield "## Differences from DALI"
    yield ""
    missing, added = row
    if "no such operator" in missing:
        yield "DALI has no such operator."
    elif not missing and not added:
        yield "It takes the same arguments as in DALI."
    if missing and "no such operator" not in missing:
        yield f"Arguments of DALI that Penstock does not have: {missing}."
    if added:
        yield f"Arguments that only Penstock has: {added}."
    yield "[Coming from DALI](../../how-to/migrate/dali.md) lists what differs everywhere."
    yield ""


def _uses(uses: Sequence[tuple[str, str]]) -> Iterator[str]:
    if uses:
        yield "## Pages that use it"
        yield ""
        yield from (f"* [{title}]({path})" for path, title in uses)
        yield ""


def _source(facts: Facts) -> Iterator[str]:
    yield "## Source"
    yield ""
    yield f"[{facts.source}]({REPOSITORY}/blob/main/{facts.source})"
    yield ""


def index_page(found: Sequence[Facts]) -> str:
    """Return the index: the operators by family."""
    lines = [
        "# Operators",
        "",
        ":::{py:module} penstock.fn",
        ":::",
        "",
        "Operators are the functions of `penstock.fn`. In a function decorated with `data_iterator` they describe the",
        "pipeline; called on arrays or on a `penstock.Batch`, they compute at once.",
        "Operators that draw random numbers or read data take their seed from the pipeline.",
        "",
    ]
    for family, title in FAMILIES.items():
        members = [facts for facts in found if facts.family == family]
        pictures = family in operator_pictures.FOLDERS
        lines += [f"## {title}", "", *_family(members, pictures=pictures), ""]
    lines += ["## Arguments that every operator takes", ""]
    for name, text in entries("\n".join(_unindented(group_docs(CommonArguments)))).items():
        lines += [f"`{name}`", f":   {text}", ""]
    lines += ["## Words of these pages", "", *WORDS, "", "```{toctree}", ":hidden:", ":glob:", "*", "```", ""]
    return "\n".join(lines)


WORDS = [
    "node, `DataNode`",
    ":   A value of a pipeline: what an operator returns in the definition. It stands for one value per sample.",
    "",
    "layout",
    ":   A letter per axis of a sample: H height, W width, C channels, D depth, F frames. An image is usually HWC.",
    "",
    "per sample",
    ":   The argument takes a constant, or a value of the pipeline with one entry per sample, such as a random number.",
    "",
    "host, devices",
    ":   The host is the machine's CPU, where threads prepare batches. The devices are those of JAX: GPUs, TPUs, or",
    "    the CPU. Work on the devices is part of one program that XLA compiles.",
]


def _unindented(entries_by_name: Mapping[str, list[str]]) -> Iterator[str]:
    assert set(entries_by_name) == set(COMMON)
    for lines in entries_by_name.values():
        yield from (line.removeprefix("    ") for line in lines)


def _family(members: Sequence[Facts], *, pictures: bool) -> Iterator[str]:
    yield "| | Operator | Summary |" if pictures else "| Operator | Summary |"
    yield "|---|---|---|" if pictures else "|---|---|"
    for facts in members:
        row = f"| [`fn.{facts.name}`]({facts.name}.md) | {facts.summary.replace('|', chr(92) + '|')} |"
        # In a table, the alternative text would repeat the name beside the picture.
        yield f"| ![](pictures/{facts.name}-2.jpg){{width=80px}} {row}" if pictures else row


def dali_rows() -> Mapping[str, tuple[str, str]]:
    """Return the cells of the table of operators on the page for users of DALI, by operator."""
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) ?\| (.*?) ?\|$", DALI.read_text(), flags=re.MULTILINE)
    return {name: (missing.strip(), added.strip()) for name, missing, added in rows}


def uses_of_operators(pages: Sequence[Path]) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return for each operator the pages whose programs call it: their path from its own page, and their title."""
    result: dict[str, list[tuple[str, str]]] = {}
    for page in pages:
        text = page.read_text()
        title = re.search(r"^# (.*)", text, flags=re.MULTILINE)
        for name in sorted(set(re.findall(r"\bfn\.([a-z_.0-9]+)\(", text))):
            path = f"../../{page.relative_to(DOCS).as_posix()}"
            result.setdefault(name, []).append((path, title[1] if title else page.stem))
    return result
