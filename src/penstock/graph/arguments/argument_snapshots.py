"""Copies of the lists and arrays that operators are called with, which users may change after the call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from penstock.core.constant import snapshot
from penstock.core.weak_cache import weak_cache
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_marks import LEFT_OUT, marks_of


def snapshot_arguments(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments of a call with copies of lists and arrays.

    Data sets stay as they are, because sources read them when the pipeline runs.
    """
    positional, kept = _parameters(function)
    named = zip(args, chain(positional, repeat("")), strict=False)
    copied = [item if name in kept else snapshot(item) for item, name in named]
    return copied, {name: item if name in kept else snapshot(item) for name, item in kwargs.items()}


@weak_cache
def _parameters(function: Callable[..., Any]) -> tuple[Sequence[str], frozenset[str]]:
    """Return the names of positional parameters, and those of arguments that locate data or are hints."""
    parameters = inspect.signature(function).parameters.values()
    positional = [parameter.name for parameter in parameters if parameter.kind != parameter.KEYWORD_ONLY]
    return positional, frozenset(name for name, hint in type_hints(function).items() if LEFT_OUT in marks_of(hint))
