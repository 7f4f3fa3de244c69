"""Everything that a package needs to add operators, readers, sources and streams to Penstock.

`docs/operators.md` shows how. Import these names from here: the modules that define them may move. A package offers its
operators by entry points of the group ``penstock.operators``, and checks them with `penstock.testing`.
"""

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, SourceError
from penstock.graph.arguments.argument_groups import select_arguments, with_defaults
from penstock.graph.arguments.argument_marks import DataLocation, Default, Doc, PerformanceHint, Range
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import (
    BatchContext,
    BatchKernel,
    DeviceContext,
    DeviceKernel,
    HostBatchKernel,
    Operator,
    SampleContext,
    SampleKernel,
    ViewKernel,
    WholeBatchKernel,
)
from penstock.graph.layouts import image_layout
from penstock.graph.tracing.apply import apply, apply_many
from penstock.graph.tracing.registry import OperatorFunction, common_arguments, operator
from penstock.graph.tracing.trace import DataNode
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
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.stream import BatchRequest, EndOfStreamError, Stream

__all__ = [
    "Argument",
    "ArgumentTypeError",
    "Array",
    "BatchContext",
    "BatchKernel",
    "BatchRequest",
    "CastStep",
    "ColorMatrixStep",
    "Column",
    "CropStep",
    "CustomStep",
    "DataLocation",
    "DataNode",
    "Default",
    "DefinitionError",
    "DeviceContext",
    "DeviceKernel",
    "Doc",
    "EndOfStreamError",
    "FillStep",
    "HostBatchKernel",
    "ImageDecoder",
    "ImageInfo",
    "ImageOperator",
    "MirrorStep",
    "Operator",
    "OperatorFunction",
    "PerformanceHint",
    "Range",
    "ReaderArguments",
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
    "broadcast_rows",
    "cast_saturating",
    "common_arguments",
    "file_stamps",
    "image_layout",
    "open_shared",
    "operator",
    "output_dtype",
    "result_dtype",
    "select_arguments",
    "with_defaults",
]
