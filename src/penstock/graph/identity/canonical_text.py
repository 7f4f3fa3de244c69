"""What a user gives to an operator, as text: the same for what means the same, whatever run of the program makes it."""

from __future__ import annotations

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

_LONG = 120
"""What is longer is cut, and a hash put in place of the rest."""

_PLAIN = {int, float, bool, str}
"""What is its `repr`."""

_LARGE = 1 << 24
"""Bytes beyond which one number that is repeated is not written out."""


def canonical_text(thing: Any) -> tuple[Piece, ...]:
    """An argument as text, with the results of other calls where they stand in it.

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
    """What may hold results."""
    given: Any = thing
    match thing:
        case NodeHandle():
            yield thing.result
        case slice():
            limits = (given.start, given.stop, given.step)
            yield from _joined(":", [() if limit is None else _pieces(limit) for limit in limits])
        case Mapping():
            entries = sorted(given.items(), key=lambda entry: str(entry[0]))
            yield from ("{", *_joined(", ", ((f"{name}: ", *_pieces(value)) for name, value in entries)), "}")
        case set() | frozenset():
            yield "{" + ", ".join(sorted("".join(map(str, _pieces(each))) for each in given)) + "}"
        case tuple() | list() if set(map(type, given)) <= _PLAIN:
            yield f"({', '.join(map(repr, given))})"
        case tuple() | list():
            few = {id(each): each for each in given}  # a long list has few elements, many times
            pieces = {number: tuple(_pieces(each)) for number, each in few.items()}
            if any(isinstance(piece, CallResult) for parts in pieces.values() for piece in parts):
                yield from ("(", *_joined(", ", (pieces[id(each)] for each in given)), ")")
            else:
                texts = {number: "".join(cast(Any, parts)) for number, parts in pieces.items()}
                yield f"({', '.join([texts[id(each)] for each in given])})"
        case functools.partial():
            yield from (*_pieces(given.func), *_pieces((*given.args, given.keywords)))
        case _:
            yield _plain(thing)


def _joined(between: str, parts: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    for number, part in enumerate(parts):
        if number:
            yield between
        yield from part


def _plain(thing: Any) -> str:
    """What holds none."""
    given: Any = thing
    match thing:
        case DALIDataType() if 0 <= thing <= DALIDataType.BOOL:
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
            return given.name
        case type():
            return np.dtype(cast(Any, given)).name if issubclass(given, np.generic) else _name(given)
        case _ if hasattr(given, "__array__"):
            try:
                return _array(np.asarray(given))
            except Exception:  # noqa: BLE001  # a key of JAX's, or an object that raises anything; whoever takes it says what is wrong with it
                return type(given).__qualname__
        case _:
            return _other(given)


def _other(thing: Any) -> str:
    if is_dataclass(thing):
        parts = {part.name: getattr(thing, part.name) for part in fields(thing) if part.compare}
        return type(thing).__qualname__ + "".join(map(str, _pieces(parts)))
    if callable(thing):
        return _name(inspect.unwrap(thing))
    if type(thing).__repr__ is object.__repr__:  # it would show an address
        return type(thing).__qualname__
    return " ".join(repr(thing).split("\n"))


def _name(function: Any) -> str:
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name.rpartition("<locals>.")[2]  # the function that it is made in may be renamed


def _array(array: np.ndarray[Any, Any]) -> str:
    kind = f"{array.dtype.name}{list(array.shape) if array.ndim else ''}"
    if array.dtype.kind == "O" or (array.dtype.kind in "biuf" and array.size <= 16):
        return f"{kind}({', '.join(map(_plain, array.ravel().tolist()))})"
    if not any(array.strides) and array.nbytes > _LARGE:
        return f"{kind}({_plain(array.flat[0].item())} repeated)"
    return f"{kind}#{_digest(array.tobytes())}"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
