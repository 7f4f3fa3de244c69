"""Machine code of a compiled loop: compiled by numba, cached as bytes, called through ctypes.

Machine code runs without numba: importing numba and calling the first function takes about as long as a first batch,
but loading machine code takes milliseconds. So a loop must not need numba's runtime: it takes arrays and numbers,
writes to its arrays, and allocates and returns nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import import_module, metadata
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.dataclass import dataclass
from penstock.errors import InternalError

# Kind of an argument: the dtype of a number; or the dtype, rank and layout of an array.
Kind = np.dtype[Any] | tuple[np.dtype[Any], int, str]

# Loaded machine code. Takes the values of `flatten_arguments`, and returns 0 unless it raised an exception.
Native = Callable[..., int]

# Options of numba: no wrappers for calls from Python and C, and no runtime, which allocates memory.
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}

# The processor that release builds compile for: LLVM's name of it, and the features that `environment_ahead` requires.
BASELINE = "x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"

# Environment variables that change the code numba generates.
SETTINGS = tuple(
    f"NUMBA_{name}"
    for name in (
        "BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO", "DISABLE_INTEL_SVML", "ENABLE_AVX", "LOOP_VECTORIZE",
        "OPT", "SLP_VECTORIZE",
    )
)  # fmt: skip

# Types of numbers in ctypes and in LLVM, by NumPy's codes.
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

_INT, _POINTER, _SIZE = np.dtype(np.int64), (ctypes.c_void_p, "ptr"), (ctypes.c_int64, "i64")
# Dtypes of numbers, by type.
_DTYPES: dict[type, np.dtype[Any]] = {
    **{np.dtype(name).type: np.dtype(name) for name in _NUMBERS},
    int: _INT,
    float: np.dtype(np.float64),
    bool: np.dtype(np.bool_),
}

# Evaluating `NDArray[Any]` in each call would double the time of a call.
_Array = NDArray[Any]

# Memory for the result and the exception of a loop. It is never read, so all threads can share it.
_sink = (ctypes.c_void_p * 2)()
_SINK = (ctypes.addressof(_sink), ctypes.addressof(_sink) + ctypes.sizeof(ctypes.c_void_p))

# Bytes of the header of a Python object, which NumPy's structure of an array follows.
OBJECT_HEADER = object.__basicsize__


@dataclass(frozen=True)
class MachineCode:
    """Compiled object file of a loop.

    Args:
        symbol: The name of the loop in the object file.
        needs: The names of external functions that it calls.
        binary: The object file.
    """

    symbol: str
    needs: tuple[str, ...]
    binary: bytes

    def pack(self) -> bytes:
        """Convert to bytes for the cache."""
        return json.dumps([self.symbol, self.needs]).encode() + b"\n" + self.binary

    @staticmethod
    def unpack(data: bytes) -> MachineCode:
        """Convert from the bytes of `pack`."""
        header, _, binary = data.partition(b"\n")
        symbol, needs = json.loads(header)
        return MachineCode(symbol, tuple(needs), binary)


def flatten_arguments(arguments: Sequence[Any]) -> tuple[tuple[Kind, ...], list[Any]]:
    """Return the kinds of the arguments, and the values that machine code takes: several numbers for each array.

    Raises:
        TypeError: an argument is neither an array nor a number.
        OverflowError: an int has more than 64 bits.
    """
    kinds: list[Kind] = []
    values: list[Any] = [*_SINK]
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            array = cast(_Array, argument)
            flags = array.flags
            kinds.append((array.dtype, array.ndim, ("C" if flags.c_contiguous else "A") if flags.aligned else "U"))
            # The fields of numba's array structure. The first two, meminfo and parent, are unused without its runtime.
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


def with_first_array(values: Sequence[Any], array: NDArray[Any]) -> list[Any]:
    """Return the values of bound arguments, converted for ctypes, with another one-dimensional array as the first."""
    size = ctypes.c_int64(array.size)
    # As in `flatten_arguments`: the result, the exception, meminfo and parent; size, itemsize, address, shape, strides.
    return [*values[:4], size, values[5], ctypes.c_void_p(address(array)), size, *values[8:]]


def parse_kinds(kinds: str) -> tuple[Kind, ...]:
    """Parse kinds of arguments: dtypes, with the rank in brackets for C-contiguous arrays.

    >>> parse_kinds("u1[2] f4")
    ((dtype('uint8'), 2, 'C'), dtype('float32'))
    """
    result: list[Kind] = []
    for kind in kinds.split():
        name, array, rank = kind.partition("[")
        result.append((np.dtype(name), int(rank[:-1]), "C") if array else np.dtype(name))
    return tuple(result)


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's data."""
    # The first field of NumPy's C structure, after the object header; it is part of NumPy's ABI. `array.ctypes.data`
    # takes 3 us in place of 0.2 us, for every array in every call of a loop.
    return ctypes.c_ssize_t.from_address(id(array) + OBJECT_HEADER).value


def addresses(arrays: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the addresses of several arrays' data, int64 (arrays,), without a call of Python for each."""
    read = ctypes.c_ssize_t.from_address
    return np.array([read(id(array) + OBJECT_HEADER).value for array in arrays], np.int64)


def _parameters(kinds: Sequence[Kind]) -> list[tuple[Any, str]]:
    """Return the types of the parameters, of ctypes and of LLVM."""
    # Numba's calling convention: pointers to the result and to the exception come first.
    result = [_POINTER, _POINTER]
    for kind in kinds:
        if isinstance(kind, tuple):
            result += [_POINTER, _POINTER, _SIZE, _SIZE, _POINTER, *[_SIZE] * 2 * kind[1]]
        else:
            result.append(_NUMBERS[kind.str[1:]])
    return result


@functools.cache
def environment() -> str:
    """Return everything else that machine code depends on: compiler, settings, interpreter and processor."""
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
    """Return everything else that code of release builds depends on; None if this process cannot run it."""
    binding = _llvm()
    if not binding.get_process_triple().startswith("x86_64"):
        return None
    features = binding.get_host_cpu_features()
    if _settings() or not all(features.get(feature[1:]) for feature in BASELINE[1].split(",")):
        return None
    return repr((sys.implementation.cache_tag, _OPTIONS, binding.get_process_triple(), BASELINE))


def _settings() -> list[tuple[str, str]]:
    return [(name, os.environ[name]) for name in SETTINGS if name in os.environ]


@functools.cache
def _llvm() -> Any:
    # Imported late, because programs without compiled loops do not need it.
    binding = cast(Any, import_module("llvmlite.binding"))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@functools.cache
def _numba() -> Any:
    # Slow, and only needed if the cache does not have a loop.
    return import_module("numba")


def as_njit(function: Callable[..., Any]) -> Any:
    """Return a function as a numba dispatcher, which may call other dispatchers."""
    dispatcher = _numba().njit(function, **_OPTIONS)
    compiled_call, unliteral = dispatcher.get_call_template, _numba().types.unliteral

    def call_template(args: Sequence[Any], kws: dict[str, Any]) -> Any:
        return compiled_call(tuple([unliteral(arg) for arg in args]), kws)

    # Numba compiles a callee twice if an argument is a constant in one call and a variable in another. LLVM propagates
    # constants anyway. For the largest loops, the second compilation took a fifth of the time.
    dispatcher.get_call_template = call_template
    return dispatcher


def external_function(name: str, result: str, *arguments: str) -> Any:
    """Return a function of a library that dispatchers may call. Its kinds are those of numbers."""
    numba = _numba()
    kinds = [numba.from_dtype(np.dtype(kind)) for kind in (result, *arguments)]
    return numba.types.ExternalFunction(name, kinds[0](*kinds[1:]))


def register_function(name: str, address: int) -> None:
    """Let machine code find a function of a library whose names the process does not share."""
    _llvm().add_symbol(name, address)


def c_type(kind: str) -> Any:
    """Return the type of a kind of number in ctypes."""
    return _NUMBERS[kind][0]


@contextlib.contextmanager
def _vectorized() -> Generator[None]:
    """Enable LLVM's SLP vectorizer, which numba disables, unless the user has set it."""
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
        function: A dispatcher from `as_njit`.
        kinds: The kinds of its arguments.

    Raises:
        InternalError: the loop cannot be compiled, or needs numba's runtime.
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
    interface = str(module.get_function(symbol).global_value_type)
    expected = f"i32 ({', '.join(name for _, name in _parameters(kinds))})"
    # A later numba may change its calling convention.
    if interface != expected:
        raise InternalError("numba compiles to another interface", given=interface, expected=expected)
    needs = [item.name for item in module.functions if item.is_declaration and not item.name.startswith("llvm.")]
    if runtime := [item for item in needs if re.match(r"Py|_Py|NRT_|numba_", item)]:
        raise InternalError(
            f"{name} needs numba at run time", given=", ".join(runtime), expected="loops over the arrays it is given"
        )
    binary = library.serialize_using_object_code()[2][0]
    return MachineCode(symbol, tuple(needs), binary)


def load_machine_code(code: MachineCode, kinds: Sequence[Kind]) -> Native | None:
    """Load machine code; None if this process lacks a function that it needs."""
    binding = _llvm()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    # LLVM would abort the process.
    if any(binding.address_of_symbol(name) is None for name in code.needs):
        return None
    engine.add_object_file(binding.ObjectFileRef.from_data(code.binary))
    engine.finalize_object()
    address = engine.get_function_address(code.symbol)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *[parameter for parameter, _ in _parameters(kinds)])
    native = prototype(address)
    # The engine owns the memory of the code.
    _engines.append(engine)
    return native


_engines: list[Any] = []
