"""Groups of arguments that operators share: typed dictionaries whose items say type, limits and default.

The section ``Args:`` of a group's docstring says what they mean.

An operator takes a group as ``**arguments: Unpack[Group]``. Users see real parameters: `public_signature` and
`public_docstring` put the items of the group in their place, and add the arguments that every operator takes.
"""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, Required, TypeVar, Union, cast

import typing_extensions
from typing_extensions import TypedDict

from penstock.graph.arguments.argument_marks import Default, marks_of


class CommonArguments(TypedDict, total=False):
    """Arguments that every operator takes besides its own.

    Operators neither declare nor forward them: `OperatorFunction` takes them out of a call, and `apply` finds them.

    Args:
        name: Name of the node, unique in the pipeline. Messages and plans show it.
        device: Placement hint: "cpu", "gpu" or "mixed". By default that of the inputs; see `explain()`.
        seed: Seed of an operator that draws random numbers. Other operators ignore it, as in DALI.
        preserve: If True, the operator runs even if no output of the pipeline depends on it.
        bytes_per_sample_hint: DALI's memory hint; it has no effect.
    """

    name: str | None
    device: str | None
    seed: Annotated[int, Default(-1)]
    preserve: Annotated[bool, Default(False)]
    bytes_per_sample_hint: int | list[int] | None


Group = TypeVar("Group")


def select_arguments(group: type[Group], arguments: Mapping[str, Any]) -> Group:
    """Return the arguments that belong to a group."""
    return cast(Group, {name: arguments[name] for name in group_hints(group) if name in arguments})


def with_defaults(group: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a group, with defaults for those that were not given."""
    return {name: arguments.get(name, default_of(hint)) for name, hint in group_hints(group).items()}


def default_of(hint: Any) -> Any:
    """Return the default in the marks of an annotation, or None."""
    return next((mark.value for mark in marks_of(hint) if isinstance(mark, Default)), None)


@functools.cache
def group_hints(group: type) -> Mapping[str, Any]:
    """Return the annotation of each item of a group, with its marks."""
    return typing.get_type_hints(group, include_extras=True)


def argument_group(function: Callable[..., Any]) -> type | None:
    """Return the group that a function takes as ``**arguments: Unpack[...]``, or None."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            hint = parameter.annotation
            # Only this annotation is evaluated: others may name what the module defines further below.
            evaluated = (
                eval(hint, getattr(inspect.unwrap(function), "__globals__", {})) if isinstance(hint, str) else hint
            )
            return cast(type, typing.get_args(evaluated)[0]) if typing.get_args(evaluated) else None
    return None


def public_signature(function: Callable[..., Any], defaults: Mapping[str, Any]) -> inspect.Signature:
    """Return the signature of an operator as users see it: the parameters of groups and the common ones by name.

    Args:
        function: The operator's function.
        defaults: Defaults that differ from those of the groups.
    """
    hints, signature = typing.get_type_hints(function, include_extras=True), inspect.signature(function)
    parameters: dict[str, inspect.Parameter] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            parameters[name] = parameter.replace(annotation=plain_type(hints.get(name, Any)))
    for name, hint in _shared_arguments(function):
        if name not in parameters:
            # Without a declared default, None stands for "not given", as in DALI.
            default = default_of(hint)
            parameters[name] = inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, default),
                annotation=plain_type(hint if default is not None else hint | None),
            )
    result = plain_type(hints.get("return", inspect.Signature.empty))
    return inspect.Signature(list(parameters.values()), return_annotation=result)


def public_docstring(function: Callable[..., Any]) -> str | None:
    """Return the docstring of an operator with a line in ``Args:`` for each argument that `public_signature` adds."""
    if not function.__doc__:
        return function.__doc__
    lines = inspect.cleandoc(function.__doc__).splitlines()
    # An operator without arguments of its own still takes the common ones.
    if "Args:" not in lines:
        start = next((number for number, line in enumerate(lines) if line == "Returns:"), len(lines))
        lines[start:start] = ["Args:", ""]
    start, end = _arguments_section(lines)
    entries = _entries(lines[start:end])
    group = argument_group(function)
    # An operator may describe a shared argument itself, more precisely than the group.
    shared = {**(group_docs(group) if group else {}), **group_docs(CommonArguments)}
    entries |= {name: entry for name, entry in shared.items() if name not in entries}
    lines[start:end] = [line for name, entry in entries.items() if not name.startswith("**") for line in entry]
    return "\n".join(lines)


@functools.cache
def group_docs(group: type) -> Mapping[str, list[str]]:
    """Return the lines in ``Args:`` about each item of a group, from its docstring and those of its bases."""
    bases = [base for base in typing_extensions.get_original_bases(group) if typing_extensions.is_typeddict(base)]
    docs = {name: entry for base in bases for name, entry in group_docs(base).items()}
    lines = inspect.cleandoc(group.__doc__ or "").splitlines()
    return docs | _entries(lines[slice(*_arguments_section(lines))]) if "Args:" in lines else docs


def _arguments_section(lines: Sequence[str]) -> tuple[int, int]:
    """Return the first line and the end of the section ``Args:``."""
    start = lines.index("Args:") + 1
    return start, next((number for number in range(start, len(lines)) if not lines[number]), len(lines))


def _entries(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines about each argument. Google's style indents an entry by four spaces, its other lines by more."""
    entries: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if not line.startswith("     "):
            name = line.strip().partition(":")[0]
            entries[name] = []
        entries[name].append(line)
    return entries


def _shared_arguments(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a function's group, then those that every operator takes."""
    group = argument_group(function)
    yield from {**(group_hints(group) if group else {}), **group_hints(CommonArguments)}.items()


def plain_type(hint: Any) -> Any:
    """Return an annotation without marks, for readers.

    >>> plain_type(Annotated[int, Default(1)] | None)
    int | None
    """
    while typing.get_origin(hint) in (Annotated, Required, NotRequired):
        hint = typing.get_args(hint)[0]
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return functools.reduce(lambda left, right: left | right, map(plain_type, inside))
    if origin is None or origin is typing.Literal or not inside:
        return hint
    # The list of parameters of a Callable stays as it is.
    parts: Any = tuple(cast(Any, item) if isinstance(item, list) else plain_type(item) for item in inside)
    return hint.copy_with(parts) if hasattr(hint, "copy_with") else origin[parts]
