"""Pickling of sources for worker processes."""

import functools
import pickle
from collections.abc import Callable
from typing import Any, cast

from penstock.core import optional_import
from penstock.errors import ArgumentTypeError, short_repr
from penstock.sources.external.external_stream import InProcessStream


def pickled(stream: InProcessStream, name: str, pickler: Any = None) -> bytes:
    """Pickle a stream so that a process that does not run the user's program can load it.

    Args:
        stream: The stream.
        name: Name of the source in messages.
        pickler: Module or object with `dumps` and `loads` for the stream's source, or a tuple of it and dictionaries of
            keyword arguments for both; None uses pickle, or cloudpickle if pickle fails.

    Raises:
        ArgumentTypeError: The source cannot be pickled.
        MissingExtraError: cloudpickle is needed but not installed.
    """
    if pickler is not None:
        return _by(pickler, stream, name)
    try:
        payload = pickle.dumps(stream, pickle.HIGHEST_PROTOCOL)
        why = "is defined in the program itself"
    except Exception as error:  # noqa: BLE001  # what is pickled may raise anything
        payload, why = None, f"cannot be pickled ({error})"
    # pickle refers to functions of `__main__` by name, and a worker has another `__main__`. cloudpickle sends their
    # code.
    if payload is not None and b"__main__" not in payload:
        return payload
    cloudpickle = optional_import.import_extra(
        "cloudpickle", "parallel", f"{name} {why}, so that sending it to a worker process"
    )
    return _dumped(cloudpickle.dumps, stream, name)


class _Loading:
    """Placeholder that unpickles to the result of the user's `loads`."""

    def __init__(self, loads: Callable[..., Any], payload: bytes, options: dict[str, Any]) -> None:
        self._call = functools.partial(loads, payload, **options)

    def __reduce__(self) -> Any:
        return self._call, ()


def _by(pickler: Any, stream: InProcessStream, name: str) -> bytes:
    parts: list[Any] = list(cast(tuple[Any, ...], pickler)) if isinstance(pickler, tuple) else [pickler]
    parts += [{}, {}]
    module, dumping, loading = parts[:3]
    if not (hasattr(module, "dumps") and hasattr(module, "loads")):
        raise ArgumentTypeError(
            "py_callback_pickler must have functions dumps and loads",
            given=short_repr(module),
            fix="py_callback_pickler=dill",
        )
    dumps = functools.partial(module.dumps, **dumping)
    wrapped = stream.with_source(lambda source: _Loading(module.loads, _dumped(dumps, source, name), loading))
    return _dumped(pickle.dumps, wrapped, name)


def _dumped(dumps: Callable[[Any], bytes], thing: Any, name: str) -> bytes:
    try:
        return dumps(thing)
    except Exception as error:
        raise ArgumentTypeError(
            f"{name} cannot be sent to a worker process: {type(error).__name__}: {error}",
            fix="create what cannot be pickled (open files, locks, generators) inside the call; or use parallel=False",
        ) from error
