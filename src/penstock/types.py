"""Enums and constants of definitions: data types, image types, interpolation, last-batch policies.

The names are DALI's (`types.FLOAT`, `types.RGB`, `types.INTERP_LINEAR`), so that definitions written for DALI
work unchanged. In place of DALI's data types, penstock also accepts anything that NumPy accepts as a dtype.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, Literal

from penstock.core.constant import Constant as Constant
from penstock.core.dataclass import dataclass
from penstock.core.dtypes import DALIDataType as DALIDataType
from penstock.core.dtypes import as_dtype as as_dtype
from penstock.core.dtypes import is_bfloat16 as is_bfloat16
from penstock.core.dtypes import is_float as is_float
from penstock.core.dtypes import to_dali_type as to_dali_type
from penstock.core.dtypes import to_numpy_type as to_numpy_type
from penstock.core.unsupported import module_getattr

__all__ = [
    "ANY_DATA",
    "BFLOAT16",
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

# Policies for bad samples: raise the error, mask the row, or read another sample in its place.
OnError = Literal["raise", "skip", "replace"]


class DALIImageType(IntEnum):
    """Channels of a decoded image, and their order."""

    RGB = 0
    BGR = 1
    GRAY = 2
    YCbCr = 3
    ANY_DATA = 4


class DALIInterpType(IntEnum):
    """Interpolation filters of resize operators."""

    INTERP_NN = 0
    INTERP_LINEAR = 1
    INTERP_CUBIC = 2
    INTERP_LANCZOS3 = 3
    INTERP_TRIANGULAR = 4
    INTERP_GAUSSIAN = 5


class LastBatchPolicy(Enum):
    """Policies for the last batch of an epoch if the data do not fill it."""

    FILL = 0
    """Complete it with the first samples of the same epoch's order."""
    DROP = 1
    """Leave it out."""
    PARTIAL = 2
    """Deliver the remainder as a smaller batch. The sharding must divide it."""
    PAD = 3
    """Complete it as FILL does, and add an output ``valid``, False for the added rows. Not in DALI."""


class PipelineAPIType(Enum):
    """DALI's modes of calling a pipeline's methods. In penstock, all methods work in every mode."""

    BASIC = 0
    ITERATOR = 1
    SCHEDULED = 2


class LabelType(IntEnum):
    """Form of the labels that `fn.readers.caffe2` reads."""

    SINGLE_LABEL = 0
    MULTI_LABEL_SPARSE = 1
    MULTI_LABEL_DENSE = 2
    MULTI_LABEL_WEIGHTED_SPARSE = 3
    NO_LABEL = 4


# DALI's name for a constant that is a number.
ScalarConstant = Constant


@dataclass(slots=True)
class SampleInfo:
    """Position of the sample that `fn.external_source` requests from its source. All numbers count from 0.

    Args:
        idx_in_epoch: The position in the epoch.
        idx_in_batch: The row in the batch.
        iteration: The number of the batch in the epoch.
        epoch_idx: The number of the epoch.
    """

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Position of the batch that `fn.external_source` requests from its source, with ``batch_info=True``.

    Args:
        iteration: The number of the batch in the epoch, from 0.
        epoch_idx: The number of the epoch, from 0.
    """

    iteration: int
    epoch_idx: int


@dataclass(frozen=True)
class NewAxis:
    """New axis of extent 1, in an index: ``value[newaxis]``, ``value[newaxis("F")]``.

    Args:
        layout: The letter of the axis, for values with a layout.
    """

    layout: str = ""

    def __call__(self, layout: str) -> NewAxis:
        """Return a new axis with a name."""
        return NewAxis(layout)


newaxis = NewAxis()


UINT8, UINT16, UINT32, UINT64 = DALIDataType.UINT8, DALIDataType.UINT16, DALIDataType.UINT32, DALIDataType.UINT64
INT8, INT16, INT32, INT64 = DALIDataType.INT8, DALIDataType.INT16, DALIDataType.INT32, DALIDataType.INT64
FLOAT16, FLOAT, FLOAT64 = DALIDataType.FLOAT16, DALIDataType.FLOAT, DALIDataType.FLOAT64
BFLOAT16 = DALIDataType.BFLOAT16
BOOL, NO_TYPE = DALIDataType.BOOL, DALIDataType.NO_TYPE
STRING, FEATURE, PYTHON_OBJECT = DALIDataType.STRING, DALIDataType.FEATURE, DALIDataType.PYTHON_OBJECT
IMAGE_TYPE, DATA_TYPE, INTERP_TYPE = DALIDataType.IMAGE_TYPE, DALIDataType.DATA_TYPE, DALIDataType.INTERP_TYPE
TENSOR_LAYOUT = DALIDataType.TENSOR_LAYOUT

# Layouts of samples, under DALI's names for the layouts of batches.
NCHW, NHWC, NFCHW, NFHWC = "CHW", "HWC", "FCHW", "FHWC"
TensorLayout = str
# The empty layout keeps an input's layout.
SAME = ""

# DALI's `device_id` for a pipeline without an accelerator.
CPU_ONLY_DEVICE_ID = -99999

# Unpacking an Enum yields its members in the order of their definition, and raises if a name is missing here.
RGB, BGR, GRAY, YCbCr, ANY_DATA = DALIImageType
INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, INTERP_LANCZOS3, INTERP_TRIANGULAR, INTERP_GAUSSIAN = DALIInterpType


def _raw_cuda_stream(stream: Any) -> Any:  # pyright: ignore[reportUnusedFunction]  # copies of DALI's feed_ndarray ask
    """Return the handle of a CUDA stream. Penstock does not use it."""
    return getattr(stream, "cuda_stream", getattr(stream, "ptr", stream))


__getattr__ = module_getattr(__name__)
