"""User callbacks: functions and data sets of the user, whose code is not part of the definition that is traced."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_variables: list[ContextVar[Any]] = []


def tracing_variable(name: str) -> ContextVar[Any]:
    """Return a new context variable for the state of tracing. It is None by default, and in user callbacks."""
    variable: ContextVar[Any] = ContextVar(name, default=None)
    _variables.append(variable)
    return variable


def call_user(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function of the user.

    While a definition is traced, some functions are called for their first sample. Operators that they call compute on
    data, as they do for all later samples, so they must not be recorded in the definition.
    """
    # Not a new context: the variables of other libraries and of the user keep their values.
    tokens = [(variable, variable.set(None)) for variable in _variables if variable.get() is not None]
    try:
        return function(*args, **kwargs)
    finally:
        for variable, token in tokens:
            variable.reset(token)
