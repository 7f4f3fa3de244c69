"""The words a user writes: data types, image types, interpolation, last-batch policies, constants.

The names are DALI's (`types.FLOAT`, `types.RGB`, `types.INTERP_LINEAR`), so that a definition written for DALI reads
the same here. Where DALI asks for one of its data types, penstock also takes anything NumPy accepts as a dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

import numpy as np

from penstock.errors import ArgumentTypeError, did_you_mean


class DALIDataType(IntEnum):
    """The element types of a value. The integers are DALI's, so that stored configurations keep their meaning.

    >>> DALIDataType.FLOAT.numpy
    dtype('float32')
    """

    NO_TYPE = -1
    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    UINT64 = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    FLOAT16 = 8
    FLOAT = 9
    FLOAT64 = 10
    BOOL = 11

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same name and width."""
        return np.dtype({"FLOAT": "float32", "BOOL": "bool"}.get(self.name, self.name.lower()))


class DALIImageType(IntEnum):
    """What a decoder makes of an image: which channels, in which order."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIInterpType(IntEnum):
    """How a resize weighs the pixels around a point."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class LastBatchPolicy(Enum):
    """What an iterator does with the last batch of an epoch that the data does not fill."""

    FILL = 0
    """Complete it with the first samples of the same epoch's order."""
    DROP = 1
    """Leave it out."""
    PARTIAL = 2
    """Deliver the remainder as it is; legal where the sharding divides it."""
    PAD = 3
    """Complete it as FILL does and add an output ``valid``, False for the rows that were added. Not in DALI."""


class LabelType(IntEnum):
    """How `fn.readers.caffe2` reads the protos after the image."""

    SINGLE_LABEL = 0
    MULTI_LABEL_SPARSE = 1
    MULTI_LABEL_DENSE = 2
    MULTI_LABEL_WEIGHTED_SPARSE = 3
    NO_LABEL = 4


@dataclass(frozen=True, eq=False)
class Constant:
    """A value that is the same for every sample, with its dtype.

    A bare Python number in a definition counts as int32, float32 or bool, as in DALI; `Constant` says otherwise.

    Args:
        value: a number, a (nested) list of numbers or an array; the shape is that of one sample.
        dtype: the element type; None keeps an array's own and gives Python numbers the type named above.
        layout: the names of the axes, such as "HWC"; empty where they have none.
    """

    value: Any
    dtype: Any = None
    layout: str = ""

    def array(self) -> np.ndarray[Any, Any]:
        """The value as an array of its dtype.

        >>> Constant([1, 2]).array().dtype
        dtype('int32')
        """
        array = np.asarray(self.value)
        if self.dtype is not None:
            return array.astype(as_dtype(self.dtype))
        if isinstance(self.value, np.ndarray | np.generic):
            return array
        return array.astype({"f": np.float32, "i": np.int32, "u": np.int32}.get(array.dtype.kind, array.dtype))


@dataclass(frozen=True)
class NewAxis:
    """An axis of extent 1, to be put into brackets: ``value[newaxis]``, ``value[newaxis("F")]``.

    Args:
        layout: the letter of the axis, for values whose axes have names.
    """

    layout: str = ""

    def __call__(self, layout: str) -> NewAxis:
        """The same with a name for the axis."""
        return NewAxis(layout)


newaxis = NewAxis()


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that `dtype` names: a `DALIDataType`, its number, or whatever NumPy takes as a dtype.

    Raises:
        ArgumentTypeError: it names none.

    >>> as_dtype(UINT8), as_dtype("float16")
    (dtype('uint8'), dtype('float16'))
    """
    try:
        if dtype is None or dtype == DALIDataType.NO_TYPE:
            raise TypeError  # NumPy would take None for float64
        return DALIDataType(dtype).numpy if isinstance(dtype, int) else np.dtype(dtype)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            "no such data type",
            given=repr(dtype),
            expected=f"types.{', types.'.join(t.name for t in DALIDataType if t >= 0)}, or a NumPy dtype",
            fix=did_you_mean(dtype, DALIDataType.__members__) if isinstance(dtype, str) else None,
        ) from None


UINT8, UINT16, UINT32, UINT64 = (
    DALIDataType.UINT8,
    DALIDataType.UINT16,
    DALIDataType.UINT32,
    DALIDataType.UINT64,
)
INT8, INT16, INT32, INT64 = DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64
FLOAT16, FLOAT, FLOAT64 = DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64
BOOL, NO_TYPE = DALIDataType.BOOL, DALIDataType.NO_TYPE

RGB, BGR, GRAY = DALIImageType.RGB, DALIImageType.BGR, DALIImageType.GRAY
YCbCr, ANY_DATA = DALIImageType.YCbCr, DALIImageType.ANY_DATA

INTERP_NN, INTERP_LINEAR, INTERP_CUBIC = (
    DALIInterpType.INTERP_NN,
    DALIInterpType.INTERP_LINEAR,
    DALIInterpType.INTERP_CUBIC,
)
INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = (
    DALIInterpType.INTERP_LANCZOS3,
    DALIInterpType.INTERP_TRIANGULAR,
    DALIInterpType.INTERP_GAUSSIAN,
)
