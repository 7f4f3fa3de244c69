"""Deferred tracing: definitions whose inputs are fed after the definition was traced.

DALI sees the type of an input only when a batch arrives; here types are inferred while the definition is traced. One
rule covers programs that feed their inputs later:

* Every call of an operator is recorded together with the branch it belongs to.
* An input of unknown kind is traced as an assumed kind. If a call refuses that kind, the recorded calls are made again
  with the next assumption.
* When the first batch is fed, the recorded calls are made again with the kind of the batch.

User code does not run twice. The nodes that it holds are handles, which then refer to the new values. The exception is
a function that defines a pipeline, if one of its calls refuses every assumption: it runs again with the first batch.
"""

import functools
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from typing import Any, Protocol, TypeVar

from penstock.core.call_site import CallSite, pretend_at, user_call_site
from penstock.core.dataclass import dataclass
from penstock.errors import PenstockError
from penstock.graph.ir.node import Node, NodeHandle, Value, handles
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.global_generators import GlobalGenerators

R = TypeVar("R")

# Operators such as fn.paste and fn.warp_affine refuse a call until two of their inputs have the right kind. No operator
# needs more, and the number of combinations grows with the power of this number.
_MAX_CHANGES = 2


class AssumedInput(Protocol):
    """An input that is fed by hand."""

    @property
    def candidate_count(self) -> int:
        """Number of kinds that can be assumed; 1 if the kind is known."""
        ...

    def assume_kind(self, number: int) -> None:
        """Assume candidate `number`."""
        ...


class ReplayTarget(Protocol):
    """The parts of a trace that a replay needs."""

    branch: NodeHandle | None
    refused: dict[Value, PenstockError]

    @property
    def adopted(self) -> Mapping[Node, Node]:
        """The trace's nodes by the nodes outside of any definition that they copy."""
        ...

    def restart(self) -> None:
        """Forget the recorded nodes."""
        ...


@dataclass(frozen=True)
class _RecordedCall:
    run: Callable[[], Any]
    where: CallSite
    branch: NodeHandle | None
    results: Sequence[NodeHandle]


class CallJournal:
    """The calls of one trace, in order.

    Args:
        trace: The trace in which the calls are made.
    """

    def __init__(self, trace: ReplayTarget) -> None:
        self._trace = trace
        self._calls: list[_RecordedCall] = []
        self._assumed: dict[AssumedInput, int] = {}
        self._generators: GlobalGenerators | None = None
        # The error of a call that refuses every assumed kind for a reason that depends on the kind: it may accept the
        # kind that is fed.
        self.unresolved: PenstockError | None = None

    @contextmanager
    def watching_generators(self, name: str) -> Generator[None]:
        """Warn of numbers that the user's code draws from global random generators inside the `with` statement.

        Args:
            name: Name of the definition.
        """
        # A `with` statement of a pipeline may contain another one of the same pipeline.
        outer, self._generators = self._generators, GlobalGenerators(name)
        try:
            yield
            self._generators.check(user_call_site())
        finally:
            self._generators = outer
            if outer is not None:
                outer.skip()

    @property
    def open(self) -> bool:
        """True if the kind of an input is still an assumption."""
        return any(stream.candidate_count > 1 for stream in self._assumed)

    def register_assumed(self, stream: AssumedInput) -> None:
        """Register an input whose kind may be unknown."""
        self._assumed.setdefault(stream, 0)

    def call(self, run: functools.partial[R]) -> R:
        """Make and record a call. If it refuses an assumed kind, find a kind that it accepts."""
        where, branch = user_call_site(), self._trace.branch
        if self._generators is not None:
            self._generators.check(where)
        try:
            result = run()
        except PenstockError as error:
            error.where = error.where or where
            result = self._retry(run, error)
        if self._generators is not None:
            self._generators.skip()
        # A copy: the list itself belongs to the user, who may change it.
        self._calls.append(_RecordedCall(run, where, branch, list(handles(result))))
        return result

    def replay(self) -> None:
        """Make all calls again with the kinds that are known now.

        A call that fails is an error only if something uses its results. A branch may leave a value that nothing reads,
        and with an assumed kind nobody could tell that it does not fit the other branch.

        Raises:
            PenstockError: A call without results fails.
        """
        self._make_again(strict=False)

    def restart(self) -> None:
        """Forget all calls, because the definition itself runs again."""
        self._trace.restart()
        self._calls.clear()

    def close(self) -> None:
        """Release the calls if none of them will be made again."""
        if not self._assumed:
            self._calls.clear()

    def _make_again(self, *, strict: bool) -> None:
        trace, branch = self._trace, self._trace.branch
        trace.restart()
        try:
            for call in self._calls:
                trace.branch = call.branch
                # The user's line is no longer on the stack, so errors get the one that was recorded.
                with pretend_at(call.where):
                    try:
                        results = list(handles(call.run()))
                    except PenstockError as error:
                        if strict or not call.results:
                            raise
                        error.where = error.where or call.where
                        trace.refused |= {handle.value: error for handle in call.results}
                        continue
                for handle, result in zip(call.results, results, strict=True):
                    handle.value = result.value
        finally:
            trace.branch = branch

    def _retry(self, run: functools.partial[R], refused: PenstockError) -> R:
        """Return the result of a refused call under the first other assumption that all calls accept.

        Raises:
            PenstockError: `refused`, if there is none.
        """
        needed = self._upstream((run.args, run.keywords))
        current = {stream: n for stream, n in self._assumed.items() if stream in needed and stream.candidate_count > 1}
        reasons = {refused.args[0]}
        for changes in _alternatives(list(current)):
            self._assume(current | changes)
            try:
                self._make_again(strict=True)
                return run()
            except PenstockError as error:
                reasons.add(error.args[0])
        # The attempts have moved the user's handles to nodes of other kinds: this moves them back.
        if current:
            self._assume(current)
            self._make_again(strict=True)
        self.unresolved = refused if len(reasons) > 1 else None
        raise refused

    def _upstream(self, arguments: Any) -> set[Any]:
        """Return the streams that the nodes among a call's arguments are computed from."""
        adopted = self._trace.adopted
        nodes = {adopted.get(handle.value.node, handle.value.node) for handle in handles(arguments)}
        seen, streams = set[Node](), set[Any]()
        while nodes:
            seen.add(node := nodes.pop())
            if isinstance(node.operator, StreamInput):
                streams.add(node.operator.stream)
            nodes |= {value.node for value in node.operands} - seen
        return streams

    def _assume(self, kinds: Mapping[AssumedInput, int]) -> None:
        self._assumed |= kinds
        for stream, number in kinds.items():
            stream.assume_kind(number)


def _alternatives(inputs: Sequence[AssumedInput]) -> Iterator[dict[AssumedInput, int]]:
    """Yield assumptions for one input at a time, the newest first, then for several at once."""
    for count in range(1, _MAX_CHANGES + 1):
        for chosen in combinations(inputs[::-1], count):
            for numbers in product(*(range(stream.candidate_count) for stream in chosen)):
                yield dict(zip(chosen, numbers, strict=True))
