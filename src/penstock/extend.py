"""Everything that a package needs to add operators, readers, sources and streams to Penstock.

`docs/how-to/extend/operators.md` shows how. Import these names from here: the modules that define them may move. A
package offers its operators by entry points of the group ``penstock.operators``, and checks them with
`penstock.testing`.
"""

from penstock.core import Array, Column, Spec
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, SourceError
from penstock.graph import (
    Argument,
    BatchContext,
    BatchKernel,
    DataLocation,
    DataNode,
    Default,
    DeviceContext,
    DeviceKernel,
    FramedCall,
    HostBatchKernel,
    Images,
    Input,
    Operator,
    OperatorFunction,
    PerformanceHint,
    Planes,
    Range,
    SampleContext,
    SampleKernel,
    ViewKernel,
    WholeBatchKernel,
    apply,
    apply_many,
    assumed_layout,
    common_arguments,
    operator,
    select_arguments,
    with_defaults,
)
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.image.codecs.image_header import ImageHeader, ImageHeaders, Region
from penstock.image.describe.steps import (
    CastStep,
    ColorMatrixStep,
    CropStep,
    CustomStep,
    FillStep,
    ImageInfo,
    MirrorStep,
    ResampleAxis,
    ResampleStep,
    ScaleStep,
    Step,
    TransposeStep,
)
from penstock.image.image_operator import ImageDecoder, ImageOperator
from penstock.numerics.casting import broadcast_rows, cast_saturating, output_dtype, result_dtype
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.open_sources import open_shared
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.stream import BatchRequest, EndOfStreamError, Stream

__all__ = [
    "Argument",
    "ArgumentTypeError",
    "Array",
    "BatchContext",
    "BatchKernel",
    "BatchRequest",
    "ByteRange",
    "CastStep",
    "ColorMatrixStep",
    "Column",
    "CommonArguments",
    "CropStep",
    "CustomStep",
    "DataLocation",
    "DataNode",
    "Default",
    "DefinitionError",
    "DeviceContext",
    "DeviceKernel",
    "EndOfStreamError",
    "FillStep",
    "FramedCall",
    "HostBatchKernel",
    "ImageDecoder",
    "ImageHeader",
    "ImageHeaders",
    "ImageInfo",
    "ImageOperator",
    "Images",
    "Input",
    "MirrorStep",
    "Operator",
    "OperatorFunction",
    "PerformanceHint",
    "Planes",
    "Range",
    "ReaderArguments",
    "Region",
    "ResampleAxis",
    "ResampleStep",
    "SampleContext",
    "SampleError",
    "SampleKernel",
    "ScaleStep",
    "Source",
    "SourceError",
    "Spec",
    "Step",
    "Stream",
    "TransposeStep",
    "ViewKernel",
    "WholeBatchKernel",
    "apply",
    "apply_many",
    "apply_reader",
    "assumed_layout",
    "broadcast_rows",
    "cast_saturating",
    "common_arguments",
    "file_stamps",
    "open_shared",
    "operator",
    "output_dtype",
    "result_dtype",
    "select_arguments",
    "with_defaults",
]
