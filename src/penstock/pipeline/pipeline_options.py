"""Arguments of a `Pipeline` that say nothing of how it runs: DALI's hints, and what its outputs must be."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, TypedDict

from penstock.core.call_site import user_call_site
from penstock.errors import ArgumentTypeError, DefinitionError, UsageError, did_you_mean
from penstock.graph.ir.node import Graph
from penstock.types import as_dtype


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
            raise ArgumentTypeError(f"a Pipeline has no argument {name!r}", given=name, fix=fix, where=user_call_site())


@dataclass(frozen=True)
class OutputRequirements:
    """What the outputs of a definition must be.

    Args:
        dtype: the dtype of all outputs, or a list of one each; None checks nothing.
        ndim: the number of axes of a sample; likewise.
        layout: the layout of a sample; likewise.
    """

    dtype: Any = None
    ndim: int | Sequence[int | None] | None = None
    layout: str | Sequence[str | None] | None = None

    def check(self, graph: Graph) -> None:
        """Check what was traced.

        Raises:
            DefinitionError: an output has another dtype, number of axes or layout.
            UsageError: a list has another length.
        """
        for number, value in enumerate(graph.outputs):
            dtype, ndim, layout = (_nth(given, number, len(graph.outputs)) for given in astuple(self))
            if dtype is not None and value.spec.dtype != as_dtype(dtype):
                raise DefinitionError(f"output {number} has another dtype", given=value.spec, expected=as_dtype(dtype))
            if ndim is not None and len(value.spec.shape) != ndim:
                raise DefinitionError(f"output {number} has another rank", given=value.spec, expected=f"{ndim} axes")
            if layout and value.spec.layout != layout:
                given, fix = value.spec, f"fn.reshape(..., layout={layout!r}), which names its axes"
                raise DefinitionError(f"output {number} has another layout", given=given, expected=layout, fix=fix)


def _nth(given: Any, number: int, count: int) -> Any:
    if not isinstance(given, list | tuple):
        return given
    if len(given) != count:
        what = "output_dtype, output_ndim and output_layout have one entry per output"
        raise UsageError(what, given=given, expected=f"{count}")
    return given[number]
