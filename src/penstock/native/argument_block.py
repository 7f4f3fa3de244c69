"""Arguments of compiled loops: their kinds, and the block of memory in which machine code takes them.

ctypes converts each argument in each call, and an array has as many as numba's structure of an array has fields. For a
loop that takes ten arrays, that takes longer than the work on a small image, and it holds the GIL. So loops have an
entry that takes one argument: the address of a block that holds all values, eight bytes each.
"""

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

# Kind of an argument: the dtype of a number; or the dtype, rank and layout of an array.
Kind = np.dtype[Any] | tuple[np.dtype[Any], int, str]

# Types of numbers in ctypes, in LLVM and in the format of a block, by NumPy's codes.
_NUMBERS: dict[str, tuple[Any, str, str]] = {
    "b1": (ctypes.c_bool, "i8", "?7x"),
    "i1": (ctypes.c_int8, "i8", "b7x"),
    "i2": (ctypes.c_int16, "i16", "h6x"),
    "i4": (ctypes.c_int32, "i32", "i4x"),
    "i8": (ctypes.c_int64, "i64", "q"),
    "u1": (ctypes.c_uint8, "i8", "B7x"),
    "u2": (ctypes.c_uint16, "i16", "H6x"),
    "u4": (ctypes.c_uint32, "i32", "I4x"),
    "u8": (ctypes.c_uint64, "i64", "Q"),
    "f4": (ctypes.c_float, "float", "f4x"),
    "f8": (ctypes.c_double, "double", "d"),
}

_INT = np.dtype(np.int64)
# Dtypes of numbers, by type.
_DTYPES: dict[type, np.dtype[Any]] = {
    **{np.dtype(name).type: np.dtype(name) for name in _NUMBERS},
    int: _INT,
    float: np.dtype(np.float64),
    bool: np.dtype(np.bool_),
}

# The values of an array of one axis, and of two ints.
_ONE_AXIS, _TWO_INTS = struct.Struct("=4q"), struct.Struct("=2q")

# Evaluating `NDArray[Any]` in each call would double the time of a call.
_Array = NDArray[Any]

# Bytes of the header of a Python object, which NumPy's structure of an array follows.
OBJECT_HEADER = object.__basicsize__


def address(array: NDArray[Any]) -> int:
    """Return the address of an array's data."""
    # The first field of NumPy's C structure, after the object header; it is part of NumPy's ABI. `array.ctypes.data`
    # takes 3 us in place of 0.2 us, for every array in every call of a loop.
    return ctypes.c_ssize_t.from_address(id(array) + OBJECT_HEADER).value


def addresses(arrays: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Return the addresses of several arrays' data, int64 (arrays,), without a call of Python for each."""
    read = ctypes.c_ssize_t.from_address
    return np.array([read(id(array) + OBJECT_HEADER).value for array in arrays], np.int64)


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


def c_type(kind: str) -> Any:
    """Return the type of a kind of number in ctypes."""
    return _NUMBERS[kind][0]


def flatten_arguments(arguments: Sequence[Any]) -> tuple[tuple[Kind, ...], list[Any]]:
    """Return the kinds of the arguments, and the values in a block: several numbers for each array.

    Raises:
        TypeError: an argument is neither an array nor a number.
        OverflowError: an int has more than 64 bits.
    """
    kinds: list[Kind] = []
    values: list[Any] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            array = cast(_Array, argument)
            flags = array.flags
            kinds.append((array.dtype, array.ndim, ("C" if flags.c_contiguous else "A") if flags.aligned else "U"))
            values += (address(array), array.size, *array.shape, *array.strides)
            continue
        dtype = _DTYPES.get(cast(Any, type(argument)))
        if dtype is None:
            raise TypeError(f"a compiled loop takes arrays and numbers, not {argument!r}")
        kinds.append(dtype)
        values.append(argument if type(argument) in (int, float, bool) else argument.item())
        if type(argument) is int and not -(2**63) <= argument < 2**63:
            raise OverflowError(f"{argument} has more than 64 bits")
    return tuple(kinds), values


def packer(kinds: Sequence[Kind]) -> Callable[..., bytes]:
    """Return a function that makes a block of the values of `flatten_arguments`."""
    formats = [f"{2 + 2 * kind[1]}q" if isinstance(kind, tuple) else _NUMBERS[kind.str[1:]][2] for kind in kinds]
    return struct.Struct("=" + "".join(formats)).pack


def without_last_two(block: bytes) -> bytes:
    """Return a block without its last two values, two ints."""
    return block[: -_TWO_INTS.size]


def with_last_two(block: bytes, first: int, last: int) -> bytes:
    """Return a block with two more ints."""
    return block + _TWO_INTS.pack(first, last)


def with_first_array(block: bytes, array: NDArray[Any]) -> bytes:
    """Return a block with another one-dimensional array, C-contiguous and of the same dtype, as the first argument."""
    return _ONE_AXIS.pack(address(array), array.size, array.size, array.itemsize) + block[_ONE_AXIS.size :]


def interface(kinds: Sequence[Kind]) -> list[str]:
    """Return the types of the parameters of a loop that numba compiles, in LLVM."""
    # Numba's calling convention: pointers to the result and to the exception come first.
    result = ["ptr", "ptr"]
    for kind in kinds:
        if isinstance(kind, tuple):
            # The structure of an array: memory, parent, size, size of an element, address, extents and strides.
            result += ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * 2 * kind[1]]
        else:
            result.append(_NUMBERS[kind.str[1:]][1])
    return result


def entry_code(name: str, loop: str, kinds: Sequence[Kind]) -> str:
    """Return LLVM code of a function that takes a block and calls a loop that numba compiles.

    Args:
        name: Name of the function.
        loop: Name of the loop.
        kinds: Kinds of the loop's arguments.
    """
    # The result and the exception are not used, nor are the fields `memory` and `parent` of arrays.
    lines, arguments = ["%result = alloca ptr", "%exception = alloca ptr"], ["ptr %result", "ptr %exception"]

    def load(kind: str) -> str:
        number = (len(lines) - 2) // 2
        lines.append(f"%place{number} = getelementptr i64, ptr %block, i64 {number}")
        lines.append(f"%value{number} = load {kind}, ptr %place{number}, align 1")
        return f"{kind} %value{number}"

    for kind in kinds:
        if isinstance(kind, tuple):
            dtype, rank, _ = kind
            place, size, *rest = [load(type_) for type_ in ("ptr", "i64", *["i64"] * 2 * rank)]
            arguments += ["ptr null", "ptr null", size, f"i64 {dtype.itemsize}", place, *rest]
        else:
            arguments.append(load(_NUMBERS[kind.str[1:]][1]))
    lines += [f'%failed = call i32 @"{loop}"({", ".join(arguments)})', "ret i32 %failed"]
    declaration = f'declare i32 @"{loop}"({", ".join(interface(kinds))})'
    return "\n".join([declaration, f'define i32 @"{name}"(ptr %block) {{', *lines, "}"])
