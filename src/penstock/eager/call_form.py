"""Form of an operator's calls: which arguments may be data."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from penstock.graph import OperatorFunction
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.input_conversion import names_nodes
from penstock.graph.arguments.input_requirements import Input

# Operators whose operands are annotated with `Any`: they take every kind of number.
_ARITHMETIC = ("arithmetic.", "math.")

# Operators that make data. Their arguments only look like data: the arrays of fn.readers.arrays are a data set.
_SOURCES = ("readers.", "inputs.")


@dataclass(frozen=True)
class CallForm:
    """Facts about an operator that its signature tells.

    Args:
        positional: Names of the parameters that take inputs by position or name.
        hints: Annotations of all arguments.
        node_arguments: Names of the arguments that may differ between samples.
        takes_data: True if arguments may be data; False for readers, constants, and makers of functions.
        path_inputs: Names of the parameters of inputs that are paths of files.
        own_layout: True if the operator has an argument `layout` itself.
        own_seed: True if the operator has an argument `seed` itself, so that it draws random numbers.
    """

    positional: tuple[str, ...]
    hints: Mapping[str, Any]
    node_arguments: frozenset[str]
    takes_data: bool
    path_inputs: frozenset[str]
    own_layout: bool
    own_seed: bool


# Bounded, because `fn.jax_function` makes an operator per use.
@lru_cache(maxsize=1024)
def call_form(operator: OperatorFunction[..., Any]) -> CallForm:
    """Return the form of an operator's calls."""
    hints = type_hints(operator.function)
    inputs = [
        parameter
        for parameter in inspect.signature(operator.function).parameters.values()
        if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)
    ]
    nodes = frozenset(name for name, hint in hints.items() if names_nodes(hint) and name != "return")
    return CallForm(
        positional=tuple(parameter.name for parameter in inputs if parameter.kind is not parameter.VAR_POSITIONAL),
        hints=hints,
        node_arguments=nodes,
        takes_data=operator.name.startswith(_ARITHMETIC) or (bool(nodes) and not operator.name.startswith(_SOURCES)),
        path_inputs=frozenset(name for name, hint in hints.items() if _is_path(hint)),
        own_layout="layout" in hints,
        own_seed="seed" in hints,
    )


def _is_path(hint: Any) -> bool:
    return any(isinstance(mark, Input) and mark.paths for mark in getattr(hint, "__metadata__", ()))
