"""Types of rocAL's `amd.rocal.types`. The value of a member is penstock's equivalent."""

from enum import Enum
from typing import Any

from penstock import types
from penstock.core import user_call_site
from penstock.errors import ContextError, short_repr


class Status(Enum):
    """Status of a call, for compatibility. penstock raises exceptions instead."""

    OK = "ok"
    CONTEXT_INVALID = "context invalid"
    RUNTIME_ERROR = "runtime error"
    UPDATE_PARAMETER_FAILED = "update parameter failed"
    INVALID_PARAMETER_TYPE = "invalid parameter type"


class ProcessMode(Enum):
    """Device of a pipeline."""

    GPU = "auto"
    CPU = "host"


class TensorDataType(Enum):
    """Element types."""

    FLOAT = types.FLOAT
    FLOAT16 = types.FLOAT16
    UINT8 = types.UINT8
    INT16 = types.INT16


class MemoryType(Enum):
    """Memory of outputs. Ignored: the sharding decides."""

    HOST_MEMORY = "host"
    DEVICE_MEMORY = "device"
    PINNED_MEMORY = "pinned"


class ImageSizePolicy(Enum):
    """Buffer size of a decoder. Ignored: each image has its own size."""

    MAX_SIZE = "max"
    USER_GIVEN_SIZE = "user given"
    MOST_FREQUENT_SIZE = "most frequent"
    MAX_SIZE_ORIG = "max, original"
    USER_GIVEN_SIZE_ORIG = "user given, original"


class ImageColor(Enum):
    """Color format of a decoder."""

    RGB = types.RGB
    BGR = types.BGR
    GRAY = types.GRAY
    RGB_PLANAR = "planar"


class TensorLayout(Enum):
    """Order of the axes. The value is the layout of a sample, without the batch axis N."""

    NONE = ""
    NHWC = "HWC"
    NCHW = "CHW"
    NFHWC = "FHWC"
    NFCHW = "FCHW"
    NHW = "HW"
    NDHWC = "DHWC"
    NCDHW = "CDHW"
    NFT = "FT"
    NTF = "TF"


class DecodeDevice(Enum):
    """Video decoding device, a hint."""

    HARDWARE_DECODE = "hardware"
    SOFTWARE_DECODE = "software"


class DecoderType(Enum):
    """Decoding library, a hint."""

    DECODER_TJPEG = "tjpeg"
    DECODER_OPENCV = "opencv"
    DECODER_VIDEO_FFMPEG_SW = "ffmpeg"
    DECODER_AUDIO_GENERIC = "audio"
    DECODER_VIDEO_ROCDECODE = "rocdecode"
    DECODER_ROCJPEG = "rocjpeg"


class ScalingMode(Enum):
    """Treatment of the aspect ratio by a resize."""

    SCALING_MODE_DEFAULT = "default"
    SCALING_MODE_STRETCH = "stretch"
    SCALING_MODE_NOT_SMALLER = "not_smaller"
    SCALING_MODE_NOT_LARGER = "not_larger"
    SCALING_MODE_MIN_MAX = "min_max"


class InterpolationType(Enum):
    """Resampling filter of a resize."""

    NEAREST_NEIGHBOR_INTERPOLATION = types.INTERP_NN
    LINEAR_INTERPOLATION = types.INTERP_LINEAR
    CUBIC_INTERPOLATION = types.INTERP_CUBIC
    LANCZOS_INTERPOLATION = types.INTERP_LANCZOS3
    GAUSSIAN_INTERPOLATION = types.INTERP_GAUSSIAN
    TRIANGULAR_INTERPOLATION = types.INTERP_TRIANGULAR


class ExternalSourceMode(Enum):
    """Output of an external source."""

    EXTSOURCE_FNAME = "names"
    EXTSOURCE_RAW_COMPRESSED = "encoded"
    EXTSOURCE_RAW_UNCOMPRESSED = "pixels"


class AudioBorder(Enum):
    """Border before the first sample of an audio signal."""

    ZERO = "zero"
    CLAMP = "clamp"
    REFLECT = "reflect"


class OutOfBoundsPolicy(Enum):
    """Treatment of a slice outside its input."""

    PAD = "pad"
    TRIMTOSHAPE = "trim_to_shape"
    ERROR = "error"


class MelScale(Enum):
    """Formulas of the mel scale."""

    MELSCALE_SLANEY = "slaney"
    MELSCALE_HTK = "htk"


class LastBatchPolicy(Enum):
    """Treatment of an incomplete last batch."""

    LAST_BATCH_FILL = types.LastBatchPolicy.FILL
    LAST_BATCH_DROP = types.LastBatchPolicy.DROP
    LAST_BATCH_PARTIAL = types.LastBatchPolicy.PARTIAL


class MissingComponent(Enum):
    """Treatment of missing components by a tar reader."""

    MISSING_COMPONENT_ERROR = "error"
    MISSING_COMPONENT_SKIP = "skip"
    MISSING_COMPONENT_EMPTY = "empty"


# rocAL's programs write `types.FLOAT`, not `types.TensorDataType.FLOAT`. Unpacking an Enum yields its members in the
# order of their definition, and raises if a name is missing here.
(OK, CONTEXT_INVALID, RUNTIME_ERROR, UPDATE_PARAMETER_FAILED, INVALID_PARAMETER_TYPE) = Status
GPU, CPU = ProcessMode
FLOAT, FLOAT16, UINT8, INT16 = TensorDataType
HOST_MEMORY, DEVICE_MEMORY, PINNED_MEMORY = MemoryType
MAX_SIZE, USER_GIVEN_SIZE, MOST_FREQUENT_SIZE, MAX_SIZE_ORIG, USER_GIVEN_SIZE_ORIG = ImageSizePolicy
RGB, BGR, GRAY, RGB_PLANAR = ImageColor
NONE, NHWC, NCHW, NFHWC, NFCHW, NHW, NDHWC, NCDHW, NFT, NTF = TensorLayout
HARDWARE_DECODE, SOFTWARE_DECODE = DecodeDevice
(
    DECODER_TJPEG,
    DECODER_OPENCV,
    DECODER_VIDEO_FFMPEG_SW,
    DECODER_AUDIO_GENERIC,
    DECODER_VIDEO_ROCDECODE,
    DECODER_ROCJPEG,
) = DecoderType
(
    SCALING_MODE_DEFAULT,
    SCALING_MODE_STRETCH,
    SCALING_MODE_NOT_SMALLER,
    SCALING_MODE_NOT_LARGER,
    SCALING_MODE_MIN_MAX,
) = ScalingMode
(
    NEAREST_NEIGHBOR_INTERPOLATION,
    LINEAR_INTERPOLATION,
    CUBIC_INTERPOLATION,
    LANCZOS_INTERPOLATION,
    GAUSSIAN_INTERPOLATION,
    TRIANGULAR_INTERPOLATION,
) = InterpolationType
EXTSOURCE_FNAME, EXTSOURCE_RAW_COMPRESSED, EXTSOURCE_RAW_UNCOMPRESSED = ExternalSourceMode
ZERO, CLAMP, REFLECT = AudioBorder
PAD, TRIMTOSHAPE, ERROR = OutOfBoundsPolicy
MELSCALE_SLANEY, MELSCALE_HTK = MelScale
LAST_BATCH_FILL, LAST_BATCH_DROP, LAST_BATCH_PARTIAL = LastBatchPolicy
MISSING_COMPONENT_ERROR, MISSING_COMPONENT_SKIP, MISSING_COMPONENT_EMPTY = MissingComponent


def data_type_function(dtype: Any) -> str:
    """Return the name of a member of these types.

    Raises:
        ContextError: `dtype` is not a member. Also a RuntimeError, as in rocAL.

    >>> data_type_function(FLOAT16)
    'FLOAT16'
    """
    if isinstance(dtype, Enum) and globals().get(dtype.name) is dtype:
        return dtype.name
    raise ContextError(
        f"{short_repr(dtype)} is no type of rocAL's",
        expected="a name of penstock.rocal.types, such as FLOAT",
        where=user_call_site(),
    )
