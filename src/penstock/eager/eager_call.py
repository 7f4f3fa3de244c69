"""Eager calls: an operator that computes as it is called, if it is called on data outside of a definition."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from penstock.core import Array, Column, Spec, user_call_site
from penstock.core.stage_timers import StageTimers
from penstock.eager.call_data import CallData, DataInput, DataKind, Slot, split_call
from penstock.eager.call_form import CallForm, call_form
from penstock.eager.constant_key import UnknownConstantError, constant_key
from penstock.eager.generator import Generator
from penstock.engine.graph_program import GivenColumn, GraphProgram
from penstock.engine.host.run_context import RunContext
from penstock.engine.sample_probe import resolve_shapes
from penstock.errors import ArgumentTypeError, PenstockError, short_repr
from penstock.graph import DataNode, Graph, Node, OperatorFunction, StreamInput, Trace, Value, WholeBatchKernel
from penstock.graph.ir.node import OperatorCall
from penstock.numerics.permutation import hash_words
from penstock.plan.engine_operators import engine_node
from penstock.plan.shape_demand import values_needing_one_shape
from penstock.plan.shard_merge import merge_shards
from penstock.sources.order.schedule import BatchStep, Schedule

# Programs to keep. A program holds compiled stages and a few scratch buffers, not data.
_MAX_PROGRAMS = 256

# In the cache: the program of these constants depends on the shapes of the data.
_BY_SHAPE = object()


@dataclass(frozen=True)
class EagerProgram:
    """A traced and planned call.

    Args:
        program: The program.
        inputs: Number of the call's data for each input of the program. An operator may ignore data.
        layouts: Layout of each output.
        structure: Type of the operator's result: `DataNode`, `list`, `tuple`, or None for no result.
        draws: True if the program draws random numbers.
    """

    program: GraphProgram
    inputs: Mapping[Node, int]
    layouts: tuple[str, ...]
    structure: type | None
    draws: bool


@dataclass(frozen=True)
class _Recording:
    """A call as a graph."""

    graph: Graph
    structure: type | None
    streams: Sequence[GivenColumn]

    @property
    def probed(self) -> bool:
        """True if the definition has read the first sample."""
        return any(stream.probed for stream in self.streams)

    @property
    def signature(self) -> list[Any]:
        """Operators and outputs, equal for two recordings that compute the same."""
        nodes = [(type(node.operator), node.operator.random_bits) for node in self.graph.nodes]
        return [*nodes, *[(v.spec.dtype, len(v.spec.shape), v.spec.layout) for v in self.graph.outputs]]


_programs: OrderedDict[Hashable, Any] = OrderedDict()
_lock = threading.Lock()


def call_on_data(operator: OperatorFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute a call at once. Returns NotImplemented if none of its inputs is data.

    Raises:
        PenstockError: The operator refuses the arguments, or cannot compute a sample.
    """
    return call_on_rows(operator, args, kwargs) if call_form(operator).takes_data else NotImplemented


def call_on_rows(
    operator: OperatorFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], rows: int | None = None
) -> Any:
    """Compute a call for a number of samples, also without data: random numbers, constants, matrices.

    Args:
        operator: The operator.
        args: Inputs; with `rows`, batches of that size.
        kwargs: Arguments; a `Batch` has one value per sample.
        rows: Number of samples, whose results are a `Batch`. None takes it from the data, and the kind of the results
            from that of the data; the result is NotImplemented if there are none.

    Raises:
        PenstockError: The operator refuses the arguments, or cannot compute a sample.
    """
    form = call_form(operator)
    try:
        own, layout, seed, rng = kwargs, None, None, None
        if "layout" in kwargs or "seed" in kwargs or "rng" in kwargs:
            own = dict(kwargs)
            layout = None if form.own_layout else own.pop("layout", None)
            seed, rng = own.pop("seed", None), own.pop("rng", None)
        call = split_call(operator.label, form, args, own, rows)
        if call is None:
            return NotImplemented
        if layout:
            _set_layout(call, layout)
        random = _random_source(seed, rng)
        program = _find(operator, form, call, random)
    except PenstockError as error:
        error.subject = operator.label
        error.where = error.where or user_call_site()
        raise
    try:
        return _run(program, call, random)
    except PenstockError as error:
        # The nodes of a cached program know the line of the first call only.
        error.where = user_call_site()
        raise


def _set_layout(call: CallData, layout: Any) -> None:
    """Give the layout of an eager call to the inputs that have as many axes and no layout.

    Raises:
        ArgumentTypeError: No input has as many axes.
    """
    fits = [
        isinstance(layout, str) and len(layout) in (0, item.column[0].ndim) and len(set(layout)) == len(layout)
        for item in call.inputs
    ]
    if not fits[0]:
        sample = call.inputs[0].column[0]
        raise ArgumentTypeError(
            "layout needs a different letter for each axis of a sample",
            given=f"{short_repr(layout)} for {sample.dtype}{list(sample.shape)}",
        )
    call.inputs = [
        replace(item, layout=layout) if fit and not item.layout else item
        for item, fit in zip(call.inputs, fits, strict=True)
    ]


def _random_source(seed: Any, rng: Any) -> int | Generator | None:
    """Return the source of random numbers: a seed, a generator, or None.

    Raises:
        ArgumentTypeError: Both are set, or one is of another type.
    """
    if rng is None:
        if seed is None or (isinstance(seed, int | np.integer) and seed < 0):  # "not given", as in DALI
            return None
        if isinstance(seed, int | np.integer):
            return int(cast(int, seed))
        raise ArgumentTypeError("seed has the wrong type", given=short_repr(seed), expected="a whole number")
    if seed is not None:
        raise ArgumentTypeError("both seed and rng are set", fix="one of them")
    if not isinstance(rng, Generator):
        raise ArgumentTypeError(
            "rng has the wrong type",
            given=f"{short_repr(rng)} of type {type(rng).__name__}",
            expected="penstock.Generator",
        )
    return rng


def _find(
    operator: OperatorFunction[..., Any], form: CallForm, call: CallData, random: int | Generator | None
) -> EagerProgram:
    """Return the program of a call, from the cache if it was called before on such data."""
    kinds = tuple([(item.kind, item.dense and item.column[0].shape) for item in call.inputs])
    source = None if random is None else type(random)
    try:
        constants = tuple([_key(value) for value in call.args]), tuple([(k, _key(v)) for k, v in call.kwargs.items()])
    except UnknownConstantError:
        return _build(operator, form, call, random)[0]
    # Without data, only the call tells how many samples there are.
    rows = None if call.inputs else call.rows
    key: Hashable = (operator, constants, kinds, source, call.kind is DataKind.SAMPLE, rows)

    def shaped() -> Hashable:
        # Some operators also use the number of samples.
        return key, call.rows, tuple([item.exact_spec for item in call.inputs])

    known = _recall(key)
    if known is _BY_SHAPE:
        known = _recall(shaped())
    if known is None:
        known, by_shape, cached = _build(operator, form, call, random)
        if cached and by_shape:
            _remember(key, _BY_SHAPE)
        if cached:
            _remember(shaped() if by_shape else key, known)
    return cast(EagerProgram, known)


def _key(value: Any) -> Hashable:
    return value if type(value) is Slot else constant_key(value)


def _recall(key: Hashable) -> Any:
    with _lock:
        known = _programs.get(key)
        if known is not None:
            _programs.move_to_end(key)
        return known


def _remember(key: Hashable, program: Any) -> None:
    with _lock:
        _programs[key] = program
        while len(_programs) > _MAX_PROGRAMS:
            _programs.popitem(last=False)


def _build(
    operator: OperatorFunction[..., Any], form: CallForm, call: CallData, random: int | Generator | None
) -> tuple[EagerProgram, bool, bool]:
    """Trace and plan a call.

    Returns:
        The program; True if it serves only data of these shapes; True if it serves other data at all.
    """
    seeded = form.own_seed and isinstance(random, int)
    exact = _record(operator, call, [item.exact_spec for item in call.inputs], seeded=seeded)
    draws = any(node.operator.random_bits for node in exact.graph.nodes)
    if draws and random is None:
        raise ArgumentTypeError(
            "it draws random numbers, and a call on data has no pipeline whose seed it could use",
            fix="seed=7, or rng=penstock.Generator(7), which draws new numbers in each call",
        )
    chosen = _any_shape(operator, call, exact, seeded=seeded) or exact
    graph = chosen.graph
    reads_data = exact.probed
    if values_needing_one_shape(graph, dense_outputs=False):
        graph = resolve_shapes(merge_shards([graph], [0], 1), dense_outputs=False).graph
    if seeded:
        graph = graph.rewrite(_drawing_first)
    layouts = tuple([value.spec.layout for value in graph.outputs])
    context = RunContext({}, None, 0, Schedule(call.rows, None, call.rows, ()), StageTimers())
    program = GraphProgram(graph, context)
    # Inputs are the first nodes of a recording.
    eager = EagerProgram(program, {node: node.id for node in program.inputs}, layouts, chosen.structure, draws)
    for stream in chosen.streams:  # the program is kept, and should not keep the data
        stream.column = None
    return eager, chosen is exact, not reads_data


def _any_shape(
    operator: OperatorFunction[..., Any], call: CallData, exact: _Recording, *, seeded: bool
) -> _Recording | None:
    """Return a recording for data of any shape; None if the call needs the shapes."""
    if any(item.dense for item in call.inputs):
        return None  # an array has the kernels of arrays, which are faster
    if any(isinstance(node.operator, WholeBatchKernel) or node.device_only for node in exact.graph.nodes):
        return None
    try:
        recording = _record(operator, call, [item.open_spec for item in call.inputs], seeded=seeded)
    except PenstockError:
        return None
    same = recording.signature == exact.signature
    open_shapes = values_needing_one_shape(recording.graph, dense_outputs=False)
    return recording if same and not recording.probed and not open_shapes else None


def _record(operator: OperatorFunction[..., Any], call: CallData, specs: Sequence[Spec], *, seeded: bool) -> _Recording:
    """Call the operator in a definition of its own, on inputs of these specs."""
    trace = Trace(operator.label or operator.name, rows=call.rows, batch=call.rows)
    single = call.kind is DataKind.SAMPLE
    streams = [
        GivenColumn(spec, item.rows(call.rows), single=single) for spec, item in zip(specs, call.inputs, strict=True)
    ]
    nodes = [_input(trace, stream) for stream in streams]
    # Any seed that is not negative does: `_drawing_first` replaces it.
    seed = {"seed": 1} if seeded else {}

    def node(value: Any) -> Any:
        return DataNode(nodes[value.index].values[0]) if isinstance(value, Slot) else value

    with trace.active():
        result = operator(*map(node, call.args), **{name: node(value) for name, value in call.kwargs.items()}, **seed)
    values: tuple[Value, ...] = ()
    structure: type | None = None
    if isinstance(result, DataNode):
        values, structure = (result.value,), DataNode
    elif isinstance(result, list | tuple):
        values = tuple([item.value for item in cast(list[DataNode], result)])
        structure = list if isinstance(result, list) else tuple
    graph = Graph(values, trace.name, tuple(trace.preserved))
    return _Recording(graph, structure, streams)


def _input(trace: Trace, stream: GivenColumn) -> Node:
    """Record an input."""
    number = trace.next_id()
    call = OperatorCall("input", (), ((number, 0),))
    node = replace(engine_node(StreamInput(stream), "input"), id=number, call=call)
    trace.nodes.add(node)
    return node


def _drawing_first(node: Node) -> Node:
    """Return a node that draws by the program's seed what it would draw by its own."""
    return node if node.seed is None else replace(node, seed=None, stream=0)


def _run(eager: EagerProgram, call: CallData, random: int | Generator | None) -> Any:
    """Compute a call with its program."""
    program, position = eager.program, 0
    if eager.draws:
        seed = hash_words(random) if isinstance(random, int) else cast(Generator, random).seed
        if isinstance(random, Generator):
            position = random.advance(call.rows)
        program = program.with_seed(seed)
    columns = {node: (call.inputs[number].rows(call.rows),) for node, number in eager.inputs.items()}
    outputs, _ = program.run(BatchStep(0, position, (), call.rows), columns)
    results = [
        call.deliver(_owned(column, call.inputs), layout) for column, layout in zip(outputs, eager.layouts, strict=True)
    ]
    if eager.structure is DataNode:
        return results[0]
    return None if eager.structure is None else eager.structure(results)


def _owned(column: Any, inputs: Sequence[DataInput]) -> Column:
    """Return a column in memory of its own: users may write into results, and into their inputs later."""
    if isinstance(column, np.ndarray):
        array = cast(Array, column)
        return array.copy() if _is_borrowed(array, inputs) else array
    samples = cast(list[Array], column)
    if any(_is_borrowed(sample, inputs, row) for row, sample in enumerate(samples)):
        return [sample.copy() for sample in samples]
    return samples


def _is_borrowed(array: Array, inputs: Sequence[DataInput], row: int | None = None) -> bool:
    """True if an array is read-only, or in the memory of an input: of its sample `row`, or of any."""
    if not array.flags.writeable:
        return True
    for item in inputs:
        column = item.column
        samples = [column] if isinstance(column, np.ndarray) else column if row is None else [column[row % len(column)]]
        if any(np.may_share_memory(array, sample) for sample in samples):
            return True
    return False
