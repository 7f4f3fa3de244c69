"""The contract of an operator: one check for all of them."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array, Column
from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.operator import BatchKernel, HostBatchKernel, Reader
from penstock.graph.tracing.registry import lookup
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.pipeline import Pipeline
from penstock.plan.placement import PlacementHint, Side
from penstock.testing.source_checks import ListSource


@dataclass(frozen=True)
class OperatorCase:
    """A use of an operator.

    Args:
        build: the part of a definition that uses it: takes a node per input, returns a node or several.
        inputs: per input, an array with a row per sample, or a list of arrays that may differ in shape.
        layouts: per input, the layout of a sample; none names no axes.
        full_scale: the size of the outputs' values, to which rounding errors of floats are compared.
        ragged: whether it also takes inputs of unknown shape.
        mixes: whether a sample's output depends on the batch that the sample is in.
        rounds: whether integers come from rounding what is computed with floats, so that host and device may differ
            by one.
    """

    build: Callable[..., Any]
    inputs: Sequence[Any] = ()
    layouts: Sequence[str] = ()
    full_scale: float = 1.0
    ragged: bool = True
    mixes: bool = False
    rounds: bool = False


def check_operator(case: OperatorCase, rows: int = 4) -> None:
    """Check that an operator keeps its contract in one use of it.

    What comes out is what the spec rule promises. The same numbers come out sample by sample, in a batch of one, on
    one thread and on several, fused with its neighbours and not, for ragged and for dense inputs; on the device
    integers are the same, or within 1 where the case says that they are rounded, and floats are within 4 units in the
    last place of full scale.

    Args:
        case: the use.
        rows: how many samples to compute; the inputs have at least as many, where there are any.

    Raises:
        AssertionError: it does not.

    Example:
        >>> from penstock import fn
        >>> check_operator(OperatorCase(lambda x: fn.cast(x, dtype=np.int32), [np.ones((4, 2), np.float32)]))
    """
    reference = _run(case, rows, "host")
    _check_same(reference, _run(case, rows, "host"), "again")
    _check_same(reference, _run(case, rows, "host", exec_async=False), "without threads")
    if not case.mixes:
        _check_same(reference, _one_by_one(case, rows), "in batches of one")
    _check_same(reference, _run(case, rows, "host", unfused=True), "when nothing is fused")
    if not all(isinstance(column, np.ndarray) for column in case.inputs):
        return
    if case.inputs and case.ragged:
        _check_same(reference, _run(case, rows, "host", ragged=True), "for ragged inputs")
    _check_close(reference, _run(case, rows, "device"), case)


def host_outputs(case: OperatorCase, rows: int = 4) -> list[list[Array]]:
    """What a use of an operator gives on the host: per output the samples."""
    return _run(case, rows, "host", exec_async=False)


def check_docstring(name: str) -> None:
    """Check that an operator's public function is documented as all are.

    A first line in the imperative; sections Args, Returns and Example; every argument described, those of a typed
    dictionary in its own docstring or in that of a dictionary it extends; all but inputs are keyword-only.

    Args:
        name: the operator's, as `penstock.fn` spells it.

    Raises:
        AssertionError: something of this is missing.

    Example:
        >>> check_docstring("resize")
    """
    function = inspect.unwrap(lookup(name))
    text = inspect.getdoc(function) or ""
    for section in ("Args:", "Returns:", "Example:"):
        assert section in text, f"fn.{name}: the docstring has no section {section}"
    for parameter in inspect.signature(function).parameters.values():
        assert f" {parameter.name}: " in text.replace("*", ""), f"fn.{name}: {parameter.name} is not described"
        if parameter.kind is parameter.VAR_KEYWORD:
            options = typing.get_args(typing.get_type_hints(function)[parameter.name])[0]
            described = " ".join(inspect.getdoc(kind) or "" for kind in _dictionaries(options))
            missing = [key for key in options.__annotations__ if not re.search(rf"\b{key}\b ?[:,.(]", described)]
            assert not missing, f"fn.{name}: {options.__name__} does not describe {', '.join(missing)}"
        inputs = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
        if inputs and not name.startswith("readers."):
            kinds = str(parameter.annotation)
            assert "DataNode" in kinds or "Any" in kinds, f"fn.{name}: {parameter.name} is an option, so keyword-only"


def _dictionaries(options: type) -> list[type]:
    """A typed dictionary and those it extends: before Python 3.12, only the source tells these."""
    (statement,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(statement, ast.ClassDef)
    names = [base.id for base in statement.bases if isinstance(base, ast.Name)]
    bases = [vars(sys.modules[options.__module__])[name] for name in names if name != "TypedDict"]
    return [options, *(kind for base in bases for kind in _dictionaries(base))]


def _run(
    case: OperatorCase,
    rows: int,
    placement: PlacementHint,
    *,
    ragged: bool = False,
    batch_size: int | None = None,
    exec_async: bool = True,
    unfused: bool = False,
) -> list[list[Array]]:
    """Per output the samples; each is checked against its spec. What is an output, too, is not fused."""
    pipeline = Pipeline(batch_size or rows, 3, seed=1234, placement=placement, exec_async=exec_async)
    with pipeline:
        nodes = _inputs(case, ragged) if case.inputs else []
        made = case.build(*nodes)
        outputs = made if isinstance(made, tuple | list) else (made,)
        pipeline.set_outputs(*outputs)
        if unfused:
            others = (DataNode(value) for node in pipeline.graph.nodes for value in node.values)
            pipeline.set_outputs(*outputs, *others)
    columns: list[list[Array]] = [[] for _ in outputs]
    for _ in range(rows // (batch_size or rows)):
        for column, batch in zip(columns, pipeline.run(), strict=False):
            column += [np.asarray(sample) for sample in batch]
    for column, value in zip(columns, pipeline.graph.outputs, strict=False):
        for sample in column:
            assert value.spec.accepts(sample), (
                f"{value} gives {sample.dtype}{list(sample.shape)}, its spec is {value.spec}"
            )
    if placement == "device":
        _check_on_device(pipeline)
    pipeline.close()
    return columns


def _inputs(case: OperatorCase, ragged: bool) -> Sequence[DataNode]:
    columns: Sequence[Column] = case.inputs
    if ragged or not all(isinstance(column, np.ndarray) for column in columns):
        return apply_reader(ListSource([list(column) for column in columns], case.layouts), {})
    layouts = list(case.layouts) or [""] * len(columns)
    return lookup("readers.arrays")(tuple(columns), layout=layouts)


def _check_on_device(pipeline: Pipeline) -> None:
    """Check that what can run on the device was placed there, so that the comparison means something."""
    plan = pipeline._start().executable.plan  # noqa: SLF001  # no user needs the plan
    for node, placement in plan.placements.items():
        dense = all(value.spec.dense and value.spec.dtype.itemsize < 8 for value in (*node.values, *node.sources))
        movable = isinstance(node.operator, BatchKernel | FusibleOperator)
        if movable and not isinstance(node.operator, Reader | HostBatchKernel) and dense:
            feeds_host = placement.why.startswith(("feeds", "describes"))
            assert placement.place is Side.DEVICE or feeds_host, f"{node} stays on the host: {placement.why}"


def _one_by_one(case: OperatorCase, rows: int) -> list[list[Array]]:
    return _run(case, rows, "host", batch_size=1)


def _check_same(reference: list[list[Array]], other: list[list[Array]], how: str) -> None:
    for number, (left, right) in enumerate(zip(reference, other, strict=True)):
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
            assert same, f"output {number}, row {row}: {how} it gives\n{b}\ninstead of\n{a}"


def _check_close(reference: list[list[Array]], other: list[list[Array]], case: OperatorCase) -> None:
    for number, (left, right) in enumerate(zip(reference, other, strict=True)):
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            if a.dtype.kind in "fV":
                scale = max(
                    case.full_scale, float(np.max(np.abs(a.astype(np.float64)), initial=0.0, where=np.isfinite(a)))
                )
                limit = float(4 * np.finfo(np.float32 if a.dtype.itemsize > 2 else a.dtype).eps) * scale
            else:
                limit = 1.0 if case.rounds and a.dtype.kind != "b" else 0.0
            wide: Any = np.float64 if a.dtype.itemsize < 8 else a.dtype
            np.testing.assert_allclose(
                b.astype(wide), a.astype(wide), rtol=0, atol=limit, err_msg=f"output {number}, row {row}: on the device"
            )
