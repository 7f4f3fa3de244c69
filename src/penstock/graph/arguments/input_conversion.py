"""What the public function of an operator is given: constants become what it takes, a list of nodes several calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeGuard, cast

from penstock.errors import DefinitionError
from penstock.graph.ir.node import NodeHandle
from penstock.types import Constant


def expand_input_lists(name: str, bound: inspect.BoundArguments) -> list[inspect.BoundArguments]:
    """The calls that one call stands for: a list of nodes in place of an input asks for one call per node.

    Inputs that are no such list are the same in all calls. An operator that takes lists of nodes is called once.

    Raises:
        DefinitionError: two lists differ in length.
    """
    lists = [given for value in _inputs(bound) for given in value if _is_set(given)]
    lengths = {len(given) for given in lists}
    if not lengths:
        return [bound]
    if len(lengths) > 1:
        raise DefinitionError(
            f"fn.{name}: lists of inputs are combined element by element",
            given=f"lists of {', '.join(map(str, sorted(lengths)))} nodes",
            fix="lists of one length, or single nodes, which are used with each element",
        )
    return [_one_of(bound, number) for number in range(lengths.pop())]


def convert_constants(bound: inspect.BoundArguments, constant: Callable[[Any], Any]) -> inspect.BoundArguments:
    """The arguments with constants in the form that the function takes.

    An input that must be a node becomes one, by `constant`; in any other place a `types.Constant` is the number, or
    the list of numbers, that it holds.
    """
    result = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        kinds = str(parameter.annotation)
        if parameter.kind is parameter.VAR_POSITIONAL:
            if _takes_nodes(kinds):
                result.arguments[name] = tuple([_node(each, constant) for each in value])
        elif parameter.kind is parameter.VAR_KEYWORD:
            result.arguments[name] = {option: _number(given) for option, given in value.items()}
        elif parameter.kind is parameter.KEYWORD_ONLY:
            result.arguments[name] = _number(value)
        elif "DataNode" in kinds:
            result.arguments[name] = _node(value, constant) if _takes_nodes(kinds) else _number(value)
    return result


def collect_results(results: list[Any]) -> Any:
    """What the calls returned, as one: a list with an entry per call; one such list per output of several."""
    if isinstance(results[0], list):
        return [list(outputs) for outputs in zip(*results, strict=True)]
    return results


def _takes_nodes(annotation: str) -> bool:
    return "DataNode" in annotation and "Any" not in annotation and not _takes_lists(annotation)


def _takes_lists(annotation: str) -> bool:
    return "[DataNode]" in annotation


def _node(given: Any, constant: Callable[[Any], Any]) -> Any:
    return given if given is None or isinstance(given, NodeHandle) else constant(given)


def _number(given: Any) -> Any:
    return given.array().tolist() if isinstance(given, Constant) else given


def _inputs(bound: inspect.BoundArguments) -> list[tuple[Any, ...]]:
    """What is given by position, or could be: per parameter, the one value or all of them."""
    found: list[tuple[Any, ...]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if _takes_lists(str(bound.signature.parameters[name].annotation)):
            continue
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found.append(value)
        elif kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY):
            found.append((value,))
    return found


def _is_set(given: Any) -> TypeGuard[list[Any]]:
    return isinstance(given, list) and any(isinstance(each, NodeHandle | Constant) for each in cast(list[Any], given))


def _one_of(bound: inspect.BoundArguments, number: int) -> inspect.BoundArguments:
    """Return the arguments with element `number` of each list of inputs."""

    def pick(given: Any) -> Any:
        return given[number] if _is_set(given) else given

    result = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            result.arguments[name] = tuple(map(pick, value))
        elif kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            result.arguments[name] = pick(value)
    return result
