"""Conversion of functions, so that their conditions work on nodes. Each function is rewritten once."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import inspect
import linecache
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any, TypeVar, cast

from penstock.core.call_site import user_call_site
from penstock.core.tracebacks import PACKAGE
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.conditionals import control_flow
from penstock.graph.conditionals.ast_rewrite import HOOKS, Function, rewrite
from penstock.graph.tracing.node_mistakes import converted_code

F = TypeVar("F", bound=Callable[..., Any])

_STDLIB = str(Path(sysconfig.get_path("stdlib")).resolve())
_LIBRARIES = ("numpy", "jax", "jaxlib")
_AS_WRITTEN = "_penstock_as_written"
# Rewritten code by file and code; None if the source cannot be read.
_codes: dict[tuple[str, CodeType], CodeType | None] = {}


def do_not_convert(function: F) -> F:
    """Mark a function to be run as it is written, also if a definition with conditionals calls it.

    Args:
        function: Function of Python values, or one that calls operators without conditions on their results.

    Returns:
        The function.

    Example:
        >>> @do_not_convert
        ... def scaled(images, factor):
        ...     return images * (factor or 1.0)
    """
    if not callable(function):
        raise ArgumentTypeError("do_not_convert marks a function", given=short_repr(function), where=user_call_site())
    with contextlib.suppress(AttributeError, TypeError):  # a function implemented in C has no source to convert
        setattr(function, _AS_WRITTEN, True)
    return function


def definition_with_conditionals(definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a definition in which conditions on nodes work.

    Raises:
        DefinitionError: Its source cannot be read.
    """
    result = convert_function(definition)
    function = inspect.unwrap(definition)
    if isinstance(function, FunctionType) and _codes.get(_key(function.__code__), function.__code__) is None:
        raise DefinitionError(
            f"the source of {function.__name__} cannot be read, and conditionals need it",
            given=f"file {function.__code__.co_filename!r}",
            fix="define it in a file, or without enable_conditionals",
            where=user_call_site(),
        )
    return result


def has_conditionals(definition: Callable[..., Any]) -> bool:
    """Return True for the result of `definition_with_conditionals`."""
    function: Any = definition
    while isinstance(function, functools.partial):
        function = cast(functools.partial[Any], function).func
    return _AS_WRITTEN in getattr(getattr(function, "__func__", function), "__dict__", {})


def convert_function(function: Any) -> Any:
    """Return a user's function, rewritten for a definition with conditionals that calls it.

    Other callables are returned unchanged: classes, operators, generators, functions of the standard library, NumPy and
    JAX, functions without a source, and those marked by `do_not_convert`.
    """
    match function:
        case FunctionType():
            return _converted(function)
        case _ if function is map:
            return _converted_map
        case MethodType():
            result = convert_function(function.__func__)
            return function if result is function.__func__ else MethodType(result, function.__self__)
        case functools.partial():
            value = cast(functools.partial[Any], function)
            result = convert_function(value.func)
            return value if result is value.func else functools.partial(result, *value.args, **value.keywords)
        case _:
            call = getattr(cast(Any, type(function)), "__call__", None)  # noqa: B004  # the method itself is wanted
            if isinstance(function, type) or not isinstance(call, FunctionType):
                return cast(Any, function)
            result = _converted(call)
            return function if result is call else MethodType(result, function)


def _converted_map(function: Any, *iterables: Any) -> Any:
    return map(convert_function(function), *iterables)


def _converted(function: FunctionType) -> FunctionType:
    code = function.__code__
    if _AS_WRITTEN in function.__dict__ or code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        return function
    if _is_library(function):
        return function
    key = _key(code)
    if key not in _codes:
        _codes[key] = _rewritten(function)
    new = _codes[key]
    if new is None or new is code:
        return function
    converted_code.add(new)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    # By name: the rewritten code may have its free variables in another order.
    closure = tuple(cells[name] for name in new.co_freevars)
    result: Any = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, closure)
    functools.update_wrapper(result, function)
    # `update_wrapper` sets it, and `inspect.unwrap` would lead back to the code that was not rewritten.
    del result.__wrapped__
    result.__kwdefaults__ = function.__kwdefaults__
    # A rewritten function that is called again must not be rewritten twice.
    result.__dict__[_AS_WRITTEN] = True
    return result


def _key(code: CodeType) -> tuple[str, CodeType]:
    # Code objects of two files may compare equal, because the comparison ignores the file.
    return code.co_filename, code


def _is_library(function: FunctionType) -> bool:
    file = function.__code__.co_filename
    root = str(function.__globals__.get("__name__", "")).partition(".")[0]
    standard = file.startswith(_STDLIB) and "site-packages" not in file
    return standard or file.startswith(PACKAGE) or root in _LIBRARIES


def _rewritten(function: FunctionType) -> CodeType | None:
    """Return the rewritten code of a function; None if its source cannot be read."""
    code = function.__code__
    definition = _find(code, "".join(linecache.getlines(code.co_filename, function.__globals__)))
    if definition is None:
        return None
    statement, target = definition
    rewrite(target)
    # With the user's postponed evaluation of annotations if the file has it, and never with that of this module.
    flags = code.co_flags & annotations.compiler_flag
    module: Any = ast.Module([statement], [])
    compiled = compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)
    result = next((item for item in _codes_in(compiled) if _same_place(item, code, target)), None)
    if result is None:
        return code if isinstance(target, ast.Lambda) else None
    if not set(result.co_freevars) <= set(code.co_freevars):  # the file has changed since it was loaded
        return None
    return _with_hooks(result)


def _find(code: CodeType, text: str) -> tuple[ast.stmt, Function] | None:
    """Return a copy of the module's statement that defines a function, and the function in it."""
    try:
        module = _parsed(text)
    except (SyntaxError, ValueError):
        return None
    for statement in module.body:
        first = min(statement.lineno, _first_line(statement))
        if first <= code.co_firstlineno <= (statement.end_lineno or 0):
            # `_parsed` caches the module for other functions of the file.
            copied = copy.deepcopy(statement)
            matches = [node for node in ast.walk(copied) if _defines(node, code)]
            # Two functions at one place, such as equal lambdas on a line, cannot be told apart.
            return (copied, cast(Function, matches[0])) if len(matches) == 1 else None
    return None


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _first_line(node: ast.AST) -> int:
    """Return the first line of a definition, which for Python is that of its first decorator."""
    decorators = getattr(node, "decorator_list", [])
    return decorators[0].lineno if decorators else getattr(node, "lineno", 0)


def _defines(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef):
        return node.name == code.co_name and _first_line(node) == code.co_firstlineno
    if not isinstance(node, ast.Lambda) or code.co_name != "<lambda>" or node.lineno != code.co_firstlineno:
        return False
    body = node.body
    places = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    begin, end = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    return bool(places) and all(begin <= place < end for place in places[-1:])


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects in another one, outer ones first."""
    inner = [item for item in code.co_consts if isinstance(item, CodeType)]
    yield from inner
    for item in inner:
        yield from _codes_in(item)


def _same_place(result: CodeType, code: CodeType, target: Function) -> bool:
    if (result.co_qualname, result.co_firstlineno) != (code.co_qualname, code.co_firstlineno):
        return False
    return isinstance(target, ast.FunctionDef) or any(HOOKS in item.co_consts for item in (result, *_codes_in(result)))


class RewriteHooks:
    """Helpers that replace the placeholder constant in rewritten code."""

    Activation = control_flow.RewrittenCall
    conjunction = staticmethod(control_flow.conjunction)
    disjunction = staticmethod(control_flow.disjunction)
    negation = staticmethod(control_flow.negation)
    if_expression = staticmethod(control_flow.if_expression)
    comparison = staticmethod(control_flow.comparison)
    converted = staticmethod(convert_function)


def _with_hooks(code: CodeType) -> CodeType:
    def put(constant: Any) -> Any:
        if isinstance(constant, CodeType):
            return _with_hooks(constant)
        return RewriteHooks if isinstance(constant, str) and constant == HOOKS else constant

    return code.replace(co_consts=tuple(map(put, code.co_consts)))
