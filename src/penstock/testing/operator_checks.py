"""Check of operators: the same results in all ways to run them."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core import Array, Column
from penstock.engine.host.chunk_executor import Chunk
from penstock.engine.host.host_program import HostProgram
from penstock.engine.host.process_task import pickle_program
from penstock.errors import DefinitionError, MissingExtraError
from penstock.graph import BatchKernel, DataNode, HostBatchKernel, Reader, lookup
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.pipeline import Pipeline
from penstock.plan.placement import PlacementHint, Side
from penstock.testing.source_checks import ListSource


@dataclass(frozen=True)
class OperatorCase:
    """Use of an operator to check.

    Args:
        build: A part of a definition: takes a node per input, returns one node or several.
        inputs: For each input, an array with a row per sample, or a list of arrays that may differ in shape.
        layouts: For each input, the layout of a sample; no layouts by default.
        full_scale: The magnitude of the outputs, to which rounding errors of floats are compared.
        ragged: True if the operator accepts inputs of unknown shape.
        mixes: True if the output for a sample depends on the other samples of its batch.
        rounds: True if integer outputs are rounded floats, so that host and device may differ by one.
    """

    build: Callable[..., Any]
    inputs: Sequence[Any] = ()
    layouts: Sequence[str] = ()
    full_scale: float = 1.0
    ragged: bool = True
    mixes: bool = False
    rounds: bool = False


def check_operator(case: OperatorCase, rows: int = 4) -> None:
    """Check the contract of an operator in one use.

    Outputs match their specs. They are the same in batches of any size, with and without threads, in a worker process,
    fused and not fused, for ragged and dense inputs. On the device, integers are the same, or within 1 if `case.rounds`
    is set, and floats are within 4 ULPs of full scale.

    Args:
        case: The use.
        rows: The number of samples to compute. The inputs have at least as many.

    Raises:
        AssertionError: the operator violates the contract.

    Example:
        >>> from penstock import fn
        >>> check_operator(OperatorCase(lambda x: fn.cast(x, dtype=np.int32), [np.ones((4, 2), np.float32)]))
    """
    reference = _run(case, rows, "host")
    _check_same(reference, _run(case, rows, "host", exec_async=False), "without threads")
    _check_pickled(case, rows)
    if not case.mixes:
        _check_same(reference, _run(case, rows, "host", batch_size=1), "in batches of one")
    _check_same(reference, _run(case, rows, "host", unfused=True), "when nothing is fused")
    # Ragged inputs cannot be on the device.
    if not all(isinstance(column, np.ndarray) for column in case.inputs):
        return
    if case.inputs and case.ragged:
        _check_same(reference, _run(case, rows, "host", ragged=True), "for ragged inputs")
    _check_close(reference, _run(case, rows, "device"), case)


def host_outputs(case: OperatorCase, rows: int = 4) -> list[list[Array]]:
    """Return the outputs of a use on the host: for each output, its samples."""
    return _run(case, rows, "host", exec_async=False)


def check_docstring(name: str) -> None:
    """Check the docstring and signature of an operator's public function.

    A first line in the imperative; sections Args, Returns and Example; every argument described, those of
    groups of arguments in the docstrings of the groups; all but inputs are keyword-only.

    Args:
        name: The name of the operator in `penstock.fn`.

    Raises:
        AssertionError: a part is missing.

    Example:
        >>> check_docstring("resize")
    """
    function = lookup(name)
    text = function.__doc__ or ""
    for section in ("Args:", "Returns:", "Example:"):
        assert section in text, f"fn.{name}: the docstring has no section {section}"
    for parameter in inspect.signature(function).parameters.values():
        assert f" {parameter.name}: " in text.replace("*", ""), f"fn.{name}: {parameter.name} is not described"
        inputs = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL)
        # Readers and external sources have no inputs; their data may be positional, as in DALI.
        if inputs and not name.startswith(("readers.", "external_source")):
            kinds = str(parameter.annotation)
            assert "DataNode" in kinds or "Any" in kinds, f"fn.{name}: {parameter.name} is an option, so keyword-only"


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
    """Return the samples of each output, checked against their specs."""
    pipeline, outputs = _defined(case, batch_size or rows, placement, ragged=ragged, exec_async=exec_async)
    # A value that is an output is not fused.
    if unfused:
        others = (DataNode(value) for node in pipeline.graph.nodes for value in node.values)
        with pipeline:
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


def _defined(
    case: OperatorCase, batch_size: int, placement: PlacementHint, *, ragged: bool = False, exec_async: bool = True
) -> tuple[Pipeline, Sequence[Any]]:
    """Return a pipeline of a use, and its outputs."""
    pipeline = Pipeline(batch_size, 3, seed=1234, placement=placement, exec_async=exec_async)
    with pipeline:
        nodes = _inputs(case, ragged) if case.inputs else []
        result = case.build(*nodes)
        outputs = result if isinstance(result, tuple | list) else (result,)
        pipeline.set_outputs(*outputs)
    return pipeline, outputs


def _check_pickled(case: OperatorCase, rows: int) -> None:
    """Check that the host part computes the same after it was pickled for a worker process."""
    pipeline, _ = _defined(case, rows, "host")
    with closing(pipeline):
        program = pipeline._start().cursor.run._loader._program  # noqa: SLF001  # the host part is not public
        try:
            loaded = pickle_program(program, 1, 0, ()).load()
        except (DefinitionError, MissingExtraError):  # worker processes are refused, or a function needs cloudpickle
            return
        columns = [one.run_rows(_first_chunk(one, rows)).columns for one in (program, loaded.program)]
    here, there = [[list(map(np.asarray, column)) for column in each] for each in columns]
    _check_same(here, there, "in a worker process")


def _first_chunk(program: HostProgram, rows: int) -> Chunk:
    specs = [value.spec for value in program.plan.results]
    slots = [np.zeros((rows, *spec.fixed_shape), spec.dtype) if spec.dense else None for spec in specs]
    return Chunk(program.context.schedule.first(), np.arange(rows), slots)


def _inputs(case: OperatorCase, ragged: bool) -> Sequence[DataNode]:
    columns: Sequence[Column] = case.inputs
    if ragged or not all(isinstance(column, np.ndarray) for column in columns):
        return apply_reader(ListSource([list(column) for column in columns], case.layouts), {})
    layouts = list(case.layouts) or [""] * len(columns)
    return lookup("readers.arrays")(tuple(columns), layout=layouts)


def _check_on_device(pipeline: Pipeline) -> None:
    """Check that all nodes that can run on the device were placed there."""
    plan = pipeline._start().executable.plan  # noqa: SLF001  # the plan is not public
    for node, placement in plan.placements.items():
        dense = all(value.spec.dense and value.spec.dtype.itemsize < 8 for value in (*node.values, *node.sources))
        # A node that feeds the host stays there, since values do not cross back.
        movable = isinstance(node.operator, BatchKernel | FusibleOperator)
        if movable and not isinstance(node.operator, Reader | HostBatchKernel) and dense:
            feeds_host = placement.why.startswith(("feeds", "describes"))
            assert placement.place is Side.DEVICE or feeds_host, f"{node} stays on the host: {placement.why}"


def _check_same(reference: list[list[Array]], other: list[list[Array]], how: str) -> None:
    for place, a, b in _pairs(reference, other):
        same = np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        assert same, f"{place}: {how} it gives\n{b}\ninstead of\n{a}"


def _check_close(reference: list[list[Array]], other: list[list[Array]], case: OperatorCase) -> None:
    for place, a, b in _pairs(reference, other):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        if a.dtype.kind in "fV":
            # XLA contracts products and sums into one instruction with one rounding, so results differ by a few ULPs.
            largest = np.max(np.abs(a.astype(np.float64)), initial=case.full_scale, where=np.isfinite(a))
            limit = float(4 * np.finfo(np.float32 if a.dtype.itemsize > 2 else a.dtype).eps * largest)
        else:
            limit = 1.0 if case.rounds and a.dtype.kind != "b" else 0.0
        # float64 cannot represent 64-bit integers, and differences of unsigned integers would wrap.
        wide: Any = np.float64 if a.dtype.itemsize < 8 else a.dtype
        np.testing.assert_allclose(
            b.astype(wide), a.astype(wide), rtol=0, atol=limit, err_msg=f"{place}: on the device"
        )


def _pairs(reference: list[list[Array]], other: list[list[Array]]) -> Iterator[tuple[str, Array, Array]]:
    """Yield the place, the expected and the actual sample of each row of each output."""
    for number, (left, right) in enumerate(zip(reference, other, strict=True)):
        for row, (a, b) in enumerate(zip(left, right, strict=True)):
            yield f"output {number}, row {row}", a, b
