"""A definition as JSON: which operators are called, with which arguments. Never code."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from enum import Enum
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from penstock import types
from penstock.core.call_site import CallSite
from penstock.errors import PenstockError, StateError, UsageError, did_you_mean, short_repr
from penstock.graph.ir.node import Graph, NodeHandle, OperatorCall, handles
from penstock.graph.tracing.registry import lookup

VERSION = 1


def to_json(graph: Graph, options: Mapping[str, Any]) -> bytes:
    """The calls of a definition, in their order, and what its pipeline was made with.

    Raises:
        UsageError: a call has an argument that is code, or was made by an operator that has no name.
    """
    calls: dict[OperatorCall, CallSite] = {node.call: node.where for node in graph.nodes if node.call is not None}
    numbers = {call: number for number, call in enumerate(calls)}

    def encode(given: Any) -> Any:
        if isinstance(given, NodeHandle):
            call, number = given.result
            return {"node": [numbers[call], number]}
        return _encoded(given, encode)

    written: list[Any] = []
    for call, where in calls.items():
        try:
            lookup(call.kind)
            arguments = {name: encode(each) for name, each in call.arguments[1].items()}
            inputs = [encode(each) for each in call.arguments[0]]
        except (TypeError, AttributeError) as error:
            raise UsageError(
                f"the definition cannot be written: {call.kind} is given something that is no data",
                given=str(error).splitlines()[0],
                expected="numbers, texts, arrays, nodes and lists of them",
                fix="keep the program, which makes the same pipeline again",
                where=where,
            ) from error
        written.append({"operator": call.kind, "inputs": inputs, "arguments": arguments})
    outputs = [encode(NodeHandle(value)) for value in graph.outputs]
    text = {"version": VERSION, "name": graph.name, "pipeline": options, "calls": written, "outputs": outputs}
    return json.dumps(text).encode()


def from_json(text: bytes | str) -> tuple[dict[str, Any], str, Callable[[], list[Any]]]:
    """What a pipeline was made with, its name, and a function that makes its calls again and returns its outputs.

    Raises:
        StateError: the text is not what `to_json` gave.
    """
    try:
        read = json.loads(text)
        options, name, calls, outputs = (read[entry] for entry in ("pipeline", "name", "calls", "outputs"))
        version = read["version"]
        if not isinstance(options, dict) or not isinstance(name, str):
            raise TypeError
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StateError("this is no pipeline that was serialized", given=short_repr(text)) from None
    if version != VERSION:
        raise StateError("a serialized pipeline of another version", given=version, expected=VERSION)

    def made() -> list[Any]:
        results: list[list[Any]] = []

        def decode(given: Any) -> Any:
            if isinstance(given, dict) and "node" in given:
                call, number = given["node"]
                return results[call][number]
            return _decoded(given, decode)

        for call in calls:
            arguments = {each: decode(value) for each, value in call["arguments"].items()}
            results.append([*handles(lookup(call["operator"])(*map(decode, call["inputs"]), **arguments))])
        return [decode(output) for output in outputs]

    def define() -> list[Any]:
        try:
            return made()
        except PenstockError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise StateError(
                "a serialized pipeline is damaged",
                given=f"{type(error).__name__}: {error}",
                fix="serialize it again",
            ) from error

    return cast(dict[str, Any], options), name, define


def _encoded(given: Any, inner: Callable[[Any], Any]) -> Any:  # noqa: C901  # one case per kind of value
    match given:
        case Enum():
            return {"types": f"{type(given).__name__}.{given.name}"}
        case None | bool() | int() | float() | str():
            return given
        case list():
            return [inner(each) for each in given]
        case tuple():
            return {"tuple": [inner(each) for each in given]}
        case dict() if all(isinstance(key, str) for key in given):
            return {"dict": {key: inner(each) for key, each in given.items()}}
        case slice():
            return {"slice": [inner(given.start), inner(given.stop), inner(given.step)]}
        case types.NewAxis():
            return {"newaxis": given.layout}
        case types.Constant():
            return {"constant": [given.layout, inner(given.array())]}
        case np.dtype():
            return {"dtype": given.str}
        case np.ndarray() | np.generic():
            array = np.ascontiguousarray(given)
            if array.dtype.kind not in "biuf":
                raise TypeError(f"an array of {array.dtype}")
            data = base64.b64encode(array.tobytes()).decode()
            return {"array": [array.dtype.str, list(np.shape(given)), data]}
        case PathLike():
            return fspath(given)
        case type() if issubclass(given, np.generic):
            return {"dtype": np.dtype(given).str}
        case _ if given is Ellipsis:
            return {"ellipsis": 0}
        case _:
            raise TypeError(f"{short_repr(given)} of type {type(given).__name__}")


def _decoded(given: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(given, list):
        return [inner(each) for each in given]
    if not isinstance(given, dict):
        return given
    ((kind, value),) = given.items()
    made: Mapping[str, Callable[[], Any]] = {
        "types": lambda: _member(*value.split(".")),
        "tuple": lambda: tuple([inner(each) for each in value]),
        "dict": lambda: {key: inner(each) for key, each in value.items()},
        "slice": lambda: slice(*map(inner, value)),
        "newaxis": lambda: types.NewAxis(value),
        "constant": lambda: _constant(inner(value[1]), value[0]),
        "dtype": lambda: np.dtype(value),
        "array": lambda: np.frombuffer(base64.b64decode(value[2]), np.dtype(value[0])).reshape(value[1]).copy(),
        "ellipsis": lambda: Ellipsis,
    }
    if kind not in made:
        raise StateError(
            "a serialized pipeline has a value of an unknown kind", given=kind, fix=did_you_mean(kind, made)
        )
    return made[kind]()


def _constant(array: Any, layout: str) -> types.Constant:
    return types.Constant(array, array.dtype, layout=layout)


def _member(kind: str, name: str) -> Any:
    """A member of an enumeration of `penstock.types`, and of nothing else."""
    enumeration = getattr(types, kind, None)
    if not (isinstance(enumeration, type) and issubclass(enumeration, Enum)) or name not in enumeration.__members__:
        raise StateError("a serialized pipeline has an unknown constant", given=f"types.{kind}.{name}")
    return enumeration[name]
