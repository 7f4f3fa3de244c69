"""Arguments of a `Pipeline` that say nothing of how it runs: DALI's hints, and what its outputs must be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypedDict

from penstock.errors import ArgumentTypeError, DefinitionError, UsageError, did_you_mean
from penstock.graph.node import Graph
from penstock.types import as_dtype
from penstock.where import user_line


class PipelineHints(TypedDict, total=False):
    """Options of DALI's Pipeline that can only change speed, memory or diagnostics; they do nothing here."""

    exec_dynamic: bool | None
    bytes_per_sample: int
    set_affinity: bool
    max_streams: int | None
    default_cuda_stream_priority: int | None
    enable_memory_stats: bool
    enable_checkpointing: bool
    stream_policy: Any
    concurrency: Any


def check_hints(hints: Mapping[str, Any], names: Collection[str]) -> None:
    """Check that only hints are given.

    Args:
        hints: what was given that no parameter takes.
        names: of all arguments of a `Pipeline`.

    Raises:
        ArgumentTypeError: it has no such argument.
    """
    for name in hints:
        if name not in PipelineHints.__annotations__:
            fix = did_you_mean(name, names)
            raise ArgumentTypeError(f"a Pipeline has no argument {name!r}", given=name, fix=fix, where=user_line())


def check_outputs(graph: Graph, dtypes: Any, ndims: Any) -> None:
    """Check that outputs are what they must be.

    Args:
        graph: what was traced.
        dtypes: the dtype of all outputs, or a list of one each; None checks nothing.
        ndims: the number of axes of a sample; likewise.

    Raises:
        DefinitionError: one has another dtype or number of axes.
        UsageError: a list has another length.
    """
    for number, value in enumerate(graph.outputs):
        dtype, ndim = (_nth(given, number, len(graph.outputs)) for given in (dtypes, ndims))
        if dtype is not None and value.spec.dtype != as_dtype(dtype):
            raise DefinitionError(f"output {number} has another dtype", given=value.spec, expected=as_dtype(dtype))
        if ndim is not None and len(value.spec.shape) != ndim:
            raise DefinitionError(f"output {number} has another rank", given=value.spec, expected=f"{ndim} axes")


def _nth(given: Any, number: int, count: int) -> Any:
    if not isinstance(given, list | tuple):
        return given
    if len(given) != count:
        raise UsageError("output_dtype and output_ndim have one entry per output", given=given, expected=f"{count}")
    return given[number]
