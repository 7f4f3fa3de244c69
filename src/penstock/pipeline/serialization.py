"""Serialization of a definition as JSON: its operator calls and their arguments. Never code."""

import base64
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from os import PathLike, fspath
from typing import Any, cast

import numpy as np

from penstock import types
from penstock.core import CallSite
from penstock.errors import PenstockError, StateError, UsageError, did_you_mean, short_repr
from penstock.graph import lookup
from penstock.graph.conditionals.control_flow import BRANCH_CALLS, trace_branch
from penstock.graph.ir.node import Graph, NodeHandle, OperatorCall, handles

VERSION = 1


def to_json(graph: Graph, options: Mapping[str, Any]) -> bytes:
    """Return the calls of a definition, in their order, and the options of its pipeline.

    Raises:
        UsageError: An argument of a call is code, or the operator has no public name.
    """
    calls: dict[OperatorCall, CallSite] = {node.call: node.where for node in graph.nodes if node.call is not None}
    numbers = {call: number for number, call in enumerate(calls)}
    guards = {node.call: node.guard for node in graph.nodes if node.guard is not None}

    def encode(argument: Any) -> Any:
        if isinstance(argument, NodeHandle):
            call, number = argument.result
            return {"node": [numbers[call], number]}
        return _encoded(argument, encode)

    encoded_calls: list[Any] = []
    for call, where in calls.items():
        try:
            # Refused here, not when the JSON is read, because reading finds operators only by name.
            _operator(call.kind)
            arguments = {name: encode(item) for name, item in call.arguments[1].items()}
            inputs = [encode(item) for item in call.arguments[0]]
        except (TypeError, AttributeError) as error:
            raise UsageError(
                f"the definition cannot be written: {call.kind} is given something that is no data",
                given=str(error).splitlines()[0],
                expected="numbers, texts, arrays, nodes and lists of them",
                fix="keep the program, which makes the same pipeline again",
                where=where,
            ) from error
        branch = {"branch": encode(NodeHandle(guards[call]))} if call in guards else {}
        encoded_calls.append({"operator": call.kind, "inputs": inputs, "arguments": arguments, **branch})
    outputs: Any = [encode(NodeHandle(value)) for value in graph.outputs]
    if graph.output_names:
        outputs = dict(zip(graph.output_names, outputs, strict=True))
    text = {"version": VERSION, "name": graph.name, "pipeline": options, "calls": encoded_calls, "outputs": outputs}
    return json.dumps(text).encode()


def from_json(text: bytes | str) -> tuple[dict[str, Any], str, Callable[[], Any]]:
    """Return the options of a pipeline, its name, and a function that repeats its calls and returns its outputs.

    Raises:
        StateError: The text is not a result of `to_json`.
    """
    try:
        entries = json.loads(text)
        options, name, calls, outputs = (entries[entry] for entry in ("pipeline", "name", "calls", "outputs"))
        version = entries["version"]
        if not isinstance(options, dict) or not isinstance(name, str):
            raise TypeError
    # `json` raises RecursionError for text that is nested too deeply.
    except (ValueError, TypeError, KeyError, RecursionError):
        raise StateError("this is no pipeline that was serialized", given=short_repr(text)) from None
    if version != VERSION:
        raise StateError("a serialized pipeline of another version", given=version, expected=VERSION)

    def define() -> Any:
        results: list[list[Any]] = []

        def decode(argument: Any) -> Any:
            if isinstance(argument, dict) and "node" in argument:
                call, number = argument["node"]
                return results[call][number]
            return _decoded(argument, decode)

        try:
            for call in calls:
                arguments = {item: decode(value) for item, value in call["arguments"].items()}
                again = partial(_operator(call["operator"]), *map(decode, call["inputs"]), **arguments)
                guard = decode(call["branch"]) if "branch" in call else None
                results.append([*handles(trace_branch(guard, again))])
            if isinstance(outputs, dict):
                return {output: decode(value) for output, value in cast(dict[str, Any], outputs).items()}
            return [decode(output) for output in outputs]
        # These errors name the operator and the fix already.
        except PenstockError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise StateError(
                "a serialized pipeline is damaged",
                given=f"{type(error).__name__}: {error}",
                fix="serialize it again",
            ) from error

    return cast(dict[str, Any], options), name, define


def _operator(name: str) -> Callable[..., Any]:
    """Return an operator by its public name, or one that only conditions call."""
    return BRANCH_CALLS[name] if name in BRANCH_CALLS else lookup(name)


def _encoded(value: Any, inner: Callable[[Any], Any]) -> Any:  # noqa: C901  # one case per kind of value
    match value:
        # First, because members of an IntEnum are integers too, and would come back as plain numbers.
        case Enum():
            return {"types": f"{type(value).__name__}.{value.name}"}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [inner(item) for item in value]
        case tuple():
            return {"tuple": [inner(item) for item in value]}
        case dict() if all(isinstance(key, str) for key in value):
            return {"dict": {key: inner(item) for key, item in value.items()}}
        case slice():
            return {"slice": [inner(value.start), inner(value.stop), inner(value.step)]}
        case types.NewAxis():
            return {"newaxis": value.layout}
        case types.Constant():
            return {"constant": [value.layout, inner(value.array())]}
        case np.dtype():
            return {"dtype": _dtype_text(value)}
        case np.ndarray() | np.generic():
            array = np.ascontiguousarray(value)
            # The bytes of an array of objects are addresses, which mean nothing in another process.
            if array.dtype.kind not in "biuf" and not types.is_bfloat16(array.dtype):
                raise TypeError(f"an array of {array.dtype}")
            data = base64.b64encode(array.tobytes()).decode()
            # The shape of the value, since `ascontiguousarray` gives a scalar an axis.
            return {"array": [_dtype_text(array.dtype), list(np.shape(value)), data]}
        case PathLike():
            return fspath(value)
        case type() if issubclass(value, np.generic):
            return {"dtype": _dtype_text(np.dtype(value))}
        # A type of JAX, such as `jnp.bfloat16`.
        case type() if isinstance(getattr(value, "dtype", None), np.dtype):
            return {"dtype": _dtype_text(cast(Any, value).dtype)}
        case _ if value is Ellipsis:
            return {"ellipsis": 0}
        case _:
            raise TypeError(f"{short_repr(value)} of type {type(value).__name__}")


def _dtype_text(dtype: np.dtype[Any]) -> str:
    # NumPy's code of bfloat16, "<V2", stands for two bytes without a meaning.
    return dtype.name if types.is_bfloat16(dtype) else dtype.str


def _decoded(argument: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(argument, list):
        return [inner(item) for item in argument]
    if not isinstance(argument, dict):
        return argument
    ((kind, value),) = argument.items()
    result: Mapping[str, Callable[[], Any]] = {
        "types": lambda: _member(*value.split(".")),
        "tuple": lambda: tuple([inner(item) for item in value]),
        "dict": lambda: {key: inner(item) for key, item in value.items()},
        "slice": lambda: slice(*map(inner, value)),
        "newaxis": lambda: types.NewAxis(value),
        "constant": lambda: _constant(inner(value[1]), value[0]),
        "dtype": lambda: types.as_dtype(value),
        # A copy, because an array over immutable bytes is read-only.
        "array": lambda: np.frombuffer(base64.b64decode(value[2]), types.as_dtype(value[0])).reshape(value[1]).copy(),
        "ellipsis": lambda: Ellipsis,
    }
    if kind not in result:
        raise StateError(
            "a serialized pipeline has a value of an unknown kind", given=kind, fix=did_you_mean(kind, result)
        )
    return result[kind]()


def _constant(array: Any, layout: str) -> types.Constant:
    return types.Constant(array, array.dtype, layout=layout)


def _member(kind: str, name: str) -> Any:
    """Return a member of an enumeration of `penstock.types`; other names are refused."""
    enumeration = getattr(types, kind, None)
    if not (isinstance(enumeration, type) and issubclass(enumeration, Enum)) or name not in enumeration.__members__:
        raise StateError("a serialized pipeline has an unknown constant", given=f"types.{kind}.{name}")
    return enumeration[name]
