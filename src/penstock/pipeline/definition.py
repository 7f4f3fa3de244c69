"""What a pipeline computes: the definition that is traced, and what it is fed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self

from penstock.core.call_site import user_call_site, with_call_site
from penstock.errors import ContextError, PenstockError, SourceNotReadyError, UsageError, did_you_mean
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.ir.node import Graph
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.trace import DataNode, Trace
from penstock.pipeline.dali_methods import DaliMethods
from penstock.pipeline.debug_mode import DebugExecutor
from penstock.pipeline.pipeline_options import OutputRequirements


class Definition(DaliMethods):
    """The part of `Pipeline` that has its definition.

    Args:
        trace: collects what the definition says.
        wanted: what its outputs must be.
        debug: as `Pipeline` takes it.
    """

    def __init__(self, trace: Trace, wanted: OutputRequirements, *, debug: bool) -> None:
        self._trace = trace
        self._wanted = wanted
        self.debug = debug
        self._debugging: DebugExecutor | None = None
        self._entered: list[AbstractContextManager[Any]] = []
        self._graph: Graph | None = None
        self._outputs: Sequence[Any] = ()
        self._postponed = False

    def __enter__(self) -> Self:
        if self.debug:
            raise ContextError(
                "in debug mode a definition runs for each batch",
                fix="@pipeline_def(debug=True)",
                where=user_call_site(),
            )
        context = ExitStack()
        context.enter_context(self._trace.active())
        context.enter_context(self._being_current())
        self._entered.append(context)
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.pop().__exit__(None, None, None)

    @property
    def name(self) -> str:
        """What messages call the definition."""
        return self._trace.name

    @name.setter
    def name(self, name: str) -> None:
        self._trace.name = name

    @property
    def order_seed(self) -> int:
        """The seed of the order of its readers: that of the pipeline, or 0 where none is given.

        A fixed one, as DALI has it: each of several programs may read one shard, and slices of different permutations
        overlap.
        """
        return self.seed if self.seed_is_given else 0

    def set_row_counts(self, rows: int, batch: int) -> None:
        """Say how many rows one device will compute, and how many a batch has, where that is known before tracing."""
        self._trace.rows, self._trace.batch = rows, batch

    def share_trace(self, shared: dict[Any, Any]) -> None:
        """Say that its trace is one of several of one definition, which have this in common."""
        self._trace.shared = shared

    @check_annotations
    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Give a batch to an `fn.external_source` that has no source. It waits behind those that were given before.

        Args:
            data_node: the node, or its name.
            data: an array with a leading axis of samples, or a list of samples; copied.
            layout: the layout of a sample.
            cuda_stream: a hint of DALI's.
            use_copy_kernel: likewise.

        Raises:
            UsageError: there is no such node, or it has a source.
            SourceError: the data are of another kind than its samples.
        """
        del cuda_stream, use_copy_kernel
        self._feed(data_node.stream_name if isinstance(data_node, DataNode) else data_node, data, layout)

    def _feed(self, name: str | None, data: Any, layout: str | None = None) -> None:
        if self.debug:
            self._debugged().feed(name, data, layout)
            return
        self._definition()
        if name not in self._trace.fed:
            raise UsageError(
                f"the pipeline has no external_source without a source named {name!r}",
                fix=did_you_mean(name, self._trace.fed),
            )
        self._trace.fed[name].feed(data, layout)

    def iter_setup(self) -> None:
        """Called where nothing is left of what was fed. A subclass may feed the next batch, or raise StopIteration."""

    def _guessed(self, graph: Graph) -> list[Any]:
        """The inputs that a graph needs of which it is not known yet what they are fed."""
        streams = [node.operator.stream for node in graph.feeds if isinstance(node.operator, StreamInput)]
        return [stream for stream in self._trace.fed.values() if stream.is_assumed and stream in streams]

    def _settle(self) -> None:
        """Make the definition's calls again, where it is known by now what is fed.

        Raises:
            UsageError: nothing was fed, so what is fed is not known.
        """
        guessed = self._guessed(self._definition())
        if not guessed:
            return
        if any(not stream.has_batch for stream in guessed):
            self.iter_setup()
        for stream in guessed:
            try:
                stream.fix_kind()
            except PenstockError as error:
                error.where = user_call_site()
                raise
        with self._trace.active():
            self._trace.journal.replay()
        self.set_outputs(*self._outputs)

    @with_call_site
    def set_outputs(self, *outputs: Any) -> None:
        """Say what a batch consists of: nodes, or values that become constants."""
        self._outputs = outputs
        self._trace.journal.close()
        graph = self._trace.graph(outputs)
        refill = weakref.WeakMethod(self.iter_setup)
        for stream in self._trace.fed.values():
            stream.refill = refill
        if not self._guessed(graph):
            self._wanted.check(graph)
        self._graph = graph

    @with_call_site
    def define_graph(self) -> Any:
        """What a batch consists of: for classes derived from this one to define. It is called once, to trace it.

        Returns:
            A node, or a tuple or list of nodes.

        Raises:
            ContextError: nothing was defined.

        Example:
            >>> from penstock import Pipeline, ops
            >>> class AxisMapping(Pipeline):
            ...     def __init__(self, batch_size, num_threads):
            ...         super().__init__(batch_size, num_threads)
            ...         self.input = ops.readers.Arrays(random_shuffle=False)
            ...     def define_graph(self):
            ...         return self.input([10, 20, 30], name="reader") * 2
            >>> AxisMapping(2, 1).run()[0].as_array().tolist()
            [20, 40]
        """
        raise ContextError(
            "the pipeline has no outputs",
            fix="call set_outputs in its `with` statement, or derive a class with define_graph",
        )

    @check_annotations
    def define(self, definition: Callable[[], Any]) -> None:
        """Run a definition once, and make what it returns the outputs.

        Raises:
            PenstockError: what it raises.
        """
        with self:
            if self._postponed:
                self._trace.journal.restart()
            try:
                outputs = definition()
            except SourceNotReadyError:
                self._postponed = True
                raise
            self.set_outputs(*(outputs if isinstance(outputs, tuple | list) else (outputs,)))

    def define_early(self, definition: Callable[[], Any]) -> None:
        """`define`; where a source is not ready, do so when it is first needed, as for DALI's first run."""
        try:
            self.define(definition)
        except SourceNotReadyError:
            if definition != self.define_graph:
                define: Any = definition
                self.define_graph = define  # in place of the method

    @property
    def graph(self) -> Graph:
        """What the definition says.

        Raises:
            ContextError: there are no outputs yet.
        """
        self._definition()
        self._settle()
        return self._definition()

    def _definition(self) -> Graph:
        """What the definition says so far; its calls are the same whatever will be fed.

        Raises:
            ContextError: there are no outputs yet.
        """
        if self._graph is None and self.debug:
            raise ContextError("in debug mode nothing is known of a definition before it runs", fix="call run() first")
        if self._graph is None:
            self.define(self.define_graph)
        assert self._graph is not None  # define has set it
        return self._graph

    @property
    def num_outputs(self) -> int:
        """How many outputs a batch has."""
        return len(self.graph.outputs)

    def output_dtype(self) -> list[Any]:
        """The dtype of each output."""
        return [value.spec.dtype for value in self.graph.outputs]

    def output_ndim(self) -> list[int]:
        """The number of axes of a sample of each output."""
        return [len(value.spec.shape) for value in self.graph.outputs]

    def _debugged(self) -> DebugExecutor:
        if self._debugging is None:
            self._debugging = DebugExecutor(self.name, self.max_batch_size, self.seed, self.order_seed, self.placement)
        return self._debugging
