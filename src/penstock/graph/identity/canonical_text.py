"""Canonical text of operator arguments: equal for equal arguments, in every run of the program."""

import functools
import hashlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from penstock.graph.ir.node import CallResult, NodeHandle
from penstock.types import Constant, DALIDataType, NewAxis

Piece = str | CallResult

# Longer texts are cut, and a hash replaces the rest: `explain` and errors print them.
_LONG = 120

# Types whose canonical text is their `repr`.
_PLAIN = {int, float, bool, str}

# Broadcast arrays of more bytes are not expanded for hashing: `np.broadcast_to` can make them larger than memory.
_LARGE = 1 << 24


def canonical_text(thing: Any) -> tuple[Piece, ...]:
    """Return an argument as text, with the results of other calls in place.

    Functions count by their names, arrays by dtype, shape and content; lists and tuples are the same.

    >>> canonical_text([1, 2.5, "HWC"]), canonical_text(np.arange(3)), canonical_text(len)
    (("(1, 2.5, 'HWC')",), ('int64[3](0, 1, 2)',), ('len',))
    """
    pieces = list(_pieces(thing))
    if any(isinstance(piece, CallResult) for piece in pieces):
        return tuple(pieces)
    text = "".join(cast(list[str], pieces))
    return (text if len(text) <= _LONG else f"{text[:40]}...#{_digest(text.encode())}",)


def _pieces(thing: Any) -> Iterator[Piece]:
    """Yield the text of a value that may contain results of calls."""
    value: Any = thing
    match thing:
        case NodeHandle():
            yield thing.result
        case slice():
            limits = (value.start, value.stop, value.step)
            yield from _joined(":", [() if limit is None else _pieces(limit) for limit in limits])
        case Mapping():
            entries = sorted(value.items(), key=lambda entry: str(entry[0]))
            yield from ("{", *_joined(", ", ((f"{name}: ", *_pieces(item)) for name, item in entries)), "}")
        case set() | frozenset():
            yield "{" + ", ".join(sorted("".join(map(str, _pieces(item))) for item in value)) + "}"
        case tuple() | list() if set(map(type, value)) <= _PLAIN:
            yield f"({', '.join(map(repr, value))})"
        case tuple() | list():
            # Long lists often repeat few objects, such as a constant per sample: convert each object once.
            distinct = {id(item): item for item in value}
            pieces = {number: tuple(_pieces(item)) for number, item in distinct.items()}
            if any(isinstance(piece, CallResult) for parts in pieces.values() for piece in parts):
                yield from ("(", *_joined(", ", (pieces[id(item)] for item in value)), ")")
            else:
                texts = {number: "".join(cast(Any, parts)) for number, parts in pieces.items()}
                yield f"({', '.join([texts[id(item)] for item in value])})"
        case functools.partial():
            yield from (*_pieces(value.func), *_pieces((*value.args, value.keywords)))
        case _:
            yield _plain(thing)


def _joined(between: str, parts: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    for number, part in enumerate(parts):
        if number:
            yield between
        yield from part


def _plain(thing: Any) -> str:
    """Return the text of a value without results of calls."""
    value: Any = thing
    match thing:
        case DALIDataType() if hasattr(thing, "dtype"):
            return thing.numpy.name
        case Enum():
            return thing.name
        case Constant():
            return f"Constant({_array(thing.array())}{', ' * bool(thing.layout)}{thing.layout})"
        case NewAxis():
            return f"newaxis({thing.layout})"
        case PathLike():
            return repr(fspath(cast(PathLike[str], thing)))
        case np.dtype():
            return value.name
        case type():
            return np.dtype(cast(Any, value)).name if issubclass(value, np.generic) else _name(value)
        case _ if hasattr(value, "__array__"):
            try:
                return _array(np.asarray(value))
            # A typed key of JAX, or a user's object that raises any error. The operator that takes it reports what is
            # wrong.
            except Exception:  # noqa: BLE001
                return type(value).__qualname__
        case _:
            return _other(value)


def _other(thing: Any) -> str:
    if is_dataclass(thing):
        parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.compare}
        return type(thing).__qualname__ + "".join(map(str, _pieces(parts)))
    if callable(thing):
        return _name(inspect.unwrap(thing))
    if type(thing).__repr__ is object.__repr__:  # it contains an address
        return type(thing).__qualname__
    return " ".join(repr(thing).split("\n"))


def _name(function: Any) -> str:
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2]  # the enclosing function may be renamed


def _array(array: np.ndarray[Any, Any]) -> str:
    kind = f"{array.dtype.name}{list(array.shape) if array.ndim else ''}"
    # Small arrays are written out, so that `explain` and errors show their numbers.
    if array.dtype.kind == "O" or (array.dtype.kind in "biuf" and array.size <= 16):
        return f"{kind}({', '.join(map(_plain, array.ravel().tolist()))})"
    if not any(array.strides) and array.nbytes > _LARGE:
        return f"{kind}({_plain(array.flat[0].item())} repeated)"
    return f"{kind}#{_digest(array.tobytes())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
