"""Tracing: running a definition once, without data, to record its graph."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Annotated, Any, SupportsIndex, cast
from weakref import WeakSet

import numpy as np

from penstock.core import Spec
from penstock.core.call_site import pretend_at, user_call_site
from penstock.core.dataclass import dataclass
from penstock.core.user_callbacks import tracing_variable
from penstock.errors import ArgumentTypeError, ContextError, PenstockError, short_repr
from penstock.graph.arguments.input_requirements import Input
from penstock.graph.ir.node import Graph, Node, NodeHandle, Value
from penstock.graph.ir.node_checks import check_branch_scope
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.deferred_tracing import CallJournal
from penstock.graph.tracing.eager_execution import EagerExecutor, WorkerOptions
from penstock.graph.tracing.expression import Expression
from penstock.graph.tracing.free_nodes import adopt, check_known, feed_queue_of, made_again, made_outside, serials
from penstock.graph.tracing.node_mistakes import explain, fix_of_conditions, fix_of_function
from penstock.graph.tracing.registry import journal, lookup, running
from penstock.sources.storage.file_stamps import remote_stamp

# Key of the stamp of remote data sets in `Trace.shared`: all traces of a definition share them.
_REMOTE_STAMP = "remote stamp"


@dataclass
class Trace:
    """State of a definition that is being traced: the recorded nodes, and counters.

    Args:
        name: Name of the definition in messages.
        rows: Rows of a batch that one device computes, as far as known.
        batch: Rows of a batch.
        num_nodes: Number of recorded nodes, which is the id of the next one.
        streams: Number of recorded nodes that draw random bits.
        names: Names that the user gave to nodes.
        preserved: Nodes that run even if no output needs them.
        branch: Node that says which rows take the branch that is being traced; None outside of branches.
        eager: Computes each node when it is recorded, in debug mode.
        worker_options: The processes that call users' sources.
        checkpoints: True if the user intends to restore positions.
        shared: Data that the traces of one definition for several blocks of rows have in common.
        fed: Queues of the inputs that are fed by hand, by name.
        nodes: The recorded nodes.
        refused: Errors of calls that do not accept the kind of a fed batch, by the values that they had returned.
        adopted: Nodes of this definition that replace nodes made outside of any definition.
        adopted_streams: Stream numbers in this definition, by the stream numbers outside.

    Attributes:
        journal: The calls that recorded the nodes.
    """

    name: str = "pipeline"
    rows: int = 1
    batch: int = 1
    num_nodes: int = 0
    streams: int = 0
    names: set[str] = field(default_factory=set[str])
    preserved: list[Node] = field(default_factory=list[Node])
    branch: NodeHandle | None = None
    eager: EagerExecutor | None = None
    worker_options: WorkerOptions = field(default_factory=WorkerOptions)
    checkpoints: bool = False
    shared: dict[Any, Any] = field(default_factory=dict[Any, Any])
    fed: dict[str, Any] = field(default_factory=dict[str, Any])
    nodes: WeakSet[Node] = field(default_factory=WeakSet[Node])
    refused: dict[Value, PenstockError] = field(default_factory=dict[Value, PenstockError])
    adopted: dict[Node, Node] = field(default_factory=dict[Node, Node])
    adopted_streams: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        # A proxy, since in a reference cycle data sets would stay open until the garbage collector runs.
        self.journal = CallJournal(weakref.proxy(self))

    @property
    def guard(self) -> Value | None:
        """The truth value per row of the branch that is being traced; None outside of branches."""
        return None if self.branch is None else self.branch.value

    def restart(self) -> None:
        """Forget the recorded nodes, because the same calls are made again."""
        self.num_nodes, self.streams, self.branch = 0, 0, None
        self.refused.clear()
        self.names.clear()
        self.preserved.clear()
        self.adopted.clear()
        self.adopted_streams.clear()

    def check(self, value: Value) -> Value:
        """Return the definition's own value: the argument, or the copy of a value made outside of definitions.

        Raises:
            ContextError: The value belongs to another definition.
        """
        if value in self.refused:
            raise self.refused[value]
        if value.node in self.nodes:
            return value
        if value.node not in made_outside:
            raise ContextError(
                f"{value} belongs to another pipeline than {self.name}",
                given=f"a node made at {value.node.where}",
                fix="call its operator in this definition, too",
            )
        return Value(self._adopted(value.node), value.index)

    def _adopted(self, node: Node) -> Node:
        """Return this definition's copy of a node that was made outside of any definition.

        Raises:
            ArgumentTypeError: Another node has the same name.
            DefinitionError: The node depends on a fed input of unknown kind.
        """
        if node not in self.adopted and node in made_again:
            self.journal.call(functools.partial(self._made_again, node))
        elif node not in self.adopted:
            if node.operator.random_bits and node.stream not in self.adopted_streams:
                self.adopted_streams[node.stream] = self.streams
                self.streams += 1
            own = self.adopted[node] = adopt(node, self.check, self.adopted_streams.get(node.stream, 0))
            check_known(node, own)
            self.claim_name(node.name)
            if (fed := feed_queue_of(own)) is not None:
                self.fed[str(fed)] = fed
            self.nodes.add(own)
            if self.eager is not None:
                self.eager.compute(own)
        return self.adopted[node]

    def _made_again(self, node: Node) -> None:
        # The call belongs to the call that uses the node, so the journal must not record it separately. It runs for all
        # rows, even if the first use is in a branch.
        branch, self.branch = self.branch, None
        try:
            with running(lookup(node.kind)), pretend_at(node.where), self.active():
                self.adopted[node] = made_again[node]().node
        finally:
            self.branch = branch

    def next_id(self) -> int:
        """Return the id of the next node."""
        if self.nodes is made_outside:
            return next(serials)
        self.num_nodes += 1
        return self.num_nodes - 1

    def claim_name(self, name: str) -> None:
        """Reserve a name for a node.

        Raises:
            ArgumentTypeError: Another node has this name.
        """
        if name and name in self.names:
            raise ArgumentTypeError(f"two nodes are named {name!r}", fix="give each its own name")
        self.names.add(name)

    @contextmanager
    def active(self) -> Generator[Trace]:
        """Record the operators that are called inside the `with` statement."""
        token, journal_token = _current.set(self), journal.set(self.journal)
        stamp_token = remote_stamp.set(self.shared.setdefault(_REMOTE_STAMP, object()))
        try:
            yield self
        except (TypeError, AttributeError) as error:
            explain(error)
            raise
        finally:
            _current.reset(token)
            journal.reset(journal_token)
            remote_stamp.reset(stamp_token)

    def graph(self, outputs: Any) -> Graph:
        """Return the graph of outputs: a node, a constant, or a tuple, list or dict of them.

        Raises:
            ArgumentTypeError: The definition returned something else.
            ContextError: The definition returned a node of another definition.
        """
        names: tuple[str, ...] = ()
        if isinstance(outputs, Mapping):
            names, outputs = tuple(cast(Mapping[str, Any], outputs)), tuple(cast(Mapping[str, Any], outputs).values())
        returned = list(cast(list[Any], outputs)) if isinstance(outputs, tuple | list) else [outputs]
        try:
            for name in names:
                if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user's keys
                    raise ArgumentTypeError(
                        f"{self.name} returns a dict with a key that is not text",
                        given=short_repr(name),
                        expected="names of outputs",
                        fix='return {"images": images, "labels": labels}',
                    )
            if len(returned) == 1 and returned[0] is None:
                raise ArgumentTypeError(
                    f"{self.name} returns nothing", expected="at least one node", fix="return images"
                )
            if not returned:
                raise ArgumentTypeError(f"{self.name} has no outputs", expected="at least one node")
            with self.active():
                values = tuple(as_value(output) for output in returned)
                for value in values:
                    check_branch_scope(value, self.guard)
                return Graph(values, self.name, tuple(self.preserved), names)
        except PenstockError as error:
            error.where = error.where or user_call_site()
            raise


_current: ContextVar[Trace | None] = tracing_variable("current_trace")


class DataNode(Expression):
    """Handle of a value of the graph. Pass it to operators, compute with it, index it, return it.

    Args:
        value: The output of a node.
    """

    __slots__ = ()

    @property
    def spec(self) -> Spec:
        """dtype, shape and layout of a sample, as far as the definition determines them."""
        trace = _current.get()
        outside = trace is not None and trace.nodes is not made_outside and self.value.node in made_outside
        return self.value.spec if trace is None or not outside else trace.check(self.value).spec

    @property
    def name(self) -> str:
        """Name of the node, or of its operator."""
        return self.value.node.name or self.value.node.kind

    @property
    def dtype(self) -> Any:
        """NumPy dtype of the elements."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """Number of axes of a sample."""
        return len(self.spec.shape)

    @property
    def layout(self) -> str:
        """One letter per axis, or empty."""
        return self.spec.layout

    @property
    def device(self) -> str:
        """Placement hint: "gpu" or "cpu"."""
        return self.value.node.device or "cpu"

    @property
    def stream_name(self) -> str | None:
        """Name of the stream that provides the value; None if no stream does."""
        operator = self.value.node.operator
        return str(operator.stream) if isinstance(operator, StreamInput) else None

    def shape(self, *, dtype: Any = None, device: str | None = None) -> DataNode:
        """Return the extents of each sample; see `fn.shapes`."""
        return lookup("shapes")(self, **({} if dtype is None else {"dtype": dtype}), device=device)

    def source_info(self, *, device: str | None = None) -> DataNode:
        """Return the origin of each sample as a node: file name, record, index."""
        return self.property("source_info", device=device)

    def property(self, key: str, *, device: str | None = None) -> DataNode:
        """Return a property of each sample as a node: "layout" or "source_info"."""
        return lookup("get_property")(self, key=key, **({} if device is None else {"device": device}))

    def _refuse(self, what: str, fix: str) -> ArgumentTypeError:
        message = f"{what} of {self.value}: its value is not known while the definition runs"
        return ArgumentTypeError(message, fix=fix, where=user_call_site())

    def __bool__(self) -> bool:
        raise self._refuse("the truth", fix_of_conditions())

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        del types, args, kwargs
        if function is np.ndim:  # known without values
            return self.ndim
        name = str(function.__name__)
        raise ArgumentTypeError(
            f"np.{name} needs the values of {self.value}, which are not known while the definition runs",
            fix=fix_of_function(name),
            where=user_call_site(),
        )

    def __hash__(self) -> int:
        # With a hash by identity, `node in {1, 2}` would always be false, and a lookup in a dict would find nothing.
        raise self._refuse(
            "the hash",
            "(node == 1) | (node == 2) for `node in {1, 2}`, fn.lookup_table for a dict; "
            "id(node) as the key of a node itself",
        )

    def __len__(self) -> int:
        raise self._refuse("the length", "see its spec for what is known of the shape")

    def __index__(self) -> SupportsIndex:
        raise self._refuse("the integer value", "pass the node itself where an operator takes one")

    def __int__(self) -> int:
        raise self._refuse("the integer value", "fn.cast(node, dtype=types.INT32), which converts each sample")

    def __float__(self) -> float:
        raise self._refuse("the number", "compute with the node itself: node * 2.0, fn.cast(node, dtype=types.FLOAT)")

    def get(self) -> Any:
        """Return the batch as a tensor list. Only in debug mode, while the definition runs.

        Raises:
            ContextError: The definition is only traced, so there is no batch.
        """
        trace = _current.get()
        if trace is None or trace.eager is None:
            raise ContextError(
                f"{self.value} has no value while the definition is traced",
                fix="@pipeline_def(debug=True), with which the definition runs for each batch",
                where=user_call_site(),
            )
        return trace.eager.get(self.value)

    def __repr__(self) -> str:
        trace = _current.get()
        computed = None if trace is None or trace.eager is None else trace.eager.text(self.value)
        batch = "" if computed is None else f",\n{computed}"
        return f"DataNode({self.value}: {self.spec}{batch})"


# Types of inputs: images, volumes and sequences of them; the same without volumes.
Images = Annotated[DataNode, Input(axes="HW")]
Planes = Annotated[DataNode, Input(axes="HW", without="D")]


def as_value(thing: Any) -> Value:
    """Return the value of a node or constant.

    Raises:
        ArgumentTypeError: The argument is neither a node nor a constant.
        ContextError: The node belongs to another definition.
    """
    if isinstance(thing, DataNode):
        return current_trace().check(thing.value)
    if isinstance(thing, list | tuple) and any(isinstance(item, DataNode) for item in cast(Sequence[Any], thing)):
        raise ArgumentTypeError(
            "a list of nodes is given where one node is needed",
            given=short_repr(cast(Any, thing)),
            fix="unpack the list: pipeline.set_outputs(*nodes)",
            where=user_call_site(),
        )
    try:
        return lookup("constant")(thing).value
    except PenstockError as error:
        # The user did not write fn.constant.
        error.subject = ""
        raise


def current_trace() -> Trace:
    """Return the trace of the running definition; outside, one whose nodes any definition may use."""
    trace = _current.get()
    if trace is None:
        number = next(serials)
        trace = Trace("no pipeline", num_nodes=number, streams=number, nodes=made_outside)
    return trace


def defining_trace() -> Trace:
    """Return the trace of the running definition.

    Raises:
        ContextError: No definition is running.
    """
    if _current.get() is None:
        raise ContextError(
            "the operator was called outside a pipeline definition",
            fix="call it in a function decorated with @pipeline_def or @data_iterator, or inside `with pipeline:`",
        )
    return current_trace()
