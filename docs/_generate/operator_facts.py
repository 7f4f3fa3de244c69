"""Facts about the operators, from their signatures, docstrings and the nodes that their examples make."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import tempfile
import typing
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from signature_text import default_text, type_text

import penstock.fn
from penstock.graph import (
    BatchKernel,
    DataNode,
    DeviceKernel,
    HostBatchKernel,
    Input,
    Node,
    Reader,
    StreamInput,
    WholeBatchKernel,
    lookup,
)
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.arguments.argument_marks import Range, marks_of
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.graph.tracing.registry import OperatorFunction, registered

ROOT = Path(__file__).resolve().parents[2]
SPELLED_BY_PYTHON = ("arithmetic.", "getitem", "math.")  # operators of expressions and of penstock.math
NO_EFFECT = re.compile(r"[^.]*\b(it has no effect|no effect there or here)\b")
COMMON = tuple(CommonArguments.__annotations__)


def operators() -> list[Facts]:
    """Return the facts about all operators of `penstock.fn`, in alphabetical order."""
    assert penstock.fn
    names = [name for name in registered() if not name.startswith(SPELLED_BY_PYTHON)]
    found = [Facts(name, lookup(name)) for name in names]
    return [facts for facts in found if facts.module.startswith("penstock.operators.")]


@dataclass(frozen=True)
class Parameter:
    """One argument of an operator.

    Args:
        name: Its name.
        kind: Its type, as a reader writes it.
        default: Its default as code, or None if it is required.
        text: The docstring's text about it.
        per_sample: True if it may be a value of the pipeline, with one entry per sample.
        limits: Its limits in words, or "".
        requirement: For an input, what it must be; otherwise None.
    """

    name: str
    kind: str
    default: str | None
    text: str
    per_sample: bool
    limits: str
    requirement: Input | None

    @property
    def has_effect(self) -> bool:
        """False for options that exist only so that programs for DALI run unchanged."""
        return not NO_EFFECT.match(self.text)


@dataclass(frozen=True)
class Facts:
    """Facts about one operator.

    Args:
        name: Its name in `penstock.fn`, such as "readers.file".
        function: Its public function.
    """

    name: str
    function: OperatorFunction[..., Any]

    @property
    def module(self) -> str:
        """Name of the module that defines it."""
        return self.function.__module__

    @property
    def family(self) -> str:
        """Folder of `penstock.operators` that holds it."""
        return self.module.split(".")[2]

    @property
    def source(self) -> str:
        """Path of the module in the repository."""
        spec = importlib.util.find_spec(self.module)
        assert spec
        assert spec.origin
        return Path(spec.origin).resolve().relative_to(ROOT).as_posix()

    @cached_property
    def sections(self) -> Mapping[str, str]:
        """Sections of the docstring by title; "" is the text before the first one."""
        parts = re.split(r"^(Args|Returns|Raises|Example):$", inspect.getdoc(self.function) or "", flags=re.MULTILINE)
        texts = [inspect.cleandoc("\n" + part) for part in parts[2::2]]
        return {"": parts[0].strip(), **dict(zip(parts[1::2], texts, strict=True))}

    @property
    def summary(self) -> str:
        """First paragraph of the docstring."""
        return " ".join(self.sections[""].partition("\n\n")[0].split())

    @cached_property
    def parameters(self) -> Sequence[Parameter]:
        """Arguments in the order of the signature, without those that all operators take."""
        hints, texts = type_hints(self.function.function), entries(self.sections["Args"])
        result: list[Parameter] = []
        for name, item in inspect.signature(self.function).parameters.items():
            # Operators that draw random numbers, and readers, describe the seed themselves.
            if name in COMMON and not (name == "seed" and "seed" in type_hints(self.function.function)):
                continue
            marks = marks_of(hints.get(name))
            argument = next((mark for mark in marks if isinstance(mark, Argument)), None)
            is_input = item.kind is not item.KEYWORD_ONLY
            kind = type_text(item.annotation, keep_nodes=is_input)
            kind = kind.replace("DALIInterpType", "types.INTERP_...").replace("DALIImageType", "image type")
            # Anything that NumPy takes as a dtype is one.
            kind = kind.replace("DALIDataType | Any", "dtype").replace("DALIDataType", "dtype")
            kind = re.sub(r"^Any\b", "dtype", kind) if name.endswith("dtype") else kind
            result.append(
                Parameter(
                    name=("*" if item.kind is item.VAR_POSITIONAL else "") + name,
                    kind=kind,
                    default=None if item.default is item.empty else default_text(item.default),
                    text=texts.get(name) or texts.get(f"*{name}", ""),
                    per_sample=not is_input and (takes_node(item.annotation) or bool(argument and argument.varies)),
                    limits="" if "INTERP" in type_text(item.annotation) else limits_text(hints.get(name)),
                    requirement=next((mark for mark in marks if isinstance(mark, Input)), None),
                )
            )
        return result

    @property
    def inputs(self) -> Sequence[Parameter]:
        """Arguments that are data: those that are passed by position."""
        signature = inspect.signature(self.function).parameters
        return [
            item
            for item in self.parameters
            if signature[item.name.lstrip("*")].kind is not inspect.Parameter.KEYWORD_ONLY
            and takes_node(signature[item.name.lstrip("*")].annotation)
        ]

    @property
    def signature(self) -> str:
        """Signature with defaults and without types; options without effect and common arguments are left out."""
        parts: list[str] = []
        keyword_only = False
        signature = inspect.signature(self.function).parameters
        for item in self.parameters:
            if not item.has_effect:
                continue
            if signature[item.name.lstrip("*")].kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
                keyword_only = True
                parts += [] if any(part.startswith("*") for part in parts) else ["*"]
            parts.append(item.name if item.default is None else f"{item.name}={item.default}")
        return f"({', '.join(parts)})"

    @cached_property
    def nodes(self) -> Sequence[Node]:
        """Nodes that the docstring's example makes with this operator."""
        return [node for node in run_example(self.sections["Example"]) if node.call and node.call.kind == self.name]

    @property
    def places(self) -> Sequence[str]:
        """Sentences about where it runs."""
        found: dict[str, None] = {}
        for node in self.nodes:
            found |= {place_of(node): None}
        if len(found) > 1 and NO_INPUT in found:  # constants beside the operator itself
            del found[NO_INPUT]
        return list(found)


HOST = "On the host, "
NO_INPUT = "On the host or on the devices: it is a constant."


def place_of(node: Node) -> str:
    """Return the sentence about where a node runs."""
    operator = node.operator
    if isinstance(operator, Reader):
        return HOST + "in background threads: it reads data."
    if isinstance(operator, StreamInput):
        return HOST + "in a background thread: it calls your code, or waits for the data that you feed."
    if isinstance(operator, DeviceKernel):
        return "On the devices, as part of the program that XLA compiles for the batch."
    if isinstance(operator, WholeBatchKernel):
        return HOST + "on one whole batch at a time: the result of a sample depends on its batch."
    if isinstance(operator, HostBatchKernel):
        return HOST + "in background threads: it needs NumPy."
    if isinstance(operator, FusibleOperator):
        if operator.starts_group:
            return HOST + "in background threads, fused with the image operators that follow."
        both = "On the host or on the devices, fused with neighboring image operators."
        if operator.traceable:
            return both
        return both + " On the devices, the host computes the arguments of each sample first."
    if type(operator).__name__ == "ConstantValue":
        return NO_INPUT
    if isinstance(operator, BatchKernel):
        return "On the host or on the devices; on the devices only if all samples have one shape."
    return HOST + "in background threads, one sample at a time."


def run_example(text: str) -> list[Node]:
    """Run the statements of an example in an empty folder, and return the nodes that they make."""
    nodes: list[Node] = []
    original = Node.__post_init__

    def record(node: Node) -> None:
        original(node)
        nodes.append(node)

    Node.__post_init__ = record
    names: dict[str, Any] = {"print": lambda *_, **__: None}
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for example in doctest.DocTestParser().get_examples(text):
                # pytest checks that an example raises what it says.
                with suppress(Exception) if example.exc_msg else nullcontext():
                    exec(compile(example.source, "<example>", "exec"), names)
    finally:
        Node.__post_init__ = original
    return nodes


def entries(text: str) -> Mapping[str, str]:
    """Return the entries of a section such as ``Args:``: name and text."""
    result: dict[str, str] = {}
    for entry in re.split(r"\n(?! )", text.strip()):
        name, _, rest = entry.partition(":")
        result[name.strip()] = " ".join(rest.split())
    return result


def takes_node(hint: Any) -> bool:
    """Return True if an annotation allows a value of the pipeline."""
    if isinstance(hint, type):
        return issubclass(hint, DataNode)
    return any(takes_node(item) for item in typing.get_args(hint))


def limits_text(hint: Any) -> str:
    """Return the limits that the marks of an annotation declare, in words; "" if there are none."""
    for mark in marks_of(hint):
        if isinstance(mark, Range | Argument):
            low, high = float(mark.low), float(mark.high)
            if np.isfinite([low, high]).all():
                return f"from {low:.10g} to {high:.10g}"
            if np.isfinite(low):
                return f"at least {low:.10g}"
            if np.isfinite(high):
                return f"at most {high:.10g}"
    inside = [limits_text(item) for item in typing.get_args(hint)]
    return next(filter(None, inside), "")
