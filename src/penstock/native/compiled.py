"""Compiled loops: Python functions that run as machine code, for work that NumPy cannot express."""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import os
import threading
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from penstock.core.thread_clock import ThreadClock, count_compilation
from penstock.errors import InternalError
from penstock.native import argument_block, code_cache, machine_code
from penstock.native.argument_block import Kind
from penstock.native.c_function import CFunction
from penstock.native.machine_code import MachineCode, Native


class BoundLoop(Protocol):
    """Loop whose arguments are bound, but for the last two. `BoundCode` if it runs as machine code."""

    def __call__(self, first: int, last: int, memory: Any = None) -> None:
        """Run the loop.

        Args:
            first: The last argument but one.
            last: The last argument.
            memory: Array that the loop gets as its first argument in this call, with the dtype and rank of the one that
                is bound, C-contiguous.
        """


class BoundCode:
    """Machine code of a loop with bound arguments, but for the last two.

    Args:
        native: The machine code.
        block: The bound arguments.
        arrays: The same, to keep the arrays alive whose addresses `block` holds.
        name: Name of the loop.
    """

    __slots__ = ("_arrays", "_call", "block", "entry", "name")

    def __init__(self, native: Native, block: bytes, arrays: Sequence[Any], name: str) -> None:
        self._call, self._arrays = native.call, arrays
        self.entry, self.block, self.name = native.address, block, name

    def __call__(self, first: int, last: int, memory: Any = None) -> None:
        """Run the loop, as described for `BoundLoop`."""
        block = self.block if memory is None else argument_block.with_first_array(self.block, memory)
        if self._call(argument_block.with_last_two(block, first, last)):
            raise InternalError(f"{self.name} raised an exception")


P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class Compiled(Generic[P, R]):
    """Loop that runs as machine code, without the GIL. The first call compiles it, or loads it from the cache.

    A loop takes arrays and numbers, writes to its arrays, and neither allocates nor returns anything. It may call other
    compiled loops, which may return numbers, and functions of libraries (`CFunction`). It is compiled for each
    combination of dtypes, ranks and layouts (C-contiguous or not) of its arguments.

    Args:
        function: The loop, in the subset of Python and NumPy that numba supports.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = cast(types.FunctionType, function)
        self._native: dict[tuple[Kind, ...], Native] = {}
        self._name = self._function.__qualname__
        # Kinds of arguments, and constants of the variants, for which release builds compile the loop.
        self.ahead: tuple[tuple[Kind, ...], ...] = ()
        self.variants: tuple[dict[str, bool], ...] = ({},)
        self._variants: dict[tuple[tuple[str, bool], ...], Compiled[P, R]] = {}
        self._searched, self._work = False, 0
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the loop.

        Raises:
            InternalError: the loop cannot be compiled, or raises an exception.
            TypeError: an argument is neither an array nor a number, or is passed by name.
        """
        if _AS_PYTHON:
            return self.python_function(*args, **kwargs)
        if kwargs:
            raise TypeError(f"{self._name} takes its arguments by position")
        kinds, values = argument_block.flatten_arguments(args)
        native = self._native.get(kinds) or self._load(kinds)
        if native.call(native.pack(*values)):
            raise InternalError(f"{self._name} raised an exception")
        return cast(Any, None)

    def pays_off(self, work: int, enough: int) -> bool:
        """Return True if the loop saves time, although its first call may compile it.

        For plain code that calls it in place of other code with the same result. The first batch of a new installation
        does not wait for loops that save less than their compilation takes.

        Args:
            work: Amount of work, such as a number of rows, of this call.
            enough: Amount that takes the other code as long as the compilation. Less work pays off only if the machine
                code for a usual call is cached.
        """
        if self._native or _AS_PYTHON:
            return True
        if not self._searched:
            with _lock:
                cached = {kinds: self._load_cached(kinds) for kinds in self.ahead}
                self._native |= {kinds: native for kinds, native in cached.items() if native is not None}
                self._searched = True
        self._work += work
        return bool(self._native) or self._work > enough

    def bind(self, *args: Any) -> BoundLoop:
        """Return a function of the last two arguments, two ints, with the other arguments bound.

        Raises:
            InternalError: the loop cannot be compiled, or raises an exception when called.
            TypeError: an argument is neither an array nor a number.
        """
        if _AS_PYTHON:
            return functools.partial(self._call_bound_python, args)
        kinds, values = argument_block.flatten_arguments((*args, 0, 0))
        native = self._native.get(kinds) or self._load(kinds)
        return BoundCode(native, argument_block.without_last_two(native.pack(*values)), args, self._name)

    def _call_bound_python(self, args: Sequence[Any], first: int, last: int, memory: Any = None) -> None:
        head = args[0] if memory is None else memory
        cast(Any, self.python_function)(head, *args[1:], first, last)

    @functools.cached_property
    def python_function(self) -> Callable[P, R]:
        """The uncompiled function, which calls uncompiled functions. Tests compare the compiled loop to it."""
        return self._with(lambda other: other.python_function)

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the code of the function and of all functions that it calls."""
        return hashlib.sha256("\n".join(_facts(self._function.__code__, self._function)).encode()).hexdigest()

    @functools.cached_property
    def numba_function(self) -> Any:
        """The function as a numba dispatcher."""
        return machine_code.as_njit(self._with(lambda other: other.numba_function))

    def _load(self, kinds: tuple[Kind, ...]) -> Native:
        clock = ThreadClock()
        # Several threads may make the first call.
        with _lock:
            if kinds not in self._native:
                self._native[kinds] = self._load_cached(kinds) or self._compile(kinds)
        # Also if another thread compiled: statistics of stages contain neither.
        count_compilation(clock)
        return self._native[kinds]

    def variant(self, **constants: bool) -> Compiled[P, R]:
        """Return the loop with other values of its module's constants, also in the loops that it calls.

        Code under ``if CONSTANT:`` is compiled only if the constant is true, so each variant compiles only what it
        needs.

        Args:
            constants: The values of the constants.
        """
        key = tuple(sorted(constants.items()))
        variant = self._variants.get(key)
        if variant is None:
            function = self._with(lambda other: other.variant(**constants), constants)
            # Variants share the loops that do not depend on the constants, so numba compiles those once.
            variant = self if function is self._function else Compiled(function)
            variant.ahead = self.ahead
            variant = self._variants.setdefault(key, variant)
        return variant

    @property
    def forms(self) -> Sequence[Compiled[P, R]]:
        """The variants that release builds compile."""
        return [self.variant(**constants) for constants in self.variants]

    def precompiled(self, environment: str) -> dict[str, bytes]:
        """Compile the loop for a release build. Returns packed machine code by cache key."""
        codes = {kinds: machine_code.compile_loop(self.numba_function, kinds) for kinds in self.ahead}
        return {self._key(kinds, environment): code.pack() for kinds, code in codes.items()}

    def _key(self, kinds: Sequence[Kind], environment: str) -> str:
        digest = hashlib.sha256(repr((self.digest, kinds, environment)).encode()).hexdigest()
        return f"{self._function.__name__}-{digest[:32]}"

    def _load_cached(self, kinds: tuple[Kind, ...]) -> Native | None:
        ahead, data = machine_code.environment_ahead(), None
        if kinds in self.ahead and ahead is not None:
            data = code_cache.read_ahead(self._key(kinds, ahead))
        if data is None:
            data = code_cache.read_code(self._key(kinds, machine_code.environment()))
        return None if data is None else machine_code.load_machine_code(MachineCode.unpack(data), kinds)

    def _compile(self, kinds: tuple[Kind, ...]) -> Native:
        with _paused_collection():
            code = machine_code.compile_loop(self.numba_function, kinds)
        native = machine_code.load_machine_code(code, kinds)
        if native is None:
            raise InternalError(f"{self._name} calls functions that do not exist", given=", ".join(code.needs))
        code_cache.write_code(self._key(kinds, machine_code.environment()), code.pack())
        return native

    def _with(
        self,
        form: Callable[[Any], Callable[..., Any]],
        constants: Mapping[str, bool] = MappingProxyType({}),
    ) -> Callable[P, R]:
        """Return the function with other globals: forms of the loops that it calls, and values of constants."""
        names = self._function.__globals__
        used = {name: names[name] for name in self._function.__code__.co_names if name in names}
        loops = {
            name: form(cast(Any, value)) for name, value in used.items() if isinstance(value, Compiled | CFunction)
        }
        changed = {name: loop for name, loop in loops.items() if loop is not names[name]}
        changed |= {name: constants[name] for name in used if name in constants}
        if not changed:
            return cast(Any, self._function)
        function = types.FunctionType(self._function.__code__, names | changed, self._function.__name__)
        return cast(Any, functools.update_wrapper(function, self._function))


@contextlib.contextmanager
def _paused_collection() -> Generator[None]:
    """Pause the garbage collector, which would look at all objects of JAX again and again while numba makes its own.

    That takes a seventh of the time of a first batch that compiles its loops.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _facts(code: types.CodeType, function: types.FunctionType) -> list[str]:
    """List everything that a function's machine code depends on: instructions, constants, and values of globals."""
    # Numba's own cache only compares the time stamp of the file, so it misses changes in functions of other modules.
    facts = [code.co_code.hex(), repr((code.co_varnames, code.co_names, code.co_argcount))]
    if code.co_freevars:
        raise TypeError(f"a compiled loop cannot use variables of an outer function: {function.__qualname__}")
    for constant in code.co_consts:
        facts += _facts(constant, function) if isinstance(constant, types.CodeType) else [repr(constant)]
    names = function.__globals__
    return facts + [f"{name} = {_fact(names[name], function)}" for name in code.co_names if name in names]


def _fact(value: Any, function: types.FunctionType) -> str:
    match value:
        case Compiled() | CFunction():
            return value.digest
        case None | bool() | int() | float() | str():
            return repr(value)
        case np.generic():
            return repr(cast(Any, value))
        case tuple():
            return repr([_fact(item, function) for item in cast(tuple[Any, ...], value)])
        case types.ModuleType() | type():
            return value.__name__
        case _:
            raise TypeError(
                f"a compiled loop can only use numbers as constants: {function.__qualname__} uses {value!r}"
            )


def precompile(*kinds: str, variants: Sequence[dict[str, bool]] = ({},)) -> Callable[[Compiled[P, R]], Compiled[P, R]]:
    """Mark a loop to be compiled when a release is built, so that its first call does not compile it.

    Args:
        kinds: The kinds of arguments of its most frequent calls, as in `argument_block.parse_kinds`.
        variants: The constants of each variant that is called.
    """

    def mark(function: Compiled[P, R]) -> Compiled[P, R]:
        function.ahead, function.variants = tuple(map(argument_block.parse_kinds, kinds)), tuple(variants)
        return function

    return mark
