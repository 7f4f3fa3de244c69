"""Definitions: tracing them, and the graph that results."""

from penstock.graph.arguments.argument_checks import check_annotations
from penstock.graph.arguments.argument_groups import select_arguments, with_defaults
from penstock.graph.arguments.argument_marks import DataLocation, Default, PerformanceHint, Range
from penstock.graph.arguments.input_requirements import Input
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.layouts import SPATIAL, assumed_layout, axis_numbers, by_axis, check_layout, spatial_layout
from penstock.graph.ir.node import Graph, Node, Value
from penstock.graph.ir.operator import (
    BatchContext,
    BatchKernel,
    DeviceContext,
    DeviceKernel,
    FramedCall,
    HostBatchKernel,
    Operator,
    Reader,
    SampleContext,
    SampleKernel,
    StreamInput,
    ViewKernel,
    WholeBatchKernel,
    parameters,
)
from penstock.graph.tracing.apply import apply, apply_many
from penstock.graph.tracing.registry import OperatorFunction, common_arguments, lookup, operator
from penstock.graph.tracing.trace import DataNode, Images, Planes, Trace, as_value, current_trace

__all__ = [
    "SPATIAL",
    "Argument",
    "BatchContext",
    "BatchKernel",
    "DataLocation",
    "DataNode",
    "Default",
    "DeviceContext",
    "DeviceKernel",
    "FramedCall",
    "Graph",
    "HostBatchKernel",
    "Images",
    "Input",
    "Node",
    "Operator",
    "OperatorFunction",
    "PerformanceHint",
    "Planes",
    "Range",
    "Reader",
    "SampleContext",
    "SampleKernel",
    "StreamInput",
    "Trace",
    "Value",
    "ViewKernel",
    "WholeBatchKernel",
    "apply",
    "apply_many",
    "as_value",
    "assumed_layout",
    "axis_numbers",
    "by_axis",
    "check_annotations",
    "check_layout",
    "common_arguments",
    "current_trace",
    "lookup",
    "operator",
    "parameters",
    "select_arguments",
    "spatial_layout",
    "with_defaults",
]
