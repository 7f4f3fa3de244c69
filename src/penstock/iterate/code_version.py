"""Digest of the code of the user's functions in a definition."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType
from typing import Any, cast

from penstock.graph import Graph, parameters

# Levels of wrappers to follow, such as `functools.partial` and `jax.jit`.
_MAX_DEPTH = 8


def code_digest(graph: Graph) -> str:
    """Return a digest of the byte code of all functions that the user passed to operators.

    The fingerprint of a definition does not include it, because a training may resume with a repaired function. The
    processes of one job must run the same code. Closures may differ, for example in a process number.
    """
    digest = hashlib.sha256()
    for node in graph.nodes:
        for code in _codes([*parameters(node.operator).values(), *node.arguments.values()], _MAX_DEPTH):
            digest.update(code_text(code).encode())
    return digest.hexdigest()[:16]


def _codes(thing: Any, depth: int) -> Iterator[CodeType]:
    """Yield the code of the functions in an argument of an operator."""
    if depth == 0 or isinstance(thing, str | bytes | int | float | type):
        return
    inner: list[Any] = []
    if isinstance(thing, tuple | list):
        inner = cast(list[Any], thing)
    elif isinstance(thing, Mapping):
        inner = [*cast(Mapping[Any, Any], thing).values()]
    elif is_dataclass(thing):
        inner = [getattr(thing, field.name) for field in fields(thing) if field.compare]
    elif callable(thing):
        plain = getattr(thing, "__wrapped__", getattr(thing, "func", thing))
        code = getattr(plain, "__code__", None)
        if isinstance(code, CodeType):
            yield code
        else:
            inner = [getattr(plain, "__func__", type(plain).__call__) if plain is thing else plain]
    for item in inner:
        yield from _codes(item, depth - 1)


def code_text(code: CodeType) -> str:
    """Return the code as text, without its file, lines and addresses."""
    # The repr of a code object contains its address, which differs between processes.
    constants = [code_text(item) if isinstance(item, CodeType) else _constant(item) for item in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}"


def _constant(value: Any) -> str:
    # The order of a set of strings differs between processes, because Python salts their hashes.
    return str(sorted(map(repr, cast(frozenset[Any], value)))) if isinstance(value, frozenset) else repr(value)
