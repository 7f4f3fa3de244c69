"""Fields of NumPy's arrays for compiled loops, which read them from the C structures of many arrays in one call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Indices
from penstock.native.argument_block import OBJECT_HEADER
from penstock.native.c_function import CFunction
from penstock.native.compiled import Compiled

copy_bytes = CFunction("memcpy", "i8", "i8 i8 i8")

# Fields of NumPy's structure, eight bytes each, in the order that its ABI fixes: address of the data, number of axes,
# addresses of the extents and of the strides.
FIELDS = 4


def references(arrays: Sequence[NDArray[Any]]) -> Indices:
    """Return the addresses of arrays as Python objects, int64 (arrays,). The caller keeps the arrays alive."""
    return np.fromiter(map(id, arrays), np.int64, len(arrays))


@Compiled
def locate_bytes(array: int, fields: Array, fields_address: int) -> int:
    """Return the number of bytes of an array, and write the address of the first one to `fields[0]`.

    Args:
        array: Address of the array as a Python object.
        fields: int64 (FIELDS,), memory for fields.
        fields_address: Address of `fields`.

    Returns:
        0 unless the array has one axis, along which bytes are consecutive.
    """
    copy_bytes(fields_address, array + OBJECT_HEADER, 8 * FIELDS)
    address, axes, extents, strides = fields[0], fields[1] & 0xFFFFFFFF, fields[2], fields[3]
    if axes != 1:
        return 0
    copy_bytes(fields_address, strides, 8)
    stride = fields[0]
    copy_bytes(fields_address, extents, 8)
    size = fields[0]
    fields[0] = address
    return size if stride == 1 else 0
