"""Tracing: running a definition once, without data, to record its graph."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, cast
from weakref import WeakSet

from penstock.core.call_site import pretend_at, user_call_site
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, ContextError, PenstockError, short_repr
from penstock.graph.ir.node import Graph, Node, NodeHandle, Value
from penstock.graph.ir.node_checks import check_branch_scope
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.deferred_tracing import CallJournal
from penstock.graph.tracing.eager_execution import EagerExecutor, WorkerOptions
from penstock.graph.tracing.expression import Expression
from penstock.graph.tracing.free_nodes import adopt, check_known, feed_queue_of, made_again, made_outside, serials
from penstock.graph.tracing.registry import journal, kind, lookup


@dataclass
class Trace:
    """What is known and what counts up while one definition runs.

    Args:
        name: what messages call the definition.
        rows: how many rows of a batch one device will compute, as far as can be told.
        batch: how many rows a batch will have.
        num_nodes: how many nodes were recorded.
        streams: how many of them draw random bits.
        names: those that the user gave to nodes.
        preserved: the nodes that run though no output may need them.
        branch: node that says which rows take the branch that is being traced; None outside of branches.
        eager: what computes each node as it is recorded, in debug mode.
        worker_options: the processes that call users' sources.
        checkpoints: whether the user means to go back to a place.
        shared: what the traces of one definition for several blocks of rows have in common, by whatever key.
        fed: the streams that are fed by hand, by name.
        num_nodes: the nodes that were recorded.
        refused: errors of calls that do not accept what was fed, by the values that they returned before.
        adopted: per node that was made outside of any definition, this one's own in its place.
        adopted_streams: per number of random bits outside, the number here.

    Attributes:
        journal: the calls that were made.
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
        """A value, if it belongs to this definition; its own one for a value that was made outside of any.

        Raises:
            ContextError: the value belongs to another definition.
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
        """This definition's own node in place of one that was made outside of any.

        Raises:
            ArgumentTypeError: it has the name of another node.
            DefinitionError: it was made of something that is fed by hand, and nothing is said of that.
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
        token = kind.set(node.kind)  # it belongs to the call that needs it, and is noted as this one
        branch, self.branch = self.branch, None  # and to no branch
        try:
            with pretend_at(node.where), self.active():
                self.adopted[node] = made_again[node]().node
        finally:
            self.branch = branch
            kind.reset(token)

    def next_id(self) -> int:
        """The number of the next node."""
        if self.nodes is made_outside:
            return next(serials)
        self.num_nodes += 1
        return self.num_nodes - 1

    def claim_name(self, name: str) -> None:
        """Take a name for a node.

        Raises:
            ArgumentTypeError: another node has this name.
        """
        if name and name in self.names:
            raise ArgumentTypeError(f"two nodes are named {name!r}", fix="give each its own name")
        self.names.add(name)

    @contextmanager
    def active(self) -> Generator[Trace]:
        """Record the operators that are called inside the `with` statement."""
        token, noting = _current.set(self), journal.set(self.journal)
        try:
            yield self
        finally:
            _current.reset(token)
            journal.reset(noting)

    def graph(self, outputs: Any) -> Graph:
        """The graph whose outputs a definition returned: a node, a constant, or a tuple or list of them.

        Raises:
            ArgumentTypeError: it returned something else.
            ContextError: it returned a node of another definition.
        """
        returned = list(cast(list[Any], outputs)) if isinstance(outputs, tuple | list) else [outputs]
        try:
            if not returned:
                raise ArgumentTypeError(f"{self.name} has no outputs", expected="at least one node")
            with self.active():
                values = tuple(as_value(output) for output in returned)
                for value in values:
                    check_branch_scope(value, self.guard)
                return Graph(values, self.name, tuple(self.preserved))
        except PenstockError as error:
            error.where = error.where or user_call_site()
            raise


_current: ContextVar[Trace | None] = ContextVar("current_trace", default=None)


class DataNode(Expression):
    """A value of the graph as the user holds it: to be passed to operators, computed with, indexed, returned.

    Args:
        value: the output of a node that it stands for.
    """

    __slots__ = ()

    @property
    def spec(self) -> Spec:
        """dtype, shape and layout of a sample, as far as the definition tells."""
        trace = _current.get()
        outside = trace is not None and trace.nodes is not made_outside and self.value.node in made_outside
        return self.value.spec if trace is None or not outside else trace.check(self.value).spec

    @property
    def name(self) -> str:
        """The name of its node, or the operator's."""
        return self.value.node.name or self.value.node.kind

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of its elements."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return len(self.spec.shape)

    @property
    def layout(self) -> str:
        """One letter per axis, or empty."""
        return self.spec.layout

    @property
    def device(self) -> str:
        """Where the user wants it, a placement hint: "gpu" or "cpu"."""
        return self.value.node.device or "cpu"

    @property
    def stream_name(self) -> str | None:
        """What the stream is called that gives it; None where none does."""
        operator = self.value.node.operator
        return str(operator.stream) if isinstance(operator, StreamInput) else None

    def shape(self, *, dtype: Any = None, device: str | None = None) -> DataNode:
        """The extents of each sample, as `fn.shapes` gives them."""
        return lookup("shapes")(self, **({} if dtype is None else {"dtype": dtype}), device=device)

    def source_info(self, *, device: str | None = None) -> DataNode:
        """Where each sample was read, as a node."""
        return self.property("source_info", device=device)

    def property(self, key: str, *, device: str | None = None) -> DataNode:
        """A property of each sample, as a node: "layout" or "source_info"."""
        return lookup("get_property")(self, key=key, **({} if device is None else {"device": device}))

    def _refuse(self, what: str, fix: str) -> ArgumentTypeError:
        said = f"{what} of {self.value}: its value is not known while the definition runs"
        return ArgumentTypeError(said, fix=fix, where=user_call_site())

    def __bool__(self) -> bool:
        raise self._refuse("the truth", "@pipeline_def(enable_conditionals=True), with which if, and, or, not take it")

    def __len__(self) -> int:
        raise self._refuse("the length", "see its spec for what is known of the shape")

    def __index__(self) -> SupportsIndex:
        raise self._refuse("the integer value", "pass the node itself where an operator takes one")

    def get(self) -> Any:
        """The batch, as a tensor list, while a definition runs in debug mode.

        Raises:
            ContextError: it does not, so there is no batch yet.
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


def as_value(thing: Any) -> Value:
    """The value that a node stands for, or a constant's.

    Raises:
        ArgumentTypeError: it is neither a node nor a constant.
        ContextError: it belongs to another definition than the one that is being traced.
    """
    if isinstance(thing, DataNode):
        return current_trace().check(thing.value)
    if isinstance(thing, list | tuple) and any(isinstance(each, DataNode) for each in cast(Sequence[Any], thing)):
        raise ArgumentTypeError(
            "a list of nodes stands where one node is needed",
            given=short_repr(cast(Any, thing)),
            fix="a * before it hands over each of them: pipeline.set_outputs(*nodes)",
            where=user_call_site(),
        )
    return lookup("constant")(thing).value


def current_trace() -> Trace:
    """The trace of the definition that is running; where none is, one whose nodes any definition may use."""
    trace = _current.get()
    if trace is None:
        number = next(serials)
        trace = Trace("no pipeline", num_nodes=number, streams=number, nodes=made_outside)
    return trace


def defining_trace() -> Trace:
    """The trace of the definition that is running.

    Raises:
        ContextError: none is.
    """
    if _current.get() is None:
        raise ContextError(
            f"fn.{kind.get('')} was called outside a pipeline definition",
            fix="call it in a function decorated with @pipeline_def or @data_iterator, or inside `with pipeline:`",
        )
    return current_trace()
