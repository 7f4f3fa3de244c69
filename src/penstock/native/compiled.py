"""Loops that NumPy has no word for, as machine code: compiled by numba once, then kept on disk."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from penstock.errors import InternalError
from penstock.native import code_cache, machine_code
from penstock.native.machine_code import Kind, MachineCode, Native

P = ParamSpec("P")
R = TypeVar("R")

_lock = threading.RLock()
_AS_PYTHON = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


class Compiled(Generic[P, R]):
    """A loop that runs as machine code, without the interpreter's lock. Its first call compiles it, or loads it.

    It takes arrays and numbers, writes into its arrays, and neither allocates nor returns anything. It may call other
    such functions, and these may return numbers. It is compiled for each combination of dtypes, ranks and layouts
    (C-contiguous or not) with which it is called.

    Args:
        function: written in the part of Python and NumPy that numba knows.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = cast(types.FunctionType, function)
        self._native: dict[tuple[Kind, ...], Native] = {}
        self._name = self._function.__qualname__
        self.ahead: tuple[tuple[Kind, ...], ...] = ()
        """For which arguments it is compiled ahead."""
        self.variants: tuple[dict[str, bool], ...] = ({},)
        """In which variants it is compiled ahead: the constants of each."""
        self._of_constants: dict[tuple[tuple[str, bool], ...], Compiled[P, R]] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run it.

        Raises:
            InternalError: it cannot be compiled, or raises an exception.
            TypeError: an argument that it cannot take, or that is given by name.
        """
        if _AS_PYTHON:
            return self.python_function(*args, **kwargs)
        if kwargs:
            raise TypeError(f"{self._name} takes its arguments by position")
        kinds, values = machine_code.flatten_arguments(args)
        native = self._native.get(kinds) or self._load(kinds)
        if native(*values):
            raise InternalError(f"{self._name} raised an exception")
        return cast(Any, None)

    def bind(self, *args: Any) -> Callable[[int, int], None]:
        """The same call again and again, but for its last two arguments, two ints: a function of these.

        Raises:
            InternalError: it cannot be compiled; or, likewise each call, raises an exception.
            TypeError: an argument that it cannot take.
        """
        if _AS_PYTHON:
            return functools.partial(cast(Any, self.python_function), *args)
        kinds, values = machine_code.flatten_arguments((*args, 0, 0))
        native = self._native.get(kinds) or self._load(kinds)
        # an int is made into a number of C's in each call, and that takes longer than all else
        made = [kind(value) for kind, value in zip(cast(Any, native).argtypes, values[:-2], strict=False)]
        return functools.partial(self._again, native, made, args)

    def _again(self, native: Native, values: Sequence[Any], arrays: Sequence[Any], first: int, last: int) -> None:
        """One of these calls. It keeps the arrays alive, of which the values are the addresses."""
        del arrays
        if native(*values, first, last):
            raise InternalError(f"{self._name} raised an exception")

    @functools.cached_property
    def python_function(self) -> Callable[P, R]:
        """The function as Python runs it, and what it calls: the twin to which the compiled one is compared."""
        return self._with(lambda other: other.python_function)

    @functools.cached_property
    def digest(self) -> str:
        """What the function does, and all that it calls, as a short text."""
        return hashlib.sha256("\n".join(_facts(self._function.__code__, self._function)).encode()).hexdigest()

    @functools.cached_property
    def _numba(self) -> Any:
        """The function as numba has it."""
        return machine_code.as_njit(self._with(lambda other: other._numba))  # noqa: SLF001  # of its own class

    def _load(self, kinds: tuple[Kind, ...]) -> Native:
        with _lock:  # several threads may be first
            if kinds not in self._native:
                self._native[kinds] = self._kept(kinds) or self._compile(kinds)
            return self._native[kinds]

    def variant(self, **constants: bool) -> Compiled[P, R]:
        """The same loop with other values of its module's constants, also in the loops that it calls.

        What stands under ``if CONSTANT:``, by itself, is compiled only where the constant is true.

        Args:
            constants: their values.
        """
        key = tuple(sorted(constants.items()))
        variant = self._of_constants.get(key)
        if variant is None:
            variant = Compiled(self._with(lambda other: other.variant(**constants), constants))
            variant.ahead = self.ahead
            variant = self._of_constants.setdefault(key, variant)
        return variant

    @property
    def forms(self) -> Sequence[Compiled[P, R]]:
        """The variants that are compiled ahead."""
        return [self.variant(**constants) for constants in self.variants]

    def precompiled(self, environment: str) -> dict[str, bytes]:
        """The machine code that is compiled ahead, packed, by the name that it is kept under."""
        codes = {kinds: machine_code.compile_loop(self._numba, kinds) for kinds in self.ahead}
        return {self._key(kinds, environment): code.pack() for kinds, code in codes.items()}

    def _key(self, kinds: Sequence[Kind], environment: str) -> str:
        digest = hashlib.sha256(repr((self.digest, kinds, environment)).encode()).hexdigest()
        return f"{self._function.__name__}-{digest[:32]}"

    def _kept(self, kinds: tuple[Kind, ...]) -> Native | None:
        ahead, data = machine_code.environment_ahead(), None
        if kinds in self.ahead and ahead is not None:
            data = code_cache.read_ahead(self._key(kinds, ahead))
        if data is None:
            data = code_cache.read_code(self._key(kinds, machine_code.environment()))
        return None if data is None else machine_code.load_machine_code(MachineCode.unpack(data), kinds)

    def _compile(self, kinds: tuple[Kind, ...]) -> Native:
        code = machine_code.compile_loop(self._numba, kinds)
        native = machine_code.load_machine_code(code, kinds)
        if native is None:
            raise InternalError(f"{self._name} calls what does not exist", given=", ".join(code.needs))
        code_cache.write_code(self._key(kinds, machine_code.environment()), code.pack())
        return native

    def _with(
        self,
        form: Callable[[Compiled[..., Any]], Callable[..., Any]],
        constants: Mapping[str, bool] = MappingProxyType({}),
    ) -> Callable[P, R]:
        """The function, calling other compiled functions in one of their forms, with other values of constants."""
        names = self._function.__globals__
        called = {name: names[name] for name in self._function.__code__.co_names if name in names}
        changed = {name: form(cast(Any, value)) for name, value in called.items() if isinstance(value, Compiled)}
        changed |= {name: constants[name] for name in called if name in constants}
        if not changed:
            return cast(Any, self._function)
        function = types.FunctionType(self._function.__code__, names | changed, self._function.__name__)
        return cast(Any, functools.update_wrapper(function, self._function))


def _facts(code: types.CodeType, function: types.FunctionType) -> list[str]:
    """All that a function's machine code depends on: its instructions, its constants, and the values of its globals."""
    facts = [code.co_code.hex(), repr((code.co_varnames, code.co_names, code.co_argcount))]
    if code.co_freevars:
        raise TypeError(f"a compiled loop has no variables of an outer function: {function.__qualname__}")
    for constant in code.co_consts:
        facts += _facts(constant, function) if isinstance(constant, types.CodeType) else [repr(constant)]
    names = function.__globals__
    return facts + [f"{name} = {_fact(names[name], function)}" for name in code.co_names if name in names]


def _fact(value: Any, function: types.FunctionType) -> str:
    match value:
        case Compiled():
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
            raise TypeError(f"a compiled loop has numbers as constants: {function.__qualname__} uses {value!r}")


def precompile(*kinds: str, variants: Sequence[dict[str, bool]] = ({},)) -> Callable[[Compiled[P, R]], Compiled[P, R]]:
    """Have a compiled function compiled when a release is built, so that its first call need not do it.

    Args:
        kinds: of the arguments of its most frequent calls, as `machine_code.parsed` takes them.
        variants: the constants of each variant that is called.
    """

    def marked(function: Compiled[P, R]) -> Compiled[P, R]:
        function.ahead, function.variants = tuple(map(machine_code.parse_kinds, kinds)), tuple(variants)
        return function

    return marked
