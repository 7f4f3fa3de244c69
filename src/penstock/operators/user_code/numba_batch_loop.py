"""A user's function as machine code that computes a whole batch: the interpreter is left once, not for each sample.

numba compiles the function for arrays of the kinds that the definition tells, and around it a loop that makes these
arrays from a table of addresses and extents. The loop calls the function by its address: were it part of the loop,
it would be compiled twice.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Column
from penstock.native.machine_code import address
from penstock.operators.user_code.function_identity import FunctionSnapshot
from penstock.operators.user_code.numpy_function import Kinds

Shapes = NDArray[np.int64]
"""The shape of each sample of a column, (rows, axes)."""

Run = Callable[[Sequence[Column], Sequence[Column]], None]
"""Fills the columns of the outputs, given those of the inputs: contiguous arrays that may be written."""

Setup = Callable[[Sequence[Shapes], Sequence[Shapes]], None]
"""Fills the shapes of the outputs, given those of the inputs."""


@functools.lru_cache(maxsize=128)  # a definition is traced for each block of rows, and in debug mode for each batch
def run_loop(run: FunctionSnapshot, outputs: Kinds, inputs: Kinds, *, by_batch: bool) -> Run:
    """What computes all samples of a batch: it fills the outputs with zeros, and lets the user's function go on.

    Args:
        run: takes an array per output and input, or a list of as many arrays as the batch has samples.
        outputs: of which kind they are.
        inputs: likewise.
        by_batch: whether it takes lists.

    Raises:
        Exception: what numba raises where it cannot compile the function.
    """
    if _numba().config.DISABLE_JIT:
        return functools.partial(run_as_python, run.function, by_batch=by_batch)
    types, kinds = _numba().types, outputs + inputs
    arrays = [types.Array(_numba().from_dtype(dtype), ndim, "C") for dtype, ndim in kinds]
    call = _Call(run.function, [types.List(array) if by_batch else array for array in arrays])
    dtypes = {f"dtype{number}": dtype for number, (dtype, _) in enumerate(kinds)}
    loop = call.compiled(_run_text(kinds, len(outputs), by_batch), [types.Array(types.int64, 2, "C")], dtypes)

    def fill(outs: Sequence[Column], ins: Sequence[Column]) -> None:
        columns = zip((*outs, *ins), kinds, strict=True)
        loop(call.address, np.hstack([_rows(column, ndim) for column, (_, ndim) in columns]))

    return fill


@functools.lru_cache(maxsize=128)
def setup_loop(setup: FunctionSnapshot, outputs: int, inputs: int, *, by_batch: bool) -> Setup:
    """What says the shapes of so many outputs for those of so many inputs, for all samples of a batch.

    Args:
        setup: takes, for outputs and inputs, a tuple with a matrix for each, which has a row per sample.
        outputs: how many.
        inputs: likewise.
        by_batch: whether it is given all samples at once, and not one at a time.

    Raises:
        Exception: what numba raises where it cannot compile the function.
    """
    if _numba().config.DISABLE_JIT:
        return functools.partial(setup_as_python, setup.function, by_batch=by_batch)
    types = _numba().types
    given = [types.Tuple([types.Array(types.int64, 2, "C")] * count) for count in (outputs, inputs)]
    call = _Call(setup.function, given)
    loop = call.compiled(_setup_text(outputs, inputs, by_batch), given)
    return lambda outs, ins: loop(call.address, tuple(outs), tuple(ins))


def run_as_python(run: Callable[..., Any], outs: Sequence[Column], ins: Sequence[Column], *, by_batch: bool) -> None:
    """What `run_loop` makes, sample by sample: where numba is told to compile nothing, and what the loop must equal."""
    columns = [
        [column[row, ...] if isinstance(column, np.ndarray) else column[row] for row in range(len(column))]
        for column in (*outs, *ins)
    ]
    for column in columns[: len(outs)]:
        for sample in column:
            sample[...] = 0
    for arrays in [columns] if by_batch else zip(*columns, strict=True):
        run(*arrays)


def setup_as_python(
    setup: Callable[..., Any], outs: Sequence[Shapes], ins: Sequence[Shapes], *, by_batch: bool
) -> None:
    """What `setup_loop` makes, likewise."""
    rows = [slice(None)] if by_batch else [slice(row, row + 1) for row in range(len(outs[0]))]
    for some in rows:
        setup(tuple([shapes[some] for shapes in outs]), tuple([shapes[some] for shapes in ins]))


def _rows(column: Column, ndim: int) -> Shapes:
    """Per sample its address and its extents."""
    if not isinstance(column, np.ndarray):
        return np.array([(address(each), *each.shape) for each in column], np.int64).reshape(len(column), 1 + ndim)
    rows = np.empty((len(column), 1 + ndim), np.int64)
    rows[:, 0] = address(column) + column.strides[0] * np.arange(len(column))
    rows[:, 1:] = column.shape[1:]
    return rows


def _run_text(kinds: Kinds, outputs: int, by_batch: bool) -> str:
    """The loop around a function of arrays, as a text: what differs in type is no sequence to numba."""
    arrays: list[str] = []
    zeros: list[str] = []
    first = 0
    for number, (dtype, ndim) in enumerate(kinds):
        extents = [f"table[row, {first + 1 + axis}]" for axis in range(ndim)]
        start = f"pointer(table[row, {first}])"
        arrays.append(f"carray({start}, ({''.join(f'{extent}, ' for extent in extents)}), dtype{number})")
        if number < outputs:
            size = " * ".join([str(dtype.itemsize), *extents])
            zeros.append(f"carray({start}, {size}, uint8).fill(0)")  # numba takes [:] = 0 for dead code, and removes it
        first += 1 + ndim
    rows = "for row in range(len(table))"
    if by_batch:
        arrays = [f"[{array} {rows}]" for array in arrays]
    call = f"call(code, ({', '.join(arrays)},))"
    lines = [f"{rows}:", *[f"    {line}" for line in zeros], call if by_batch else f"    {call}"]
    return "\n    ".join(["def loop(code, table):", *lines])


def _setup_text(outputs: int, inputs: int, by_batch: bool) -> str:
    """The loop around a function of shapes."""
    some, each = ("", "") if by_batch else ("[row:row + 1]", "for row in range(len(outs[0])): ")
    outs = "".join(f"outs[{number}]{some}, " for number in range(outputs))
    ins = "".join(f"ins[{number}]{some}, " for number in range(inputs))
    return f"def loop(code, outs, ins):\n    {each}call(code, (({outs}), ({ins})))"


class _Call:
    """A function as machine code that other machine code calls.

    Args:
        function: the user's, or what the user made of it with numba.
        types: of its arguments.
    """

    def __init__(self, function: Any, types: Sequence[Any]) -> None:
        jit = _numba().njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
        # numba's own threads cannot be started by several threads at once
        self._nogil = not getattr(function, "targetoptions", {}).get("parallel")
        if not _takes(function, len(types)):
            names = ", ".join(f"argument{number}" for number in range(len(types)))
            inner = function if hasattr(function, "py_func") else jit(function)
            function = _defined(f"def passing_on({names}): inner({names})", {"inner": inner})
        self._compiled = made = jit(function)
        made.compile(tuple(types))
        result = made.overloads[tuple(types)]
        self.address = int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))
        self._result = result.signature.return_type

    def compiled(self, text: str, types: Sequence[Any], names: Mapping[str, Any] = MappingProxyType({})) -> Any:
        """A loop that calls it.

        Args:
            text: defines `loop`, whose first argument is the address, in terms of `call(code, arguments)`.
            types: of its other arguments.
            names: what else it needs.
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
        return numba.njit(signature, nogil=self._nogil, no_cfunc_wrapper=True)(_defined(text, known))


def _takes(function: Any, count: int) -> bool:
    """Whether a function has exactly so many parameters, as machine code has them."""
    if not inspect.isfunction(function):
        return not hasattr(function, "py_func")  # numba says what else is wrong
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    plain = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty]
    return len(plain) == len(parameters) == count


def _defined(text: str, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that a text defines, in words of this module alone."""
    known = dict(names)
    exec(text, known)
    return known[text.removeprefix("def ").partition("(")[0]]


@functools.cache
def _numba() -> Any:
    return import_module("numba")  # slow, and only needed here


@functools.cache
def _pointer() -> Any:
    """What turns an address into what `numba.carray` takes."""
    numba = _numba()

    def pointer(_: Any, number: Any) -> Any:
        def made(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

        return numba.types.voidptr(number), made

    return numba.extending.intrinsic(pointer)


@functools.cache
def _caller(result: Any) -> Any:
    """What calls the machine code at an address, which returns a result of this type, or fails as a whole."""
    numba = _numba()

    def call(_: Any, code: Any, arguments: Any) -> Any:
        def made(target: Any, builder: Any, signature: Any, values: Any) -> Any:
            types = tuple(signature.args[1])
            kind = target.call_conv.get_function_type(result, types)
            function = builder.inttoptr(values[0], kind.as_pointer())
            given = numba.core.cgutils.unpack_tuple(builder, values[1], len(types))
            status, returned = target.call_conv.call_function(builder, function, result, types, given)
            with numba.core.cgutils.if_unlikely(builder, status.is_error):
                target.call_conv.return_status_propagate(builder, status)
            target.nrt.decref(builder, result, returned)
            return target.get_dummy_value()

        return numba.types.void(code, arguments), made

    return numba.extending.intrinsic(call)
