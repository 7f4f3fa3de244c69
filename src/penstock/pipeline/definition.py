"""Definition of a pipeline: the trace, its graph, and the batches fed to it."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, PenstockError, SourceNotReadyError, UsageError, did_you_mean
from penstock.graph import DataNode, Graph, StreamInput, Trace
from penstock.pipeline.pipeline_options import OutputRequirements


class Definition:
    """A definition that is traced once, and whose calls are repeated when the kind of a fed input becomes known.

    Args:
        trace: Records the nodes.
        requirements: What the outputs must be.
        refill: Weak reference to a function that feeds inputs which have run out, or raises StopIteration. Weak because
            it is a method of the pipeline that holds this object: a cycle would keep data sets open.
    """

    def __init__(
        self, trace: Trace, requirements: OutputRequirements, refill: weakref.WeakMethod[Callable[[], None]]
    ) -> None:
        self.trace = trace
        self.requirements = requirements
        self.graph: Graph | None = None
        # True if a source was not ready while the definition ran, or nothing was fed yet and a call refused every
        # assumed kind. The definition then has to run again.
        self.interrupted = False
        self._refill = refill
        self._outputs: Sequence[Any] | Mapping[str, Any] = ()

    def record(self, function: Callable[[], Any]) -> None:
        """Run a function that calls operators, and make the nodes that it returns the outputs.

        Raises:
            PenstockError: The function raises it.
        """
        if self.interrupted:
            # The interrupted run has recorded nodes, whose names would otherwise be taken.
            self.trace.journal.restart()
        try:
            outputs = function()
        except PenstockError as error:
            if isinstance(error, SourceNotReadyError) or error is self.trace.journal.unresolved:
                self.interrupted = True
            raise
        self.set_outputs(outputs if isinstance(outputs, tuple | list | Mapping) else (outputs,))

    def set_outputs(self, outputs: Sequence[Any] | Mapping[str, Any]) -> None:
        """Set the outputs: nodes, or values that become constants, and in a dict their names."""
        if isinstance(outputs, Mapping):
            _check_flat(outputs)
        self._outputs = outputs
        # The recorded calls hold their arguments, possibly data sets, and are only needed if they may be made again.
        self.trace.journal.close()
        graph = self.trace.graph(outputs)
        for stream in self.trace.fed.values():
            stream.refill = self._refill
        # With an assumed kind, dtypes and layouts may still change. `settle` calls this method again when they are
        # known.
        if not self._assumed(graph):
            self.requirements.check(graph)
        self.graph = graph

    def feed(self, name: str | None, data: Any, layout: str | None) -> None:
        """Append a batch to the queue of an input.

        Raises:
            UsageError: No input without a source has this name.
            SourceError: The batch has another kind than the input.
        """
        if name not in self.trace.fed:
            raise UsageError(
                f"the pipeline has no external_source without a source named {name!r}",
                fix=did_you_mean(name, self.trace.fed),
            )
        self.trace.fed[name].feed(data, layout)

    @property
    def is_ready(self) -> bool:
        """True if there is a graph, and every input of unknown kind has a batch that tells it."""
        return self.graph is not None and all(stream.has_batch for stream in self._assumed(self.graph))

    def run_with_feeds(self, define: Callable[[], None]) -> None:
        """Run the definition, and again with the first batches of its fed inputs if it needs their kinds.

        Args:
            define: Calls `record`.

        Raises:
            PenstockError: The definition raises it.
        """
        is_fed = self.interrupted and self._feed_interrupted()
        try:
            define()
        except PenstockError:
            if is_fed or not self._feed_interrupted():
                raise
            define()

    def _feed_interrupted(self) -> bool:
        """Fill the queues that an interrupted definition waits for, and return True if it has such queues."""
        assumed = [stream for stream in self.trace.fed.values() if stream.is_assumed] if self.interrupted else []
        self._fill(assumed)
        return bool(assumed) and all(stream.has_batch for stream in assumed)

    def settle(self) -> None:
        """Repeat the calls of the definition if they were made with assumed kinds.

        Raises:
            UsageError: Nothing was fed, so the kind of an input is still unknown.
        """
        assumed = self._assumed(self.graph)
        if not assumed:
            return
        self._fill(assumed)
        for stream in assumed:
            try:
                stream.fix_kind()
            except PenstockError as error:
                # The batch is at fault, so the error has the line that requests the results, not a line of the
                # definition.
                error.where = user_call_site()
                raise
        with self.trace.active():
            self.trace.journal.replay()
        self.set_outputs(self._outputs)

    def _fill(self, streams: Sequence[Any]) -> None:
        if any(not stream.has_batch for stream in streams) and (refill := self._refill()) is not None:
            refill()

    def _assumed(self, graph: Graph | None) -> list[Any]:
        """Return the inputs of a graph whose kind is still an assumption."""
        feeds = () if graph is None else graph.feeds
        streams = [node.operator.stream for node in feeds if isinstance(node.operator, StreamInput)]
        return [stream for stream in self.trace.fed.values() if stream.is_assumed and stream in streams]


def _check_flat(outputs: Mapping[str, Any]) -> None:
    """Check that no output of a dict is a container of nodes."""
    for name, value in outputs.items():
        parts = list(value.items()) if isinstance(value, Mapping) else list(enumerate(value)) if _is_list(value) else []
        if any(isinstance(part, DataNode) for _, part in parts):
            flat = ", ".join(f'"{name}_{key}": ...' for key, _ in parts[:3])
            raise ArgumentTypeError(
                f"output {name!r} is a {type(value).__name__} of nodes, and each output is one node",
                fix=f"one name per node, such as {{{flat}}}",
                where=user_call_site(),
            )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
