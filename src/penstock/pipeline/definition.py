"""`pipeline_def`: a function that builds a graph becomes one that makes pipelines."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.errors import ArgumentTypeError, DefinitionError, nearest
from penstock.graph.where import user_line
from penstock.pipeline.pipeline import Pipeline, option_names

Function = TypeVar("Function", bound=Callable[..., Any])


def pipeline_def(
    fn: Callable[..., Any] | None = None,
    *,
    enable_conditionals: bool = False,
    debug: bool = False,
    **pipeline_arguments: Any,
) -> Any:
    """Turn a function that builds a graph into one that makes a `Pipeline`.

    Args:
        fn: the definition: it calls operators and returns a node or a tuple of nodes.
        enable_conditionals: not offered; `if` on a node is an error.
        debug: a hint.
        **pipeline_arguments: arguments of `Pipeline`; those given when the pipeline is made stand instead, and so do
            `enable_conditionals` and `debug`.

    Returns:
        A function that takes the definition's arguments and `Pipeline`'s, told apart by name, and returns the pipeline.

    Raises:
        DefinitionError: `enable_conditionals` is set.

    Example:
        >>> from penstock import fn, pipeline_def
        >>> @pipeline_def(batch_size=2)
        ... def numbers(first):
        ...     return fn.readers.arrays([first, first + 1])
        >>> numbers(first=5).run()[0].as_array().tolist()
        [5, 6]
    """
    del debug
    _refuse_conditionals(enable_conditionals)
    if fn is None:
        return functools.partial(pipeline_def, **pipeline_arguments)
    definition = fn

    @functools.wraps(definition)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        ours, theirs = split_arguments(definition, {**pipeline_arguments, **kwargs}, option_names())
        return trace(definition, args, ours, Pipeline(**theirs))

    make.definition = definition  # type: ignore[attr-defined]  # `data_iterator` takes such functions, too
    make.defaults = pipeline_arguments  # type: ignore[attr-defined]  # likewise
    return make


def split_arguments(
    definition: Callable[..., Any], arguments: Mapping[str, Any], options: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the definition, by name, and the remainder, which are the pipeline's.

    Args:
        definition: the user's function.
        arguments: what was given by name.
        options: the names of the pipeline's arguments.

    Raises:
        ArgumentTypeError: a name that neither has; or the definition takes any name, so they cannot be told apart.
        DefinitionError: conditionals are asked for.
    """
    parameters = inspect.signature(definition).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise ArgumentTypeError(
            f"{definition.__name__} takes **{list(parameters)[-1]}: its arguments cannot be told from the pipeline's",
            fix="name the arguments",
        )
    ours = {name: value for name, value in arguments.items() if name in parameters}
    theirs = {name: value for name, value in arguments.items() if name not in parameters}
    theirs.pop("debug", None)
    _refuse_conditionals(theirs.pop("enable_conditionals", False))
    for name in theirs:
        if name not in options:
            raise ArgumentTypeError(
                f"neither {definition.__name__} nor its pipeline has an argument {name!r}",
                given=name,
                expected=f"an argument of {definition.__name__}: {', '.join(parameters) or 'there are none'};\n"
                f"            or of the pipeline: {', '.join(sorted(options))}",
                fix=nearest(name, {*parameters, *options}),
                where=user_line(),
            )
    return ours, theirs


def _refuse_conditionals(enabled: object) -> None:
    if enabled:
        raise DefinitionError(
            "conditionals are not offered",
            given=f"enable_conditionals={enabled!r}",
            fix="compute with the flag: a * flag + b * (1 - flag)",
            where=user_line(),
        )


def do_not_convert(func: Function) -> Function:
    """Mark a function as one in which `if` on a node has no meaning of its own.

    Args:
        func: the function.

    Returns:
        It.
    """
    return func


def trace(
    definition: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], pipeline: Pipeline
) -> Pipeline:
    """Run a definition once and make what it returns the outputs of the pipeline."""
    pipeline.name = definition.__name__
    with pipeline:
        outputs = definition(*args, **kwargs)
        pipeline.set_outputs(*(outputs if isinstance(outputs, tuple | list) else (outputs,)))
    return pipeline
