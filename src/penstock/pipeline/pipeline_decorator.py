"""`pipeline_def`: decorator that turns a definition into a function that makes pipelines."""

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter
from types import MappingProxyType, MethodType
from typing import Any, ParamSpec, Protocol, Unpack, cast, get_type_hints, overload

from penstock.core import user_call_site, with_call_site
from penstock.errors import ArgumentTypeError, about, nearest_names, short_repr
from penstock.graph.arguments.argument_checks import bind_arguments, check_annotations
from penstock.graph.conditionals import definition_with_conditionals, has_conditionals
from penstock.graph.conditionals import do_not_convert as do_not_convert
from penstock.pipeline.dali_methods import HINTS
from penstock.pipeline.definition_call import DefinitionCall
from penstock.pipeline.pipeline import Pipeline
from penstock.pipeline.pipeline_options import OPTION_NAMES, PipelineOptions

P = ParamSpec("P")
_log = logging.getLogger("penstock")


class PipelineFunction(Protocol[P]):
    """A function decorated with `pipeline_def`. Takes the definition's arguments, and options of `Pipeline` by name.

    Python's types cannot add keyword parameters to those of another function. The overloads therefore check a call with
    the definition's arguments alone, and a call with options alone; a call with both needs one of the options below.
    """

    definition: Callable[..., Any]
    defaults: Mapping[str, Any]
    __name__: str

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Pipeline: ...
    @overload
    def __call__(self, **options: Unpack[PipelineOptions]) -> Pipeline: ...
    @overload
    def __call__(self, *args: Any, batch_size: int, **arguments: Any) -> Pipeline: ...
    @overload
    def __call__(self, *args: Any, num_threads: int, **arguments: Any) -> Pipeline: ...
    @overload
    def __call__(self, *args: Any, device_id: int | None, **arguments: Any) -> Pipeline: ...
    @overload
    def __call__(self, *args: Any, seed: int | None, **arguments: Any) -> Pipeline: ...


class PipelineDecorator(Protocol):
    """Result of `pipeline_def(...)`."""

    def __call__(self, fn: Callable[P, Any], /) -> PipelineFunction[P]:
        """Decorate a definition."""
        ...


@overload
def pipeline_def(
    fn: Callable[P, Any], *, enable_conditionals: bool = False, **options: Unpack[PipelineOptions]
) -> PipelineFunction[P]: ...
@overload
def pipeline_def(
    fn: None = None, *, enable_conditionals: bool = False, **options: Unpack[PipelineOptions]
) -> PipelineDecorator: ...
@check_annotations
def pipeline_def(
    fn: Callable[..., Any] | None = None,
    *,
    enable_conditionals: bool = False,
    debug: bool = False,
    **options: Any,
) -> Any:
    """Turn a function that builds a graph into a function that makes a `Pipeline`.

    Args:
        fn: The definition: it calls operators and returns a node, a tuple of nodes, or a dict of nodes, in whose order
            `run` returns them.
        enable_conditionals: If True, `if`, `and`, `or` and `not` work on nodes, in the definition and in your functions
            that it calls.
        debug: If True, the definition runs for each batch and operators compute when they are called, so that you can
            look at results: `print` a node, or call `node.get()`.
        **options: Arguments of `Pipeline`. Arguments of a call to the decorated function override them, and override
            `enable_conditionals` and `debug`.

    Returns:
        A function that takes the definition's arguments and, by name, those of `Pipeline`, and returns the pipeline.

    Raises:
        DefinitionError: The source of a definition with conditionals cannot be read.

    Example:
        >>> from penstock import fn, pipeline_def
        >>> @pipeline_def(batch_size=2)
        ... def numbers(first):
        ...     return fn.readers.arrays([first, first + 1])
        >>> numbers(first=5).run()[0].as_array().tolist()
        [5, 6]
    """
    defaults = {"enable_conditionals": enable_conditionals, "debug": debug, **options}
    if fn is None:
        return functools.partial(cast(Any, pipeline_def), **defaults)
    definition = fn

    @with_call_site
    @functools.wraps(definition)
    def make(*args: Any, **kwargs: Any) -> Pipeline:
        function, arguments, options = split_arguments(definition, defaults, kwargs, OPTION_NAMES)
        return trace(function, args, arguments, Pipeline(**options))

    make.__name__ = definition_name(definition)
    # `data_iterator` also accepts decorated functions, and then needs what they were made of.
    vars(make).update(definition=definition, defaults=defaults)
    return make


def definition_name(definition: Callable[..., Any]) -> str:
    """Return the name of a definition: that of the function in a partial application, or of an object's class."""
    while isinstance(definition, functools.partial):
        definition = cast(functools.partial[Any], definition).func
    if isinstance(definition, MethodType) and definition.__name__ == "__call__":  # an object with conditionals
        return type(definition.__self__).__name__
    return str(getattr(definition, "__name__", type(definition).__name__))


def _show_options(function: Any) -> None:
    """Replace ``**options`` in a function's signature by the options of `Pipeline`, for help() and editors."""
    signature = inspect.signature(function)
    parameters = {name: p for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
    declared = inspect.signature(Pipeline).parameters
    for name, annotation in get_type_hints(PipelineOptions).items():
        default = declared[name].default if name in declared else HINTS[name]
        parameters.setdefault(name, Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    function.__signature__ = signature.replace(parameters=[*parameters.values()])


_show_options(pipeline_def)


def split_arguments(
    definition: Callable[..., Any],
    defaults: Mapping[str, Any],
    arguments: Mapping[str, Any],
    options: Iterable[str],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]:
    """Divide the arguments of a call between the definition and the pipeline.

    Args:
        definition: The user's function.
        defaults: Arguments of the decorator. Options among them always belong to the pipeline.
        arguments: Arguments of the call by name. They belong to the definition if it has a parameter of that name.
        options: Names of the pipeline's arguments.
        elsewhere: Names of arguments that belong to the decorator, with a fix for a call that passes them.

    Returns:
        The function to trace, its arguments by name, and the arguments of the pipeline.

    Raises:
        ArgumentTypeError: Neither has an argument of some name, or the definition takes arguments of any name.
        DefinitionError: Conditionals are enabled, and the source of the definition cannot be read.
    """
    try:
        parameters = inspect.signature(definition).parameters
    except ValueError:  # a class or function implemented in C without a signature
        raise ArgumentTypeError("a definition is a function", given=short_repr(definition)) from None
    called = definition_name(definition)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise ArgumentTypeError(
            f"{called} takes **{list(parameters)[-1]}: its arguments cannot be told from the pipeline's",
            fix="name the arguments",
        )
    reserved = {*options, "enable_conditionals"}
    fixed = {name: value for name, value in defaults.items() if name in reserved or name not in parameters}
    by_name = {**{name: value for name, value in defaults.items() if name not in fixed}, **arguments}
    own = {name: value for name, value in by_name.items() if name in parameters}
    others = {**fixed, **{name: value for name, value in by_name.items() if name not in parameters}}
    for name in sorted(reserved & own.keys()):
        _log.warning("%s takes %s itself, so it is not the pipeline's argument of that name", called, name)
    if others.pop("enable_conditionals", False):
        definition = definition_with_conditionals(definition)
    for name in others:
        if name in elsewhere:
            raise ArgumentTypeError(
                f"{name} is an option of the decorator, not of a call of {called}", fix=elsewhere[name]
            )
        if name not in options:
            raise ArgumentTypeError(
                f"neither {called} nor its pipeline has an argument {name!r}",
                given=name,
                expected=f"an argument of {called}: {', '.join(parameters) or 'there are none'};\n"
                f"            or of the pipeline: {', '.join(sorted(options))}",
                fix=nearest_names(name, {*parameters, *options}),
                where=user_call_site(),
            )
    return definition, own, others


def trace(
    definition: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], pipeline: Pipeline
) -> Pipeline:
    """Run a definition once and make what it returns the outputs of the pipeline. In debug mode, only store it.

    Raises:
        ArgumentTypeError: The definition does not take these arguments.
    """
    pipeline.name = definition_name(definition)
    if pipeline.input_hosts:
        pipeline.call = DefinitionCall(pipeline.name, tuple(args), kwargs, has_conditionals(definition))
    # Before the call: a TypeError for wrong arguments could not be told from one that the definition's code raises.
    with about(pipeline.name):
        bind_arguments(inspect.signature(definition), args, kwargs)
    define = functools.partial(definition, *args, **kwargs)
    if pipeline.debug:
        vars(pipeline)["define_graph"] = define  # an attribute hides the method
    else:
        pipeline.define_early(define)
    return pipeline
