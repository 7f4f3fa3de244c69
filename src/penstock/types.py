"""The words a user writes: data types, image types, interpolation, last-batch policies, constants.

The names are DALI's (`types.FLOAT`, `types.RGB`, `types.INTERP_LINEAR`), so that a definition written for DALI reads
the same here. Where DALI asks for one of its data types, penstock also takes anything NumPy accepts as a dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from typing import Any, Literal, cast, get_args

import numpy as np

from penstock.absent import absent
from penstock.errors import ArgumentTypeError, UsageError, did_you_mean, of_dali, shown
from penstock.where import located, user_line

OnError = Literal["raise", "skip", "replace"]
"""What is done about a bad sample: the error is raised, its row is masked, or another sample takes its place."""


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
    STRING = 12
    FEATURE = 17
    IMAGE_TYPE = 20
    DATA_TYPE = 21
    INTERP_TYPE = 22
    TENSOR_LAYOUT = 23
    PYTHON_OBJECT = 24

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of the same name and width.

        Raises:
            TypeError: it is the type of an argument of DALI's, and no value of a pipeline has it.
        """
        if self not in _NUMERIC:
            raise TypeError(self.name)
        return np.dtype({"FLOAT": "float32", "BOOL": "bool"}.get(self.name, self.name.lower()))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The same, under the name by which NumPy looks for it: its dtypes are equal to those of DALI.

        >>> np.dtype("float32") == DALIDataType.FLOAT, np.dtype("int8") == DALIDataType.STRING
        (True, False)
        """
        if self not in _NUMERIC:
            raise AttributeError(f"{self.name} is no dtype")  # so that NumPy's comparison is False
        return self.numpy

    def __hash__(self) -> int:
        """That of the equal dtype, so that a dictionary by types is one by the dtypes of batches, too.

        A type is equal to its number as well, as in DALI, but no dictionary by numbers: dtypes hash otherwise.

        >>> {DALIDataType.FLOAT: 4, DALIDataType.INT8: 1}[np.dtype("float32")]
        4
        """
        return hash(self.numpy if self in _NUMERIC else self.name)

    def __str__(self) -> str:
        return f"DALIDataType.{self.name}"


_NUMERIC = tuple(kind for kind in DALIDataType if 0 <= kind <= DALIDataType.BOOL)
"""The types that values of a pipeline have."""


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

    A bare Python number in a definition counts as int32, float32 or bool, as in DALI; `Constant` says otherwise, in an
    argument or by the method that has a type's name: ``Constant(3).uint8()``.

    Args:
        value: a number, a (nested) list of numbers or an array; the shape is that of one sample.
        dtype: the element type; None gives int32 and float32 to what has 64 bits, as Python's numbers and lists have,
            and keeps an array's own else, as it keeps that of NumPy's numbers: ``np.int64(3)`` is an int64.
        shape: the shape of a sample: `value` has as many numbers, or one that is repeated. None: that of `value`.
        layout: the names of the axes, such as "HWC"; empty where they have none.
        device: a placement hint, "cpu" or "gpu".
    """

    value: Any
    dtype: Any = None
    shape: int | Sequence[int] | None = None
    layout: str | None = ""
    device: str | None = None

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            ArgumentTypeError: one of them is none.
        """
        for name, given in (("layout", self.layout), ("device", self.device)):
            if not isinstance(cast(Any, given), str | None):
                raise ArgumentTypeError(f"a constant's {name} is a text", given=shown(given), where=user_line())

    @located
    def array(self) -> np.ndarray[Any, Any]:
        """The value as an array of its dtype and shape.

        Raises:
            ArgumentTypeError: the value is no numbers, or the shape has another number of elements.

        >>> Constant([1, 2]).array().dtype, Constant(7, shape=2).float16().array()
        (dtype('int32'), array([7., 7.], dtype=float16))
        """
        try:
            array = np.asarray(self.value)
        except Exception as error:  # a ragged list, or whatever an object of somebody else's raises
            raise ArgumentTypeError("a constant holds numbers", given=shown(self.value)) from error
        if self.dtype is not None:
            array = _saturated(array, as_dtype(self.dtype))
        elif array.dtype.kind in "if" and array.dtype.itemsize == 8:
            kept = array.ndim == 0 and self.shape is None and isinstance(self.value, np.ndarray | np.integer)
            array = array if kept else _narrowed(array)
        if self.shape is None:
            return array
        try:
            return np.broadcast_to(array.reshape(()), self.shape) if array.size == 1 else array.reshape(self.shape)
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                "a constant of another shape", given=f"{array.size} numbers", expected=f"shape {shown(self.shape)}"
            ) from None

    def _as(self, dtype: DALIDataType) -> Constant:
        return replace(self, dtype=dtype)

    def bool(self) -> Constant:
        """The same as bool."""
        return self._as(DALIDataType.BOOL)

    def int8(self) -> Constant:
        """The same as int8."""
        return self._as(DALIDataType.INT8)

    def int16(self) -> Constant:
        """The same as int16."""
        return self._as(DALIDataType.INT16)

    def int32(self) -> Constant:
        """The same as int32."""
        return self._as(DALIDataType.INT32)

    def int64(self) -> Constant:
        """The same as int64."""
        return self._as(DALIDataType.INT64)

    def uint8(self) -> Constant:
        """The same as uint8."""
        return self._as(DALIDataType.UINT8)

    def uint16(self) -> Constant:
        """The same as uint16."""
        return self._as(DALIDataType.UINT16)

    def uint32(self) -> Constant:
        """The same as uint32."""
        return self._as(DALIDataType.UINT32)

    def uint64(self) -> Constant:
        """The same as uint64."""
        return self._as(DALIDataType.UINT64)

    def float16(self) -> Constant:
        """The same as float16."""
        return self._as(DALIDataType.FLOAT16)

    def float32(self) -> Constant:
        """The same as float32."""
        return self._as(DALIDataType.FLOAT)

    def float64(self) -> Constant:
        """The same as float64."""
        return self._as(DALIDataType.FLOAT64)

    def __bool__(self) -> bool:
        return bool(self.array())

    def __int__(self) -> int:
        return int(self.array())

    def __float__(self) -> float:
        return float(self.array())


def _narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers of 64 bits as int32 or float32.

    Raises:
        ArgumentTypeError: an integer does not fit.
    """
    narrow = np.dtype(f"{array.dtype.kind}4")
    if narrow.kind == "i" and array.size and not np.array_equal(array, array.astype(narrow)):
        raise ArgumentTypeError(
            "a whole number beyond int32", given=f"{array.min()} to {array.max()}", fix="dtype=types.INT64"
        )
    return array.astype(narrow)


def _saturated(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The numbers in another type: for integers rounded, halves away from zero, and brought within its limits."""
    if dtype.kind in "iu" and array.dtype.kind in "iuf":
        limits = np.iinfo(dtype)
        whole = np.copysign(np.floor(np.abs(array) + 0.5), array) if array.dtype.kind == "f" else array
        array = np.asarray(np.clip(whole.astype(object), limits.min, limits.max))  # Python's integers do not wrap
    return array.astype(dtype)


ScalarConstant = Constant
"""DALI's name for a constant that is a number."""


@dataclass(slots=True)
class SampleInfo:
    """Which sample `fn.external_source` asks its source for.

    Args:
        idx_in_epoch: its number in the epoch, from 0.
        idx_in_batch: its number in the batch.
        iteration: the number of the batch in the epoch.
        epoch_idx: the number of the epoch.
    """

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Which batch `fn.external_source` asks its source for, with ``batch_info=True``.

    Args:
        iteration: its number in the epoch, from 0.
        epoch_idx: the number of the epoch.
    """

    iteration: int
    epoch_idx: int


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


_VALUES: Any = (bool, np.generic, np.ndarray)
"""What is no data type, though it is a number or has one."""


@located
def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The NumPy dtype that `dtype` names: a `DALIDataType`, its number, or whatever NumPy takes as a dtype.

    Raises:
        ArgumentTypeError: it names none.

    >>> as_dtype(UINT8), as_dtype("float16")
    (dtype('uint8'), dtype('float16'))
    """
    try:
        if dtype is None or isinstance(dtype, _VALUES):
            raise TypeError  # NumPy would take it for float64, or for that of a value
        found = DALIDataType(dtype).numpy if isinstance(dtype, int) else np.dtype(dtype)
        if found.names is not None or found.subdtype is not None or found.kind in "OSUMm" or not found.itemsize:
            raise TypeError
    except Exception:  # noqa: BLE001  # NumPy looks into the object, which may raise anything
        raise ArgumentTypeError(
            "no such data type",
            given=shown(dtype),
            expected=f"types.{', types.'.join(kind.name for kind in _NUMERIC)}, or a NumPy dtype",
            fix=did_you_mean(dtype, DALIDataType.__members__) if isinstance(dtype, str) else of_dali(dtype),
        ) from None
    return found


def to_numpy_type(dali_type: Any) -> Any:
    """The NumPy scalar type of a `DALIDataType`, or of its number.

    Raises:
        ArgumentTypeError: NumPy has none.

    >>> to_numpy_type(FLOAT)
    <class 'numpy.float32'>
    """
    return as_dtype(dali_type).type


def to_dali_type(framework_type: Any) -> DALIDataType:
    """The `DALIDataType` of another library's type, by its name; "float" is float32, as in DALI.

    Raises:
        ArgumentTypeError: there is none of that name.

    >>> to_dali_type("uint8"), to_dali_type(np.float32), to_dali_type("torch.half")
    (<DALIDataType.UINT8: 0>, <DALIDataType.FLOAT: 9>, <DALIDataType.FLOAT16: 8>)
    """
    try:
        name = framework_type.__qualname__ if isinstance(framework_type, type) else str(framework_type)
        name = name.removeprefix("torch.")
        dtype = as_dtype({"float": "float32", "boolean": "bool"}.get(name, name))
        return next(kind for kind in _NUMERIC if kind.numpy == dtype)
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        raise ArgumentTypeError(
            "no such data type", given=shown(framework_type), expected="a type of numbers", where=user_line()
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
STRING, FEATURE, PYTHON_OBJECT = DALIDataType.STRING, DALIDataType.FEATURE, DALIDataType.PYTHON_OBJECT
IMAGE_TYPE, DATA_TYPE, INTERP_TYPE = DALIDataType.IMAGE_TYPE, DALIDataType.DATA_TYPE, DALIDataType.INTERP_TYPE
TENSOR_LAYOUT = DALIDataType.TENSOR_LAYOUT

NCHW, NHWC, NFCHW, NFHWC = "CHW", "HWC", "FCHW", "FHWC"
"""The layouts of a sample under DALI's names for those of a batch."""
TensorLayout = str
"""A layout is a text."""
SAME = ""
"""The layout that says: as it is."""

CPU_ONLY_DEVICE_ID = -99999
"""DALI's `device_id` of a pipeline that uses no accelerator."""

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


def as_on_error(given: Any) -> OnError:
    """What is to be done about a bad sample.

    Raises:
        UsageError: it is none of the three.

    >>> as_on_error("skip")
    'skip'
    """
    for known in get_args(OnError):
        if isinstance(given, str) and given == known:
            return known
    raise UsageError("no such on_error", given=shown(given), fix=did_you_mean(given, get_args(OnError)))


__getattr__ = absent(__name__)
