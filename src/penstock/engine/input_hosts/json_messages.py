"""Strict JSON messages: bounded size, known fields, checked types and ranges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

# Largest message of JSON in bytes. A definition's arguments and the shards of a large job take a few kilobytes.
MAX_MESSAGE_BYTES = 4 << 20

# Nesting of arguments. Python's parser recurses, so deeper messages would exhaust its stack.
_MAX_DEPTH = 32


class MessageError(Exception):
    """Message that violates the protocol. It never leaves the process that received it, except as a text."""


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as bytes.

    Raises:
        ValueError: The message contains NaN or infinity.
    """
    return json.dumps(message, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()


def decode(data: bytes, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a message.

    Args:
        data: The message.
        required: Names of its fields.
        optional: Names of further fields, which may be missing.

    Raises:
        MessageError: The message is too long, not a JSON object, or has other fields.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are read")
    try:
        message = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message that is not JSON: {type(error).__name__}") from None
    _check_depth(message)
    return fields(message, required, optional)


def fields(message: Any, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Check the names of the fields of a JSON object, and return it.

    Raises:
        MessageError: It is not an object, a field is missing, or a field is unknown.
    """
    if not isinstance(message, dict):
        raise MessageError(f"a message of type {type(message).__name__}; an object is expected")
    entries = cast(dict[str, Any], message)
    if missing := sorted(set(required) - entries.keys()):
        raise MessageError(f"a message without {', '.join(missing)}")
    if unknown := sorted(entries.keys() - {*required, *optional}):
        raise MessageError(f"a message with unknown fields: {', '.join(unknown)[:200]}")
    return entries


def integer(value: Any, low: int, high: int, name: str) -> int:
    """Return an integer from `low` to `high`.

    Raises:
        MessageError: The value is something else.
    """
    if type(value) is not int or not low <= value <= high:
        raise MessageError(f"{name} must be an integer from {low} to {high}")
    return value


def number(value: Any, name: str) -> float:
    """Return a number from 0 to a million, such as a duration in seconds.

    Raises:
        MessageError: The value is something else.
    """
    if type(value) not in (int, float) or not 0 <= value <= 1e6:
        raise MessageError(f"{name} must be a number from 0 to 1000000")
    return float(value)


def text(value: Any, longest: int, name: str) -> str:
    """Return a text of at most `longest` characters.

    Raises:
        MessageError: The value is something else.
    """
    if not isinstance(value, str) or len(value) > longest:
        raise MessageError(f"{name} must be a text of at most {longest} characters")
    return value


def optional_text(value: Any, longest: int, name: str) -> str | None:
    """Return a text, or None."""
    return None if value is None else text(value, longest, name)


def sequence(value: Any, longest: int, name: str) -> list[Any]:
    """Return a list of at most `longest` items.

    Raises:
        MessageError: The value is something else.
    """
    if not isinstance(value, list) or len(cast(list[Any], value)) > longest:
        raise MessageError(f"{name} must be a list of at most {longest} items")
    return cast(list[Any], value)


def flag(value: Any, name: str) -> bool:
    """Return a boolean.

    Raises:
        MessageError: The value is something else.
    """
    if not isinstance(value, bool):
        raise MessageError(f"{name} must be true or false")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _check_depth(message: Any) -> None:
    level: list[Any] = [message]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast(dict[str, Any], item).values()
            elif isinstance(item, list):
                inner += cast(list[Any], item)
        if not inner:
            return
        level = inner
    raise MessageError(f"a message that is nested deeper than {_MAX_DEPTH} levels")
