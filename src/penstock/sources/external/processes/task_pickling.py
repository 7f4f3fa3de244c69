"""Pickling of tasks for worker processes.

Large arrays are not part of the pickle: all workers map the same memory, read-only. Arrays that are mapped from a file
are mapped again.
"""

import functools
import importlib
import io
import os
import pickle
import random
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from penstock.core import Array, optional_import
from penstock.errors import ArgumentTypeError, PenstockError, SourceError, short_repr
from penstock.sources.external.external_stream import InProcessStream
from penstock.sources.external.processes.shared_memory import ArrayLocation, new_memory, opened, unpickled, view
from penstock.sources.storage.memory_map import as_memory_mapped

# Bytes of an array above which all workers share it. A smaller one is part of the pickle.
_LARGE = 1 << 16

_ALIGNMENT = 64
_GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)


class PickledTask:
    """Pickled task, and the memory of its large arrays.

    Args:
        payload: The pickle.
        buffers: Arrays that are not part of the pickle.

    Attributes:
        arrays: Location of each array in the memory.
        descriptor: File descriptor of the memory; None without arrays.
    """

    def __init__(self, payload: bytes, buffers: list[pickle.PickleBuffer]) -> None:
        self.payload = payload
        self.descriptor: int | None = None
        end = 0
        arrays: list[ArrayLocation] = []
        for buffer in buffers:
            arrays.append(ArrayLocation(np.dtype(np.uint8), (buffer.raw().nbytes,), end))
            end = -(-(end + buffer.raw().nbytes) // _ALIGNMENT) * _ALIGNMENT
        self.arrays = tuple(arrays)
        if buffers:
            self.descriptor, memory = new_memory(end)
            weakref.finalize(self, os.close, self.descriptor)
            for place, buffer in zip(arrays, buffers, strict=True):
                view(memory, place)[...] = np.frombuffer(buffer.raw(), np.uint8)

    def load(self) -> Any:
        """Return the task that a worker process gets."""
        memory = None if self.descriptor is None else opened(os.dup(self.descriptor))
        return unpickled(self.payload, self.arrays, memory)


def pickled(task: Any, name: str, pickler: Any = None, omit: tuple[type, ...] = ()) -> PickledTask:
    """Pickle a task so that a process that does not run the user's program can load it.

    Args:
        task: The task, such as a stream; see `penstock.sources.external.processes.worker_main.Task`.
        name: Name of the task in messages.
        pickler: Module or object with `dumps` and `loads` for a stream's source, or a tuple of it and dictionaries of
            keyword arguments for both; None uses pickle, or cloudpickle if pickle fails.
        omit: Types whose objects become None.

    Raises:
        ArgumentTypeError: The task cannot be pickled, or has its own random generator.
        MissingExtraError: cloudpickle is needed but not installed.
    """
    if pickler is not None and isinstance(task, InProcessStream):
        return PickledTask(_by(pickler, task, name), [])
    try:
        payload, buffers = _pickled(pickle.Pickler, task, omit)
        why = "is defined in the program itself"
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001  # what is pickled may raise anything
        payload, buffers, why = b"", [], f"cannot be pickled ({error})"
    # pickle refers to functions of `__main__` by name, and a worker has another `__main__`. cloudpickle sends their
    # code.
    if payload and b"__main__" not in payload:
        return PickledTask(payload, buffers)
    cloudpickle = optional_import.import_extra(
        "cloudpickle", "parallel", f"{name} {why}, so that sending it to a worker process"
    )
    try:
        return PickledTask(*_pickled(cloudpickle.Pickler, task, omit))
    except PenstockError:
        raise
    except Exception as error:
        raise _refused(name, error) from error


def _pickled(kind: Any, task: Any, omit: tuple[type, ...]) -> tuple[bytes, list[pickle.PickleBuffer]]:
    """Return the pickle, and the large arrays that are not part of it."""
    buffers: list[pickle.PickleBuffer] = []

    def in_band(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _LARGE:
            return True
        buffers.append(buffer)
        return False

    class Pickler(kind):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, omit):
                return _nothing, ()
            if isinstance(obj, np.ndarray):
                array = cast(Array, obj)
                mapped = as_memory_mapped(array)
                if mapped is not None:
                    # Others are copied, and copying from a file that was cut would kill this process with SIGBUS.
                    mapped.check_size()
                    if mapped.place is not None:
                        return _mapped_again, (mapped.place, array.dtype, array.shape, array.strides)
            elif isinstance(obj, ModuleType):
                return importlib.import_module, (obj.__name__,)
            elif isinstance(obj, CodeType) and CodeType in getattr(self, "dispatch_table", {}):
                # cloudpickle replaces the file by "<dynamic-code>", which errors of the function would then name.
                return _code_of_file, (obj.co_filename, *self.dispatch_table[CodeType](obj))
            elif isinstance(obj, _GENERATORS) or (isinstance(obj, FunctionType) and uses_own_generator(obj)):
                raise ArgumentTypeError(
                    "a function of the definition uses a random generator of its own, and each worker process would "
                    "have a copy of it, which draws the same numbers again",
                    given=short_repr(obj),
                    fix="a parameter `rng` of the function, which is seeded for each sample; or fn.random.uniform, "
                    "whose result the function takes as an input; or no worker processes",
                )
            inherited = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(obj)

    file = io.BytesIO()
    Pickler(file, protocol=5, buffer_callback=in_band).dump(task)
    return file.getvalue(), buffers


def uses_own_generator(function: FunctionType) -> bool:
    """Return True if a function refers to a random generator that is a variable outside of it."""
    values = [function.__globals__.get(name) for name in function.__code__.co_names]
    for cell in function.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    return any(isinstance(value, _GENERATORS) for value in values)


def _nothing() -> None:
    return None


def _code_of_file(file: str, build: Callable[..., CodeType], arguments: tuple[Any, ...]) -> CodeType:
    return build(*arguments).replace(co_filename=file)


def _mapped_again(place: tuple[str, int], dtype: np.dtype[Any], shape: tuple[int, ...], strides: Any) -> Array:
    """Map an array from a file."""
    path, begin = place
    try:
        return np.ndarray(shape, dtype, np.memmap(path, np.uint8, "r"), begin, strides)
    except (OSError, TypeError, ValueError) as error:  # the file is gone, shorter, or empty
        raise SourceError(
            f"{path!r}, which the program has mapped, cannot be mapped by a worker process",
            given=error,
            fix="do not write to a file that is being read: write another one, and rename it",
        ) from error


def _refused(name: str, error: Exception) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} cannot be sent to a worker process: {type(error).__name__}: {error}",
        fix="create what cannot be pickled (open files, locks, generators) inside the call; or use no worker processes",
    )


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
        raise _refused(name, error) from error
