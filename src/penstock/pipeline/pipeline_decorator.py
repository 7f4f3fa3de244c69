"""`pipeline_def`: a function that builds a graph becomes one that makes pipelines."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.core.call_site import user_call_site, with_call_site
from penstock.errors import ArgumentTypeError, nearest_names, short_repr
from penstock.graph.arguments.argument_checks import bind_arguments, check_annotations
from penstock.graph.conditionals import definition_with_conditionals
from penstock.graph.conditionals import do_not_convert as do_not_convert
from penstock.pipeline.pipeline import Pipeline, option_names

_log = logging.getLogger("penstock")


@check_annotations
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
        enable_conditionals: whether `if`, `and`, `or` and `not` work on nodes, in the definition and in the user's
            functions that it calls.
        debug: whether the definition runs for each batch, and operators compute as they are called, so that their
            results can be looked at: `print` a node, or `node.get()`.
        **pipeline_arguments: arguments of `Pipeline`; those given when the pipeline is made stand instead, and so do
            `enable_conditionals` and `debug`.

    Returns:
        A function that takes the definition's arguments and `Pipeline`'s, told apart by name, and returns the pipeline.

    Raises:
        DefinitionError: the source of a definition with conditionals cannot be read.

    Example:
        >>> from penstock import fn, pipeline_def
        >>> @pipeline_def(batch_size=2)
        ... def numbers(first):
        ...     return fn.readers.arrays([first, first + 1])
        >>> numbers(first=5).run()[0].as_array().tolist()
        [5, 6]
    """
    defaults = {"enable_conditionals": enable_conditionals, "debug": debug, **pipeline_arguments}
    if fn is None:
        return functools.partial(pipeline_def, **defaults)
    definition = fn

    @with_call_site
    @functools.wraps(definition)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        traced, ours, theirs = split_arguments(definition, defaults, kwargs, option_names())
        return trace(traced, args, ours, Pipeline(**theirs))

    make.definition = definition  # type: ignore[attr-defined]  # `data_iterator` takes such functions, too
    make.defaults = defaults  # type: ignore[attr-defined]  # likewise
    return make


def split_arguments(
    definition: Callable[..., Any], defaults: Mapping[str, Any], arguments: Mapping[str, Any], options: Iterable[str]
) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
    """The function to trace, its arguments by name, and the remainder, which are the pipeline's.

    Args:
        definition: the user's function.
        defaults: what its decorator was given: the pipeline's, also where the definition has an argument of that name.
        arguments: what was given by name when it was called: the definition's, where it has an argument of that name.
        options: the names of the pipeline's arguments.

    Raises:
        ArgumentTypeError: a name that neither has; or the definition takes any name, so they cannot be told apart.
        DefinitionError: conditionals are asked for, and the source of the definition cannot be read.
    """
    try:
        parameters = inspect.signature(definition).parameters
    except ValueError:  # a class or function of C's that does not tell
        raise ArgumentTypeError("a definition is a function", given=short_repr(definition)) from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise ArgumentTypeError(
            f"{definition.__name__} takes **{list(parameters)[-1]}: its arguments cannot be told from the pipeline's",
            fix="name the arguments",
        )
    own = {*options, "enable_conditionals"}
    always = {name: value for name, value in defaults.items() if name in own or name not in parameters}
    given = {**{name: value for name, value in defaults.items() if name not in always}, **arguments}
    ours = {name: value for name, value in given.items() if name in parameters}
    theirs = {**always, **{name: value for name, value in given.items() if name not in parameters}}
    for name in sorted(own & ours.keys()):
        _log.warning("%s takes %s itself, so it is not the pipeline's argument of that name", definition.__name__, name)
    if theirs.pop("enable_conditionals", False):
        definition = definition_with_conditionals(definition)
    for name in theirs:
        if name not in options:
            raise ArgumentTypeError(
                f"neither {definition.__name__} nor its pipeline has an argument {name!r}",
                given=name,
                expected=f"an argument of {definition.__name__}: {', '.join(parameters) or 'there are none'};\n"
                f"            or of the pipeline: {', '.join(sorted(options))}",
                fix=nearest_names(name, {*parameters, *options}),
                where=user_call_site(),
            )
    return definition, ours, theirs


def trace(
    definition: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], pipeline: Pipeline
) -> Pipeline:
    """Run a definition once and make what it returns the outputs of the pipeline; in debug mode, for each batch.

    Raises:
        ArgumentTypeError: it does not take these arguments.
    """
    pipeline.name = definition.__name__
    bind_arguments(inspect.signature(definition), args, kwargs, definition.__name__)
    if pipeline.debug:
        define: Any = functools.partial(definition, *args, **kwargs)
        pipeline.define_graph = define  # in place of the method
        return pipeline
    pipeline.define_early(functools.partial(definition, *args, **kwargs))
    return pipeline
