"""Conversion of inputs of an operator: constants become nodes, a list of nodes becomes one call per node."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import chain
from typing import Any, TypeGuard, Union, cast

from penstock.errors import ArgumentTypeError, DefinitionError, PenstockError
from penstock.graph.arguments.argument_groups import plain_type
from penstock.graph.ir.node import NodeHandle
from penstock.types import Constant


def expand_input_lists(bound: inspect.BoundArguments, hints: Mapping[str, Any]) -> list[inspect.BoundArguments]:
    """Return the calls for which one call stands: one per node of the lists among its inputs.

    All calls share the inputs that are not lists. An operator that takes lists of nodes is called once.

    Args:
        bound: Arguments of the call.
        hints: Annotations of the function.

    Raises:
        DefinitionError: Two lists differ in length.
    """
    lists = [item for value in _inputs(bound, hints) for item in value if _is_node_list(item)]
    lengths = {len(item) for item in lists}
    if not lengths:
        return [bound]
    if len(lengths) > 1:
        raise DefinitionError(
            "lists of inputs are combined element by element",
            given=f"lists of {', '.join(map(str, sorted(lengths)))} nodes",
            fix="lists of one length, or single nodes, which are used with each element",
        )
    return [_one_of(bound, number) for number in range(lengths.pop())]


def convert_constants(
    bound: inspect.BoundArguments, hints: Mapping[str, Any], constant: Callable[[Any], Any]
) -> inspect.BoundArguments:
    """Return the arguments with constants in the form that the function takes.

    Args:
        bound: Arguments of the call.
        hints: Annotations of the function.
        constant: Makes nodes of inputs that must be nodes. Elsewhere a `types.Constant` becomes its number or list.
    """
    result = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        hint = hints.get(name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            if _takes_nodes(hint):
                result.arguments[name] = tuple([_node(name, item, constant) for item in value])
        elif parameter.kind is parameter.VAR_KEYWORD:
            result.arguments[name] = {option: _number(item) for option, item in value.items()}
        elif parameter.kind is parameter.KEYWORD_ONLY:
            result.arguments[name] = _number(value)
        elif names_nodes(hint):
            result.arguments[name] = _node(name, value, constant) if _takes_nodes(hint) else _number(value)
    return result


def collect_results(results: list[Any]) -> Any:
    """Return the results of the calls as one: a list with an item per call, or one such list per output."""
    if isinstance(results[0], list):
        return [list(outputs) for outputs in zip(*results, strict=True)]
    return results


def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the members of an annotation that is a union, without marks."""
    hint = plain_type(hint)
    return typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else (hint,)


def names_nodes(hint: Any) -> bool:
    """Return True if an annotation names nodes, so that the argument may differ between samples."""
    return any(map(_is_node_type, _alternatives(hint)))


def _is_node_type(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, NodeHandle)


def _takes_nodes(hint: Any) -> bool:
    """Return True if a parameter takes nodes only, so that constants become nodes."""
    alternatives = _alternatives(hint)
    return any(map(_is_node_type, alternatives)) and Any not in alternatives and not _takes_lists(hint)


def _takes_lists(hint: Any) -> bool:
    return any(map(_is_node_type, chain.from_iterable(map(typing.get_args, _alternatives(hint)))))


def _node(name: str, value: Any, constant: Callable[[Any], Any]) -> Any:
    if value is None or isinstance(value, NodeHandle):
        return value
    if isinstance(value, Enum):
        raise ArgumentTypeError(f"{name} is data, not an option", given=repr(value), expected="a node or numbers")
    try:
        return constant(value)
    except PenstockError as error:
        error.args = (f"{name}: {error.args[0]}",)
        raise


def _number(value: Any) -> Any:
    return value.array().tolist() if isinstance(value, Constant) else value


def _inputs(bound: inspect.BoundArguments, hints: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the values of parameters that may be positional; for ``*inputs`` all of them."""
    values: list[tuple[Any, ...]] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if _takes_lists(hints.get(name)):
            continue
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values.append(value)
        elif kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY):
            values.append((value,))
    return values


def _is_node_list(value: Any) -> TypeGuard[list[Any]]:
    # A list of numbers alone is a constant with an axis, so at least one item must be a node or a `types.Constant`.
    return isinstance(value, list) and any(isinstance(item, NodeHandle | Constant) for item in cast(list[Any], value))


def _one_of(bound: inspect.BoundArguments, number: int) -> inspect.BoundArguments:
    """Return the arguments with element `number` of each list of inputs."""

    def pick(item: Any) -> Any:
        return item[number] if _is_node_list(item) else item

    result = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            result.arguments[name] = tuple(map(pick, value))
        elif kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
            result.arguments[name] = pick(value)
    return result
