"""How a source reaches a worker process."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any, cast

from penstock.core import optional_import
from penstock.errors import ArgumentTypeError, short_repr
from penstock.sources.external.external_stream import InProcessStream


def pickled(stream: InProcessStream, name: str, pickler: Any = None) -> bytes:
    """A pickle that a process can load which does not run the user's program.

    Args:
        stream: what is pickled.
        name: what messages call it.
        pickler: a module or object with `dumps` and `loads` for the stream's source, or a tuple of it and dictionaries
            of their keyword arguments; None: pickle, or cloudpickle for what pickle cannot do.

    Raises:
        ArgumentTypeError: it cannot be pickled.
        MissingExtraError: cloudpickle is needed.
    """
    if pickler is not None:
        return _by(pickler, stream, name)
    try:
        payload = pickle.dumps(stream, pickle.HIGHEST_PROTOCOL)
        why = "is defined in the program itself"
    except Exception as error:  # noqa: BLE001  # what is pickled may raise anything
        payload, why = None, f"cannot be pickled ({error})"
    if payload is not None and b"__main__" not in payload:
        return payload
    cloudpickle = optional_import.import_extra(
        "cloudpickle", "parallel", f"{name} {why}, so that sending it to a worker process"
    )
    return _dumped(cloudpickle.dumps, stream, name)


class _Loading:
    """What is loaded by a function of the user's choice, as pickle sees it."""

    def __init__(self, loads: Callable[..., Any], payload: bytes, options: dict[str, Any]) -> None:
        self._made = (_load, (loads, payload, options))

    def __reduce__(self) -> Any:
        return self._made


def _load(loads: Callable[..., Any], payload: bytes, options: dict[str, Any]) -> Any:
    return loads(payload, **options)


def _by(pickler: Any, stream: InProcessStream, name: str) -> bytes:
    given: list[Any] = list(cast(tuple[Any, ...], pickler)) if isinstance(pickler, tuple) else [pickler]
    given += [{}, {}]
    how, dumping, loading = given[:3]
    if not (hasattr(how, "dumps") and hasattr(how, "loads")):
        raise ArgumentTypeError(
            "py_callback_pickler has the functions dumps and loads",
            given=short_repr(how),
            fix="py_callback_pickler=dill",
        )
    dumps = functools.partial(how.dumps, **dumping)
    sent = stream.with_source(lambda source: _Loading(how.loads, _dumped(dumps, source, name), loading))
    return _dumped(pickle.dumps, sent, name)


def _dumped(dumps: Callable[[Any], bytes], thing: Any, name: str) -> bytes:
    try:
        return dumps(thing)
    except Exception as error:
        raise ArgumentTypeError(
            f"{name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            fix="make what cannot be pickled (open files, locks, generators) when it is called; or parallel=False",
        ) from error
