"""Runtime of rewritten definitions: `if`, `and`, `or`, `not` and `return` on nodes.

Python values behave as in Python. If the condition is a node, all branches are traced, each under a guard. The
values of the names to which branches assign are captured before, between and after the branches, by `IfStatement`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from penstock.core import user_call_site
from penstock.core.constant import snapshot
from penstock.errors import DefinitionError, PenstockError, short_repr
from penstock.graph.conditionals.branch_results import detach_changes, merge_branches, select, select_rows
from penstock.graph.ir.branch_operators import BranchMask
from penstock.graph.ir.node import NodeHandle
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import OperatorFunction, journal
from penstock.graph.tracing.trace import DataNode, current_trace
from penstock.types import Constant

Thunk = Callable[[], Any]

_UNBOUND = object()
# Errors of looking up a name, an entry or an attribute that does not exist.
_NOT_THERE = (NameError, LookupError, AttributeError, TypeError)


class AllRowsReturned(BaseException):
    """Ends a branch whose rows have all returned. A BaseException, so that `except Exception` does not catch it."""


class RewrittenCall:
    """One call of a rewritten function: the values that rows have returned, and the rows that continue.

    After a branch that returns, the rest of the function is traced under the guard of the remaining rows.
    """

    def __init__(self) -> None:
        # Depth of nested branches that are being traced.
        self.open = 0
        self.returned: list[tuple[NodeHandle, Any]] = []
        # Errors of names that have no value after a condition. They are raised only if the name is used, because a
        # branch may leave a temporary variable that nothing reads.
        self.lost: dict[str, PenstockError] = {}

    def __enter__(self) -> Self:
        self._trace = current_trace()
        self._branch = self._trace.branch
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Also after an error or a return in a branch: the caller continues with its own rows.
        self._trace.branch = self._branch
        name = _missing(error, self.lost)
        if name:
            raise self.lost[name] from None

    def fork(self, condition: Any, names: Sequence[str], getters: Sequence[Thunk]) -> IfStatement:
        """Begin an `if` statement; see `IfStatement`."""
        return IfStatement(self, condition, names, getters)

    def leave(self, value: Any) -> Any:
        """Return the value for a `return` statement of the user's function, or for the end of its body.

        Raises:
            AllRowsReturned: The statement ends a branch. `IfStatement` catches it.
        """
        guard = self._trace.branch
        if guard is None or not (self.open or self.returned):
            return value
        self.returned.append((guard, value))
        return self.end()

    def end(self) -> Any:
        """Return the function's result when no row continues.

        Raises:
            AllRowsReturned: A branch ends here.
        """
        if self.open:
            raise AllRowsReturned
        self._trace.branch = self._branch
        guards = [guard for guard, _ in self.returned[:-1]]
        return merge_branches(guards, [value for _, value in self.returned], "what the function returns")


class IfStatement:
    """An `if` statement, and the context in which each of its branches runs.

    Args:
        activation: Call of the function that contains the statement.
        condition: A node or a Python value.
        names: Targets of assignments in the branches, as text.
        getters: Functions that return the values of the targets.

    Raises:
        DefinitionError: The condition is a node but not a scalar.
    """

    def __init__(
        self, activation: RewrittenCall, condition: Any, names: Sequence[str], getters: Sequence[Thunk]
    ) -> None:
        # True if the condition is a node, so that all branches are traced.
        self.forks = isinstance(condition, DataNode)
        # True if all rows have returned in their branches.
        self.left = False
        self._activation, self._names, self._getters = activation, names, getters
        self._condition = condition
        self._truth = self.forks or bool(condition)
        self._now: list[Any] | None = None
        self._guards: list[NodeHandle] = []
        self._ends: list[NodeHandle | None] = []
        if self.forks:
            _settle(_check_scalar, condition)
            self._trace = current_trace()
            self._outer = self._trace.branch
            self._states = [self._captured()]
            self._contents = list(map(snapshot, self._states[0]))
            self._returned = len(activation.returned)

    def enter_body(self) -> bool:
        """Return True if the body is to run."""
        return self._truth

    def enter_else(self) -> bool:
        """Return True if the `else` block is to run."""
        if not self.forks:
            return not self._truth
        self._states.append(self._branch_end())
        self._now = self._states[0]
        return True

    def __enter__(self) -> None:
        if self.forks:
            guard = branch_mask(self._condition, self._outer, wanted=not self._guards)
            self._guards.append(guard)
            self._trace.branch = guard
            self._activation.open += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if not self.forks:
            return False
        self._activation.open -= 1
        self._ends.append(None if kind is AllRowsReturned else self._trace.branch)
        self._trace.branch = self._outer
        return kind is AllRowsReturned

    def join(self) -> None:
        """Continue after the branches with the rows that have not returned, and join the values of the targets."""
        self._states.append(self._branch_end())
        _, *states = self._states
        going = [number for number, end in enumerate(self._ends) if end is not None]
        self.left = not going
        if len(going) == 2:
            gone = [guard for guard, _ in self._activation.returned[self._returned :]]
            if gone:
                # A row continues if none of the returns in the two branches has taken it.
                self._trace.branch = select(gone, [*[False] * len(gone), True])
            self._now = list(map(self._joined, self._names, *states))
        elif going:  # the rest of the function belongs to one branch
            self._trace.branch = self._ends[going[0]]
            self._now = states[going[0]]

    def _joined(self, name: str, one: Any, other: Any) -> Any:
        """Return the value of a name after the branches. If they disagree, only a use of the name is an error."""
        if one is other:
            return one
        try:
            if one is _UNBOUND or other is _UNBOUND:
                if name in self._activation.lost:  # a branch has recorded the error
                    return _UNBOUND
                raise DefinitionError(
                    f"{name} is assigned in one branch of a condition only",
                    expected="a value in each branch, as rows may take either",
                    fix=f"assign {name} before the condition, or in both branches",
                    where=user_call_site(),
                )
            return merge_branches(self._guards[:1], [one, other], name)
        except PenstockError as error:
            self._activation.lost[name] = error
            return _UNBOUND

    def has(self, number: int) -> bool:
        """Return True if a name gets the value `self[number]`."""
        return self._now is not None and self._now[number] is not _UNBOUND

    def __getitem__(self, number: int) -> Any:
        assert self._now is not None  # has() said so
        return self._now[number]

    def stale(self, number: int) -> bool:
        """Return True if a name without a value still holds one from another branch."""
        return self._now is not None and _got(self._getters[number]) is not _UNBOUND

    def jump(self, what: str) -> None:
        """Check that `break` or `continue` does not depend on a node.

        Raises:
            DefinitionError: It does.
        """
        if self.forks:
            raise DefinitionError(
                f"{what} depends on a node, and the loop runs while the definition is traced, for all rows",
                given=self._condition,
                fix="an if statement around the rest of the loop's body",
                where=user_call_site(),
            )

    def _branch_end(self) -> list[Any]:
        """Return the values after a branch. Arrays and lists that it has changed in place are restored."""
        return list(map(detach_changes, self._states[0], self._contents, self._captured()))

    def _captured(self) -> list[Any]:
        return [_got(getter) for getter in self._getters]


def trace_branch(guard: NodeHandle | None, branch: Thunk) -> Any:
    """Call a function and record the operators that it calls for the rows that take the branch."""
    trace = current_trace()
    outer, trace.branch = trace.branch, guard
    try:
        return branch()
    finally:
        trace.branch = outer


def conjunction(*thunks: Thunk) -> Any:
    """Compute `and`: a thunk is called only for rows for which the thunks before it are true."""
    return _logical("and", thunks, wanted=True)


def disjunction(*thunks: Thunk) -> Any:
    """Compute `or`: a thunk is called only for rows for which the thunks before it are false."""
    return _logical("or", thunks, wanted=False)


def negation(value: Any) -> Any:
    """Compute `not`."""
    if not isinstance(value, DataNode):
        return not value
    _settle(_check_scalar, value)
    return branch_mask(value, None, wanted=False)


def if_expression(condition: Any, one: Thunk, other: Thunk) -> Any:
    """Compute `one if condition else other`."""
    if not isinstance(condition, DataNode):
        return one() if condition else other()
    _settle(_check_scalar, condition)
    outer = current_trace().branch
    guards = [branch_mask(condition, outer, wanted=wanted) for wanted in (True, False)]
    values = [trace_branch(guard, thunk) for guard, thunk in zip(guards, (one, other), strict=True)]
    return merge_branches(guards[:1], values, "the expression")


def comparison(left: Any, *links: tuple[Callable[[Any, Any], Any], Thunk]) -> Any:
    """Compute a chain such as `a < b < c`: an operand is computed once, and only while the chain holds."""
    (compare, thunk), *others = links
    right = thunk()
    result = compare(left, right)
    return result if not others else conjunction(lambda: result, lambda: comparison(right, *others))


def _logical(word: str, thunks: Sequence[Thunk], *, wanted: bool) -> Any:
    value = thunks[0]()
    for thunk in thunks[1:]:
        if not isinstance(value, DataNode):
            # As in Python, the result is the last value itself, not its truth.
            if bool(value) is not wanted:
                return value
            value = thunk()
            continue
        _settle(_check_logical, word, value)
        guard = branch_mask(value, current_trace().branch, wanted=wanted)
        other = trace_branch(guard, thunk)
        _settle(_check_logical, word, other)
        # For rows outside the guard the value decides alone: False ends `and`, True ends `or`.
        value = select([guard], [other, not wanted])
    return value


def _settle(check: Callable[..., None], *arguments: Any) -> None:
    """Check a condition. The check is recorded like a call, so that it can refuse the assumed kind of a fed input."""
    if (calls := journal.get()) is None:
        check(*arguments)
    else:
        calls.call(functools.partial(check, *arguments))


def _check_scalar(condition: DataNode) -> None:
    if condition.spec.shape or condition.dtype.kind not in "biuf":
        raise DefinitionError(
            "a condition is one number for each row",
            given=condition,
            expected="a scalar: a sample without axes",
            fix="index it, as in flags[0], or reduce it to one number",
            where=user_call_site(),
        )


def _check_logical(word: str, value: Any) -> None:
    if isinstance(value, DataNode):
        dtype, shape = value.dtype, value.spec.shape
    else:
        array = value.array() if isinstance(value, Constant) else np.asarray(value)
        dtype, shape = array.dtype, array.shape
    if dtype != np.bool_ or shape:
        raise DefinitionError(
            f"`{word}` combines truth values",
            given=short_repr(value),
            expected="a scalar of dtype bool on both sides",
            fix="compare it, as in x != 0",
            where=user_call_site(),
        )


def branch_mask(condition: DataNode, outer: NodeHandle | None, *, wanted: bool) -> DataNode:
    """Return a node that says which rows take a branch.

    Args:
        condition: A scalar node.
        outer: Guard around the branch; None without one, or if rows outside of it do not matter.
        wanted: Truth value of the condition for which rows take the branch.
    """
    return _branch(condition, *([] if outer is None else [outer]), wanted=wanted)


def _make_branch(*inputs: Any, wanted: bool) -> DataNode:
    return apply(BranchMask(wanted), *inputs)


_branch: OperatorFunction[..., DataNode] = OperatorFunction("conditional.branch", _make_branch)

# Not among the public operators. Serialized definitions call them by name.
BRANCH_CALLS: Mapping[str, OperatorFunction[..., DataNode]] = {call.name: call for call in (_branch, select_rows)}


def _got(getter: Thunk) -> Any:
    try:
        return getter()
    except _NOT_THERE:
        return _UNBOUND


def _missing(error: BaseException | None, names: Iterable[str]) -> str:
    """Return the name that an error says does not exist, if it is among `names`; otherwise an empty string."""
    # `NameError.name` is set for globals only; for locals the message is the only source.
    if isinstance(error, NameError):
        matches = re.search(r"'(\w+)'", str(error))
        text = matches[1] if matches else ""
        return text if text in names else ""
    if not isinstance(error, AttributeError | KeyError):
        return ""
    text = f".{error.name}" if isinstance(error, AttributeError) else f"[{error}]"
    return next((name for name in names if name.endswith(text)), "")
