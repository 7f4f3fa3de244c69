"""Compiled batch loops around numba functions: one call of machine code per batch instead of one per sample.

numba compiles the user's function for the array types of the definition, and around it a loop that builds these arrays
from a table of addresses and extents. The loop calls the function through its address: as a part of the loop, it would
be compiled twice.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Column
from penstock.native.argument_block import address
from penstock.operators.user_code.function_identity import FunctionSnapshot
from penstock.operators.user_code.numpy_function import Kinds

# Shapes of the samples of a column, (rows, axes).
Shapes = NDArray[np.int64]

# Fills the columns of the outputs from those of the inputs: contiguous, writable arrays.
Run = Callable[[Sequence[Column], Sequence[Column]], None]

# Fills the shapes of the outputs from those of the inputs.
Setup = Callable[[Sequence[Shapes], Sequence[Shapes]], None]


# Compiling is slow, and a definition is traced for each block of rows, in debug mode for each batch.
@functools.lru_cache(maxsize=128)
def run_loop(run: FunctionSnapshot, outputs: Kinds, inputs: Kinds, *, by_batch: bool) -> Run:
    """Return a function that computes all samples of a batch: it zeroes the outputs, then calls the user's function.

    A user's function that writes its inputs gets copies, because other operators and another run read the originals.

    Args:
        run: Function of an array per output and input, or of a list with an array per sample for each.
        outputs: Dtype and rank of each output.
        inputs: Dtype and rank of each input.
        by_batch: True if the function takes lists.

    Raises:
        Exception: Any error of numba, if it cannot compile the function.
    """
    if _numba().config.DISABLE_JIT:
        return lambda outs, ins: run_as_python(run.function, outs, list(map(_copy, ins)), by_batch=by_batch)
    types, kinds = _numba().types, outputs + inputs

    def compiled(*, readonly: bool) -> _Call:
        arrays = [
            types.Array(_numba().from_dtype(dtype), ndim, "C", readonly=readonly and number >= len(outputs))
            for number, (dtype, ndim) in enumerate(kinds)
        ]
        return _Call(run.function, [types.List(array) if by_batch else array for array in arrays])

    try:
        call, writes_inputs = compiled(readonly=True), False
    except Exception:  # noqa: BLE001  # numba has no error of its own for writes; any other error comes again below
        call, writes_inputs = compiled(readonly=False), True
    dtypes = {f"dtype{number}": dtype for number, (dtype, _) in enumerate(kinds)}
    loop = call.compiled(_run_source(kinds, len(outputs), by_batch), [types.Array(types.int64, 2, "C")], dtypes)

    def fill(outs: Sequence[Column], ins: Sequence[Column]) -> None:
        if writes_inputs:
            ins = list(map(_copy, ins))
        columns = zip((*outs, *ins), kinds, strict=True)
        loop(call.address, np.hstack([_address_table(column, ndim) for column, (_, ndim) in columns]))

    return fill


@functools.lru_cache(maxsize=128)
def setup_loop(setup: FunctionSnapshot, outputs: int, inputs: int, *, by_batch: bool) -> Setup:
    """Return a function that computes the output shapes of all samples of a batch.

    Args:
        setup: Function of a tuple for the outputs and one for the inputs, with a matrix each that has a row per sample.
        outputs: Number of outputs.
        inputs: Number of inputs.
        by_batch: True if the function takes all samples at once; False for one at a time.

    Raises:
        Exception: Any error of numba, if it cannot compile the function.
    """
    if _numba().config.DISABLE_JIT:
        return functools.partial(setup_as_python, setup.function, by_batch=by_batch)
    types = _numba().types
    arguments = [types.Tuple([types.Array(types.int64, 2, "C")] * count) for count in (outputs, inputs)]
    call = _Call(setup.function, arguments)
    loop = call.compiled(_setup_source(outputs, inputs, by_batch), arguments)
    return lambda outs, ins: loop(call.address, tuple(outs), tuple(ins))


def run_as_python(run: Callable[..., Any], outs: Sequence[Column], ins: Sequence[Column], *, by_batch: bool) -> None:
    """Compute what `run_loop` computes, in Python: for numba's DISABLE_JIT, and as the reference in tests."""
    columns = [
        [column[row, ...] if isinstance(column, np.ndarray) else column[row] for row in range(len(column))]
        for column in (*outs, *ins)
    ]
    for column in columns[: len(outs)]:
        for sample in column:
            sample[...] = 0  # the user's function may leave elements out
    for arrays in [columns] if by_batch else zip(*columns, strict=True):
        run(*arrays)


def setup_as_python(
    setup: Callable[..., Any], outs: Sequence[Shapes], ins: Sequence[Shapes], *, by_batch: bool
) -> None:
    """Compute what `setup_loop` computes, in Python."""
    rows = [slice(None)] if by_batch else [slice(row, row + 1) for row in range(len(outs[0]))]
    for part in rows:
        setup(tuple([shapes[part] for shapes in outs]), tuple([shapes[part] for shapes in ins]))


def _copy(column: Column) -> Column:
    return column.copy() if isinstance(column, np.ndarray) else [sample.copy() for sample in column]


def _address_table(column: Column, ndim: int) -> Shapes:
    """Return a table with the address and the extents of each sample."""
    if not isinstance(column, np.ndarray):
        rows = [(address(sample), *sample.shape) for sample in column]
        return np.array(rows, np.int64).reshape(len(column), 1 + ndim)
    table = np.empty((len(column), 1 + ndim), np.int64)
    table[:, 0] = address(column) + column.strides[0] * np.arange(len(column))
    table[:, 1:] = column.shape[1:]
    return table


def _run_source(kinds: Kinds, outputs: int, by_batch: bool) -> str:
    """Return the source of the loop around a function of arrays.

    Generated per signature, because numba cannot iterate over arrays of different types.
    """
    arrays: list[str] = []
    zeros: list[str] = []
    first = 0
    for number, (dtype, ndim) in enumerate(kinds):
        extents = [f"table[row, {first + 1 + axis}]" for axis in range(ndim)]
        start = f"pointer(table[row, {first}])"
        arrays.append(f"carray({start}, ({''.join(f'{extent}, ' for extent in extents)}), dtype{number})")
        if number < outputs:
            size = " * ".join([str(dtype.itemsize), *extents])
            # numba takes `[:] = 0` for dead code and removes it, but not `fill`.
            zeros.append(f"carray({start}, {size}, uint8).fill(0)")
        first += 1 + ndim
    rows = "for row in range(len(table))"
    if by_batch:
        arrays = [f"[{array} {rows}]" for array in arrays]
    call = f"call(code, ({', '.join(arrays)},))"
    lines = [f"{rows}:", *[f"    {line}" for line in zeros], call if by_batch else f"    {call}"]
    return "\n    ".join(["def loop(code, table):", *lines])


def _setup_source(outputs: int, inputs: int, by_batch: bool) -> str:
    """Return the source of the loop around a function of shapes."""
    part, loop = ("", "") if by_batch else ("[row:row + 1]", "for row in range(len(outs[0])): ")
    outs = "".join(f"outs[{number}]{part}, " for number in range(outputs))
    ins = "".join(f"ins[{number}]{part}, " for number in range(inputs))
    return f"def loop(code, outs, ins):\n    {loop}call(code, (({outs}), ({ins})))"


class _Call:
    """A function compiled to machine code that other machine code calls by address.

    Args:
        function: The user's function, plain or compiled by numba.
        types: numba types of its arguments.
    """

    def __init__(self, function: Any, types: Sequence[Any]) -> None:
        jit = _numba().njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
        # Several threads cannot start numba's parallel functions at once, so these keep the GIL.
        self._nogil = not getattr(function, "targetoptions", {}).get("parallel")
        # The calling convention knows positional arguments only. A compiled wrapper resolves *args and defaults.
        if not _takes_positional(function, len(types)):
            names = ", ".join(f"argument{number}" for number in range(len(types)))
            inner = function if hasattr(function, "py_func") else jit(function)
            function = _define(f"def wrapper({names}): inner({names})", {"inner": inner})
        # Kept as an attribute: the machine code is freed with the dispatcher.
        self._compiled = dispatcher = jit(function)
        dispatcher.compile(tuple(types))
        result = dispatcher.overloads[tuple(types)]
        self.address = int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
        self._result = result.signature.return_type

    def compiled(self, text: str, types: Sequence[Any], names: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """Compile a loop that calls the function.

        Args:
            text: Source of a function `loop`, whose first argument is the address, and which calls `call(code,
                arguments)`.
            types: numba types of its other arguments.
            names: Further globals of the source.
        """
        numba = _numba()
        known = {
            "call": _caller(self._result),
            "pointer": _pointer(),
            "carray": numba.carray,
            "uint8": np.uint8,
            **names,
        }
        signature = (numba.types.int64, *types)
        return numba.njit(signature, nogil=self._nogil, no_cfunc_wrapper=True)(_define(text, known))


def _takes_positional(function: Any, count: int) -> bool:
    """Return True if a function has exactly this many positional parameters without defaults."""
    if not inspect.isfunction(function):
        return not hasattr(function, "py_func")  # numba rejects other objects with a better message
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    plain = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    return len(plain) == len(parameters) == count


def _define(text: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that a source defines. All sources are generated in this module."""
    known = dict(names)
    exec(text, known)
    return known[text.removeprefix("def ").partition("(")[0]]


@functools.cache
def _numba() -> Any:
    return import_module("numba")  # slow, and only needed here


@functools.cache
def _pointer() -> Any:
    """Return the numba intrinsic that turns an address into a pointer for `numba.carray`."""
    numba = _numba()

    def pointer(_: Any, number: Any) -> Any:
        def lower(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

        return numba.types.voidptr(number), lower

    return numba.extending.intrinsic(pointer)


@functools.cache
def _caller(result: Any) -> Any:
    """Return the numba intrinsic that calls the machine code at an address.

    Args:
        result: numba type of the function's result, which is dropped. A failure of the function is propagated.
    """
    numba = _numba()

    def call(_: Any, code: Any, arguments: Any) -> Any:
        def lower(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            types = tuple(signature.args[1])
            kind = target.call_conv.get_function_type(result, types)
            function = builder.inttoptr(values[0], kind.as_pointer())
            arguments = numba.core.cgutils.unpack_tuple(builder, values[1], len(types))
            status, returned = target.call_conv.call_function(builder, function, result, types, arguments)
            with numba.core.cgutils.if_unlikely(builder, status.is_error):
                target.call_conv.return_status_propagate(builder, status)
            # The caller owns the result: without this, a function that returns an array would leak it.
            target.nrt.decref(builder, result, returned)
            return target.get_dummy_value()

        return numba.types.void(code, arguments), lower

    return numba.extending.intrinsic(call)
