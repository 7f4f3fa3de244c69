"""Machine code of one compiled loop: made by numba, kept as bytes, run through ctypes.

numba compiles. What it has compiled runs without it: importing numba and calling the first function takes about as long
as a first batch, loading machine code takes milliseconds. So a loop is only what machine code can be by itself: it gets
arrays and numbers, writes into its arrays, and allocates and returns nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.errors import InternalError

Kind = np.dtype[Any] | tuple[np.dtype[Any], int, str]
"""What a loop is compiled for: the dtype of a number; or the dtype, rank and layout of an array."""

Native = Callable[..., int]
"""A loop in memory. It takes what `flat` gives, and returns 0 unless it raised an exception."""

_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
"""How numba compiles: without wrappers for Python, and without the runtime that allocates."""

BASELINE = "x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
"""The processor that loops are compiled ahead for: its name, and what it can do that not all of its kind can."""

SETTINGS = tuple(
    f"NUMBA_{name}"
    for name in (
        "BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE",
        "OPT", "SLP_VECTORIZE",
    )
)  # fmt: skip
"""The variables of the environment by which users change what numba makes."""

_NUMBERS: dict[str, tuple[Any, str]] = {
    "b1": (ctypes.c_bool, "i8"),
    "i1": (ctypes.c_int8, "i8"),
    "i2": (ctypes.c_int16, "i16"),
    "i4": (ctypes.c_int32, "i32"),
    "i8": (ctypes.c_int64, "i64"),
    "u1": (ctypes.c_uint8, "i8"),
    "u2": (ctypes.c_uint16, "i16"),
    "u4": (ctypes.c_uint32, "i32"),
    "u8": (ctypes.c_uint64, "i64"),
    "f4": (ctypes.c_float, "float"),
    "f8": (ctypes.c_double, "double"),
}
"""Numbers as ctypes and as LLVM name them."""

_INT, _POINTER, _SIZE = np.dtype(np.int64), (ctypes.c_void_p, "ptr"), (ctypes.c_int64, "i64")
_DTYPES: dict[type, np.dtype[Any]] = {
    **{np.dtype(name).type: np.dtype(name) for name in _NUMBERS},
    int: _INT,
    float: np.dtype(np.float64),
    bool: np.dtype(np.bool_),
}
"""The dtypes of numbers, by type."""

_Array = NDArray[Any]  # named once: to write it costs as much as all else that a call needs
_sink = (ctypes.c_void_p * 2)()  # where loops may write a result and an exception, which nobody reads
_SINK = (ctypes.addressof(_sink), ctypes.addressof(_sink) + ctypes.sizeof(ctypes.c_void_p))
_HEADER = object.__basicsize__


@dataclass(frozen=True)
class MachineCode:
    """What LLVM made of a loop.

    Args:
        symbol: its name in the object file.
        needs: names of other functions that it calls.
        binary: the object file.
    """

    symbol: str
    needs: tuple[str, ...]
    binary: bytes

    def pack(self) -> bytes:
        """As bytes, to keep it."""
        return json.dumps([self.symbol, self.needs]).encode() + b"\n" + self.binary

    @staticmethod
    def unpack(data: bytes) -> MachineCode:
        """From the bytes that `pack` gave."""
        header, _, binary = data.partition(b"\n")
        symbol, needs = json.loads(header)
        return MachineCode(symbol, tuple(needs), binary)


def flatten_arguments(arguments: Sequence[Any]) -> tuple[tuple[Kind, ...], list[Any]]:
    """The kinds of the arguments, and what machine code takes for them: several numbers for each array.

    Raises:
        TypeError: an argument is no array and no number.
        OverflowError: an int has more than 64 bits.
    """
    kinds: list[Kind] = []
    values: list[Any] = [*_SINK]
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            array = cast(_Array, argument)
            flags = array.flags
            kinds.append((array.dtype, array.ndim, ("C" if flags.c_contiguous else "A") if flags.aligned else "U"))
            values += (None, None, array.size, array.itemsize, address(array), *array.shape, *array.strides)
            continue
        dtype = _DTYPES.get(cast(Any, type(argument)))
        if dtype is None:
            raise TypeError(f"a compiled loop takes arrays and numbers, not {argument!r}")
        kinds.append(dtype)
        values.append(argument if type(argument) in (int, float, bool) else argument.item())
        if type(argument) is int and not -(2**63) <= argument < 2**63:
            raise OverflowError(f"{argument} has more than 64 bits")
    return tuple(kinds), values


def parse_kinds(kinds: str) -> tuple[Kind, ...]:
    """Kinds as they are written: dtypes, those of arrays with their rank, which are C-contiguous.

    >>> parse_kinds("u1[2] f4")
    ((dtype('uint8'), 2, 'C'), dtype('float32'))
    """
    result: list[Kind] = []
    for kind in kinds.split():
        name, array, rank = kind.partition("[")
        result.append((np.dtype(name), int(rank[:-1]), "C") if array else np.dtype(name))
    return tuple(result)


def address(array: NDArray[Any]) -> int:
    """Where the data of an array begin."""
    # the first field of its C structure, which every extension reads; `array.ctypes.data` takes ten times longer
    return ctypes.c_ssize_t.from_address(id(array) + _HEADER).value


def _parameters(kinds: Sequence[Kind]) -> list[tuple[Any, str]]:
    """The parameters of the machine code, as ctypes and as LLVM name them."""
    result = [_POINTER, _POINTER]
    for kind in kinds:
        if isinstance(kind, tuple):
            result += [_POINTER, _POINTER, _SIZE, _SIZE, _POINTER, *[_SIZE] * 2 * kind[1]]
        else:
            result.append(_NUMBERS[kind.str[1:]])
    return result


@functools.cache
def environment() -> str:
    """What machine code depends on besides its loop: the compiler, its settings, the interpreter and the processor."""
    binding = _llvm()
    facts = [metadata.version("numba"), metadata.version("llvmlite"), sys.implementation.cache_tag, _OPTIONS]
    facts += [
        "slp",
        binding.get_process_triple(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
    ]
    return repr((facts, _settings()))


@functools.cache
def environment_ahead() -> str | None:
    """What machine code compiled ahead depends on besides its loop; None where this process cannot run any."""
    binding = _llvm()
    if not binding.get_process_triple().startswith("x86_64"):
        return None
    able = binding.get_host_cpu_features()
    if _settings() or not all(able.get(feature[1:]) for feature in BASELINE[1].split(",")):
        return None
    return repr((sys.implementation.cache_tag, _OPTIONS, binding.get_process_triple(), BASELINE))


def _settings() -> list[tuple[str, str]]:
    return [(name, os.environ[name]) for name in SETTINGS if name in os.environ]


@functools.cache
def _llvm() -> Any:
    binding = cast(Any, import_module("llvmlite.binding"))  # programs without such a loop need not wait for it
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def _numba() -> Any:
    return import_module("numba")  # slow, and only needed where nothing is kept yet


def as_njit(function: Callable[..., Any]) -> Any:
    """A function as numba has it, which may call others of these."""
    dispatcher = _numba().njit(function, **_OPTIONS)
    compiled_call, unliteral = dispatcher.get_call_template, _numba().types.unliteral

    def call_template(args: Sequence[Any], kws: dict[str, Any]) -> Any:
        return compiled_call(tuple([unliteral(arg) for arg in args]), kws)

    # numba compiles a callee once more for an argument that is a constant at first and a variable later; LLVM
    # propagates constants anyway. For the largest loops this was a fifth of the time
    dispatcher.get_call_template = call_template
    return dispatcher


@contextlib.contextmanager
def _vectorized() -> Generator[None]:
    """Let LLVM make one instruction of the same operation on several variables, unless the user says otherwise."""
    config = _numba().config
    before = config.SLP_VECTORIZE
    config.SLP_VECTORIZE = before if "NUMBA_SLP_VECTORIZE" in os.environ else 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


def compile_loop(function: Any, kinds: Sequence[Kind]) -> MachineCode:
    """Compile a loop.

    Args:
        function: what `compilable` gave.
        kinds: of its arguments.

    Raises:
        InternalError: the loop cannot be compiled, or needs more than machine code by itself can do.
    """
    types, of_dtype, failure = _numba().types, _numba().from_dtype, _numba().core.errors.NumbaError
    signature = tuple(
        types.Array(of_dtype(kind[0]), kind[1], kind[2].replace("U", "A"), aligned=kind[2] != "U")
        if isinstance(kind, tuple)
        else of_dtype(kind)
        for kind in kinds
    )
    name = function.__qualname__
    try:
        with _vectorized():
            function.compile(signature)
    except failure as error:
        raise InternalError(f"{name} cannot be compiled: {error}", given=signature) from error
    result = function.overloads[signature]
    if result.signature.return_type != types.none:
        raise InternalError(f"{name} returns something", expected="a compiled loop that writes into its arrays")
    symbol, library = result.fndesc.llvm_func_name, result.library
    module = _llvm().parse_assembly(library.get_llvm_str())
    made = str(module.get_function(symbol).global_value_type)
    expected = f"i32 ({', '.join(name for _, name in _parameters(kinds))})"
    if made != expected:
        raise InternalError("numba compiles to another interface", given=made, expected=expected)
    needs = [each.name for each in module.functions if each.is_declaration and not each.name.startswith("llvm.")]
    if foreign := [each for each in needs if re.match(r"Py|_Py|NRT_|numba_", each)]:
        raise InternalError(
            f"{name} needs numba while it runs", given=", ".join(foreign), expected="loops over the arrays it is given"
        )
    binary = library.serialize_using_object_code()[2][0]
    return MachineCode(symbol, tuple(needs), binary)


def load_machine_code(code: MachineCode, kinds: Sequence[Kind]) -> Native | None:
    """Machine code ready to run; None where this process lacks something that it needs."""
    binding = _llvm()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    if any(binding.address_of_symbol(name) is None for name in code.needs):
        return None  # LLVM would end the process
    engine.add_object_file(binding.ObjectFileRef.from_data(code.binary))
    engine.finalize_object()
    address = engine.get_function_address(code.symbol)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[parameter for parameter, _ in _parameters(kinds)])
    native = prototype(address)
    _engines.append(engine)  # its memory holds the code
    return native


_engines: list[Any] = []
