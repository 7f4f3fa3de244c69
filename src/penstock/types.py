"""The words a user writes: data types, image types, interpolation, last-batch policies, constants.

The names are DALI's (`types.FLOAT`, `types.RGB`, `types.INTERP_LINEAR`), so that a definition written for DALI reads
the same here. Where DALI asks for one of its data types, penstock also takes anything NumPy accepts as a dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, Literal, get_args

from penstock.core.constant import Constant as Constant
from penstock.core.dtypes import DALIDataType as DALIDataType
from penstock.core.dtypes import as_dtype as as_dtype
from penstock.core.dtypes import to_dali_type as to_dali_type
from penstock.core.dtypes import to_numpy_type as to_numpy_type
from penstock.core.unsupported import module_getattr
from penstock.errors import UsageError, did_you_mean, short_repr

__all__ = [
    "ANY_DATA",
    "BGR",
    "BOOL",
    "CPU_ONLY_DEVICE_ID",
    "DATA_TYPE",
    "FEATURE",
    "FLOAT",
    "FLOAT16",
    "FLOAT64",
    "GRAY",
    "IMAGE_TYPE",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "INTERP_CUBIC",
    "INTERP_GAUSSIAN",
    "INTERP_LANCZOS3",
    "INTERP_LINEAR",
    "INTERP_NN",
    "INTERP_TRIANGULAR",
    "INTERP_TYPE",
    "NCHW",
    "NFCHW",
    "NFHWC",
    "NHWC",
    "NO_TYPE",
    "PYTHON_OBJECT",
    "RGB",
    "SAME",
    "STRING",
    "TENSOR_LAYOUT",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "BatchInfo",
    "Constant",
    "DALIDataType",
    "DALIImageType",
    "DALIInterpType",
    "LabelType",
    "LastBatchPolicy",
    "NewAxis",
    "OnError",
    "PipelineAPIType",
    "SampleInfo",
    "ScalarConstant",
    "TensorLayout",
    "YCbCr",
    "newaxis",
    "to_dali_type",
    "to_numpy_type",
]

OnError = Literal["raise", "skip", "replace"]
"""What is done about a bad sample: the error is raised, its row is masked, or another sample takes its place."""


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


class PipelineAPIType(Enum):
    """How DALI says that the methods of a pipeline are called. Here they may be mixed."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class LabelType(IntEnum):
    """How `fn.readers.caffe2` reads the protos after the image."""

    SINGLE_LABEL = 0
    MULTI_LABEL_SPARSE = 1
    MULTI_LABEL_DENSE = 2
    MULTI_LABEL_WEIGHTED_SPARSE = 3
    NO_LABEL = 4


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


def _raw_cuda_stream(stream: Any) -> Any:  # pyright: ignore[reportUnusedFunction]  # copies of DALI's feed_ndarray ask
    """The number of a CUDA stream, which nothing here looks at."""
    return getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))


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
    raise UsageError("no such on_error", given=short_repr(given), fix=did_you_mean(given, get_args(OnError)))


__getattr__ = module_getattr(__name__)
