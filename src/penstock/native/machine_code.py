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
from collections.abc import Callable, Generator, Sequence
from importlib import import_module, metadata
from typing import Any, cast

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.errors import InternalError
from penstock.native.argument_block import Kind, entry_code, interface, packer

# Options of numba: no wrappers for calls from Python and C, and no runtime, which allocates memory.
_OPTIONS = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}

# How the code is compiled and stored, which its key in the cache names.
_FORMAT = ("slp", "entry")

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


@dataclass(frozen=True)
class MachineCode:
    """Compiled object files of a loop and of its entry.

    Args:
        symbol: The name of the entry.
        needs: The names of external functions that the loop calls.
        entry: The object file of the entry.
        loop: The object file of the loop.
    """

    symbol: str
    needs: tuple[str, ...]
    entry: bytes
    loop: bytes

    def pack(self) -> bytes:
        """Convert to bytes for the cache."""
        return json.dumps([self.symbol, self.needs, len(self.entry)]).encode() + b"\n" + self.entry + self.loop

    @staticmethod
    def unpack(data: bytes) -> MachineCode:
        """Convert from the bytes of `pack`."""
        header, _, binaries = data.partition(b"\n")
        symbol, needs, size = json.loads(header)
        return MachineCode(symbol, tuple(needs), binaries[:size], binaries[size:])


@dataclass(frozen=True)
class Native:
    """Loaded machine code of a loop.

    Args:
        pack: Makes a block of the values of `flatten_arguments`.
        call: Runs the loop with a block: the entry. Returns 0 unless the loop raised an exception.
        address: The address of the entry.
    """

    pack: Callable[..., bytes]
    call: Callable[[bytes], int]
    address: int


@functools.cache
def environment() -> str:
    """Return everything else that machine code depends on: compiler, settings, interpreter and processor."""
    binding = _llvm()
    facts = [metadata.version("numba"), metadata.version("llvmlite"), sys.implementation.cache_tag, _OPTIONS]
    facts += [
        *_FORMAT,
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
    return repr((sys.implementation.cache_tag, _OPTIONS, _FORMAT, binding.get_process_triple(), BASELINE))


def _settings() -> list[tuple[str, str]]:
    return [(name, os.environ[name]) for name in SETTINGS if name in os.environ]


@functools.cache
def _llvm() -> Any:
    # Imported late, because programs without compiled loops do not need it.
    binding = cast(Any, import_module("llvmlite.binding"))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


def _target_machine() -> Any:
    """Return a code generator for the processor, without optimizations: entries have nothing to optimize."""
    binding = _llvm()
    return binding.Target.from_triple(binding.get_process_triple()).create_target_machine(jit=True, opt=0)


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


def entry_call() -> Any:
    """Return a function for dispatchers that calls the entry of another loop: of the addresses of entry and block."""
    types, extending, ir = _numba().types, import_module("numba.extending"), import_module("llvmlite.ir")

    @extending.intrinsic
    def call(_context: Any, _entry: Any, _block: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Sequence[Any]) -> Any:
            pointer = ir.IntType(8).as_pointer()
            function = ir.FunctionType(ir.IntType(32), [pointer])
            entry = builder.inttoptr(arguments[0], function.as_pointer())
            return builder.call(entry, [builder.inttoptr(arguments[1], pointer)])

        return types.int32(types.int64, types.int64), generate

    return call


def register_function(name: str, address: int) -> None:
    """Let machine code find a function of a library whose names the process does not share."""
    _llvm().add_symbol(name, address)


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
    given = str(module.get_function(symbol).global_value_type)
    expected = f"i32 ({', '.join(interface(kinds))})"
    # A later numba may change its calling convention.
    if given != expected:
        raise InternalError("numba compiles to another interface", given=given, expected=expected)
    needs = [item.name for item in module.functions if item.is_declaration and not item.name.startswith("llvm.")]
    if runtime := [item for item in needs if re.match(r"Py|_Py|NRT_|numba_", item)]:
        raise InternalError(
            f"{name} needs numba at run time", given=", ".join(runtime), expected="loops over the arrays it is given"
        )
    entry = f"{symbol}.entry"
    module = _llvm().parse_assembly(entry_code(entry, symbol, kinds))
    return MachineCode(
        entry, tuple(needs), _target_machine().emit_object(module), library.serialize_using_object_code()[2][0]
    )


def load_machine_code(code: MachineCode, kinds: Sequence[Kind]) -> Native | None:
    """Load machine code; None if this process lacks a function that it needs."""
    binding = _llvm()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    # LLVM would abort the process.
    if any(binding.address_of_symbol(name) is None for name in code.needs):
        return None
    for file in (code.loop, code.entry):
        engine.add_object_file(binding.ObjectFileRef.from_data(file))
    engine.finalize_object()
    # The engine owns the memory of the code.
    _engines.append(engine)
    address = engine.get_function_address(code.symbol)
    return Native(packer(kinds), ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(address), address)


_engines: list[Any] = []
