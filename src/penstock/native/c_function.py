"""Functions of the C library, and of other libraries of the system, that compiled loops call."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, cast

from penstock.errors import InternalError
from penstock.native import machine_code
from penstock.native.argument_block import c_type


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


class CFunction:
    """Function of a library. Machine code contains its name, and finds the address when it is loaded.

    Args:
        name: Name of the function.
        result: Kind of the result, as in `argument_block.parse_kinds`. Pointers are "i8".
        arguments: Kinds of the arguments, separated by spaces.
        library: Function that loads the library, or raises OSError; the C library by default. Functions of any other
            library must be registered before machine code is loaded that calls them.

    >>> CFunction("labs", "i8", "i8")(-3)
    3
    """

    def __init__(self, name: str, result: str, arguments: str, library: Callable[[], ctypes.CDLL] = _c_library) -> None:
        self.digest = repr((name, result, arguments))
        self._library = library
        self._name, self._kinds = name, (result, *arguments.split())

    def __call__(self, *arguments: int) -> int:
        """Call the function from Python."""
        return self.python_function(*arguments)

    @functools.cached_property
    def exists(self) -> bool:
        """True if the library has the function. A loop that calls a missing function cannot be compiled."""
        try:
            return hasattr(self._library(), self._name)
        except (OSError, TypeError):  # TypeError: Windows has no library that stands for all functions of the process
            return False

    def register(self) -> None:
        """Tell machine code the address of the function, whose library the process need not share with others."""
        function = getattr(self._library(), self._name)
        machine_code.register_function(self._name, cast(int, ctypes.cast(function, ctypes.c_void_p).value))

    @functools.cached_property
    def python_function(self) -> Callable[..., Any]:
        """The function for uncompiled loops."""
        if not self.exists:  # a loop names it under a constant that is false
            return self._refuse
        function = getattr(self._library(), self._name)
        function.restype, *function.argtypes = [c_type(kind) for kind in self._kinds]
        return function

    @functools.cached_property
    def numba_function(self) -> Any:
        """The function for numba."""
        return machine_code.external_function(self._name, *self._kinds)

    def _refuse(self, *_arguments: int) -> int:
        raise InternalError(f"the library does not have {self._name}")

    def variant(self, **_constants: bool) -> CFunction:
        """Return the function: it has no constants."""
        return self


class EntryFunction(CFunction):
    """Call of the entry of a loop by its address, for a loop that runs others. It returns what the entry returns."""

    def __init__(self) -> None:
        super().__init__("entry of a loop", "i4", "i8 i8")

    @functools.cached_property
    def exists(self) -> bool:
        """True: the caller has the address."""
        return True

    @functools.cached_property
    def python_function(self) -> Callable[..., Any]:
        """The call for uncompiled loops."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)

        def call(entry: int, block: int) -> int:
            return kind(int(entry))(int(block))

        return call

    @functools.cached_property
    def numba_function(self) -> Any:
        """The call for numba."""
        return machine_code.entry_call()
