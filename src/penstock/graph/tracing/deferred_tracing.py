"""The calls of a definition, so that they can be made again when it is known what the program feeds.

A definition may take batches whose kind is not known before they are fed. It is traced with a guess of what they are;
where an operator refuses that, with another one. When the first batch is there, the calls are made again with what it
is. The nodes that the user holds then stand for the new values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Protocol, TypeVar, cast

from penstock.core.call_site import CallSite, pretend_at, user_call_site
from penstock.errors import PenstockError
from penstock.graph.ir.node import Node, NodeHandle, handles
from penstock.graph.ir.operator import StreamInput

R = TypeVar("R")

_TOGETHER = 2
"""How many inputs get another guess at once, at most."""


class AssumedInput(Protocol):
    """An input that is fed by hand."""

    @property
    def candidate_count(self) -> int:
        """How many guesses of its kind there are; 1 where it is known."""
        ...

    def assume_kind(self, number: int) -> None:
        """Let it be of another kind."""
        ...


class CallJournal:
    """The calls of one trace.

    Args:
        begin: lets the trace begin anew.
        in_branch: tells whether the trace is in a branch of a conditional.
        own: gives the trace's node in place of one that was made outside.
    """

    def __init__(self, begin: Callable[[], None], in_branch: Callable[[], bool], own: Callable[[Node], Node]) -> None:
        self._begin, self._in_branch, self._own = begin, in_branch, own
        self.branches = False
        """Whether calls were made in branches: they cannot be made again one by one, but with the whole definition."""
        self._whole = False
        """Whether a definition is run with other guesses as a whole, and not a single call."""
        self._blamed: list[AssumedInput] = []
        """What the call needs that was refused last."""
        self._calls: list[tuple[Callable[[], Any], CallSite, Sequence[NodeHandle]]] = []
        self._inputs: dict[AssumedInput, int] = {}

    @property
    def open(self) -> bool:
        """Whether the kind of an input is still guessed."""
        return any(each.candidate_count > 1 for each in self._inputs)

    def define(self, definition: Callable[[], R], *, again: bool = False) -> R:
        """Run a definition; where it has branches and is refused, with other guesses.

        Args:
            definition: a function that calls operators and returns the outputs.
            again: whether it has run before, with other guesses.
        """
        if again:
            self._restart()
        try:
            return definition()
        except PenstockError as error:
            if not (self.open and self.branches):
                raise
            refused, before = error, dict(self._inputs)
        self._whole = True
        try:
            while self.open:
                made, error = self._further(definition, refused)
                if error is None:
                    return cast(R, made)
                if error is refused:
                    break
                refused = error
        finally:
            self._whole = False
        self._set(before)
        raise refused

    def _further(self, definition: Callable[[], R], refused: PenstockError) -> tuple[R | None, PenstockError | None]:
        """What a definition returns, or why it is refused later, with other guesses for what the last call needs.

        Args:
            definition: as `define` takes it.
            refused: why it was, which is given where no guesses lead further.
        """
        now, reached = dict(self._inputs), len(self._calls)
        for changes in _changes(now, self._blamed or list(now)):
            self._set(now | changes)
            self._restart()
            try:
                return definition(), None
            except PenstockError as error:
                if len(self._calls) > reached:
                    return None, error
        return None, refused

    def _restart(self) -> None:
        self._begin()
        self._calls.clear()
        self._blamed = []
        self.branches = False

    def register_assumed(self, fed: AssumedInput) -> None:
        """Take note of an input whose kind may not be known yet."""
        self._inputs.setdefault(fed, 0)

    def call(self, run: functools.partial[R]) -> R:
        """Make a call of the user's, and note it."""
        where = user_call_site()
        self.branches |= self._in_branch()
        try:
            result = run()
        except PenstockError as error:
            needed = self._upstream((run.args, run.keywords))
            self._blamed = [fed for fed in self._inputs if fed in needed]
            if not self.open or self.branches or self._whole:
                raise
            error.where = error.where or where
            result = self._guess_again(run, error)
        self._blamed = []
        self._calls.append((run, where, list(handles(result))))  # the list itself is the user's
        return result

    def repeat(self) -> None:
        """Make all calls again; the nodes that they returned stand for the new values.

        Raises:
            PenstockError: with the kinds that are known by now, one of them is refused.
        """
        self._begin()
        for run, where, nodes in self._calls:
            with pretend_at(where):
                for old, new in zip(nodes, handles(run()), strict=True):
                    old.value = new.value

    def close(self) -> None:
        """Forget the calls, if they need not be made again."""
        if not self._inputs:
            self._calls.clear()

    def _guess_again(self, run: Callable[[], R], refused: PenstockError) -> R:
        """The result of a call that was refused, with the first other guesses that it takes."""
        before = dict(self._inputs)
        for changes in _changes(before, self._blamed):
            self._set(before | changes)
            try:
                self.repeat()
                return run()
            except PenstockError:
                continue
        self._set(before)
        self.repeat()
        raise refused

    def _upstream(self, given: Any) -> set[Any]:
        """The streams from which the nodes that are given compute."""
        nodes = {self._own(handle.value.node) for handle in handles(given)}
        seen, streams = set[Node](), set[Any]()
        while nodes:
            seen.add(node := nodes.pop())
            if isinstance(node.operator, StreamInput):
                streams.add(node.operator.stream)
            nodes |= {value.node for value in node.operands} - seen
        return streams

    def _set(self, guesses: Mapping[AssumedInput, int]) -> None:
        for fed, number in guesses.items():
            self._inputs[fed] = number
            fed.assume_kind(number)


def _changes(now: Mapping[AssumedInput, int], some: Sequence[AssumedInput]) -> Iterator[dict[AssumedInput, int]]:
    """Other guesses for some inputs: for one of them, the one that was made last first, then for two at once."""
    inputs = [fed for fed in list(now)[::-1] if fed in some and fed.candidate_count > 1]
    for count in range(1, _TOGETHER + 1):
        for chosen in combinations(inputs, count):
            for numbers in product(*(range(fed.candidate_count) for fed in chosen)):
                yield dict(zip(chosen, numbers, strict=True))
