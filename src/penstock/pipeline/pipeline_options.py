"""Options of a `Pipeline`: their types, DALI's hints, and the requirements on the outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Annotated, Any, Literal, TypedDict

from penstock.core import user_call_site
from penstock.core.dataclass import dataclass
from penstock.engine.input_hosts.host_address import HostAddress, parse_addresses
from penstock.errors import ArgumentTypeError, DefinitionError, UsageError, did_you_mean
from penstock.graph import Graph
from penstock.graph.arguments.argument_marks import Default
from penstock.plan.placement import PlacementHint
from penstock.types import CPU_ONLY_DEVICE_ID, as_dtype

# A larger batch is a typing error: its row numbers alone would take gigabytes.
MAX_BATCH = 2**26


class PipelineHints(TypedDict, total=False):
    """Options of DALI's Pipeline that only change speed, memory or diagnostics. They have no effect here."""

    exec_dynamic: Annotated[bool | None, Default(True)]
    experimental_exec_dynamic: Annotated[bool | None, Default(None)]
    bytes_per_sample: Annotated[int | None, Default(0)]
    set_affinity: Annotated[bool | None, Default(False)]
    max_streams: Annotated[int | None, Default(-1)]
    default_cuda_stream_priority: Annotated[int | None, Default(0)]
    enable_memory_stats: Annotated[bool | None, Default(False)]
    enable_checkpointing: Annotated[bool | None, Default(False)]
    stream_policy: Any
    concurrency: Any


class PipelineOptions(PipelineHints, total=False):
    """All arguments of `Pipeline` by name. `pipeline_def` and the functions that it returns take them too."""

    batch_size: int
    num_threads: int
    num_processes: int
    input_hosts: Sequence[str] | None
    device_id: int | None
    seed: int | None
    exec_pipelined: bool
    prefetch_queue_depth: int | Mapping[str, int]
    exec_async: bool
    placement: PlacementHint
    checkpoint: str | bytes | Mapping[str, Any] | None
    output_dtype: Any
    output_ndim: int | Sequence[int | None] | None
    output_layout: str | Sequence[str | None] | None
    py_num_workers: int | None
    py_start_method: Literal["fork", "forkserver", "spawn"] | None
    py_callback_pickler: Any
    read_threads: int
    debug: bool


OPTION_NAMES = frozenset(PipelineOptions.__annotations__)


def check_hints(hints: Mapping[str, Any]) -> None:
    """Check that arguments which are not parameters of `Pipeline` are hints.

    Raises:
        ArgumentTypeError: A `Pipeline` has no such argument.
    """
    for name in hints:
        if name not in PipelineHints.__annotations__:
            fix = did_you_mean(name, OPTION_NAMES)
            raise ArgumentTypeError(f"a Pipeline has no argument {name!r}", given=name, fix=fix, where=user_call_site())


def host_queue_depth(depth: int | Mapping[str, int]) -> int:
    """Return the number of batches that the host prepares ahead.

    Args:
        depth: The number; or, as for DALI's separated executor, a dict with one per device.
    """
    return depth if isinstance(depth, int) else depth.get("cpu_size", 2)


def check_workers(num_processes: int, input_hosts: Sequence[str] | None, *, ahead: bool) -> tuple[HostAddress, ...]:
    """Check that worker processes or input hosts can compute batches. Returns the addresses of the hosts.

    Args:
        num_processes: Number of worker processes.
        input_hosts: Addresses of the hosts; None for no hosts.
        ahead: True if batches are prepared ahead.

    Raises:
        UsageError: An address is wrong, both are given, or batches are computed when they are requested.
        MissingExtraError: Hosts are given, and grpcio is not installed.
    """
    hosts = parse_addresses(input_hosts or ())
    given = [f"num_processes={num_processes}"] * bool(num_processes) + [f"input_hosts={input_hosts}"] * bool(hosts)
    if len(given) > 1:
        raise UsageError(
            "num_processes and input_hosts exclude each other: either computes the host part",
            given=", ".join(given),
            fix="num_processes=0; or input_hosts=[], also if PENSTOCK_INPUT_HOSTS is set",
            where=user_call_site(),
        )
    if given and not ahead:
        workers, none = ("input hosts", "input_hosts=[]") if hosts else ("worker processes", "num_processes=0")
        raise UsageError(
            f"{workers} prepare batches ahead; with exec_async=False, exec_pipelined=False or debug=True each batch is "
            "computed when it is requested",
            given=given[0],
            fix=f"{none}, or leave out the other option",
            where=user_call_site(),
        )
    if hosts:
        from penstock.engine.input_hosts.host_connection import load_grpc  # noqa: PLC0415  # for input hosts alone

        load_grpc()
    return hosts


def local_device(device_id: int | None) -> int | None:
    """Return the index of a local device, or None for the default device.

    Raises:
        UsageError: The index is negative.
    """
    if device_id is None or device_id == CPU_ONLY_DEVICE_ID:
        return None
    if device_id < 0:
        raise UsageError("Pipeline: device_id is out of range", given=device_id, expected="at least 0, or None")
    return device_id


def no_batch_size(batch_size: int | None) -> UsageError:
    """Return the error of a pipeline without a batch size."""
    return UsageError(
        "a pipeline needs a batch size", given=batch_size, fix="batch_size=... with at least 1", where=user_call_site()
    )


@dataclass(frozen=True)
class OutputRequirements:
    """Requirements on the outputs of a definition. In each, None means any.

    Args:
        dtype: Dtype of all outputs, or a list with one per output.
        ndim: Number of axes of a sample, or a list with one per output.
        layout: Layout of a sample, or a list with one per output.
    """

    dtype: Any = None
    ndim: int | Sequence[int | None] | None = None
    layout: str | Sequence[str | None] | None = None

    def check(self, graph: Graph) -> None:
        """Check the outputs of a graph.

        Raises:
            DefinitionError: An output has another dtype, number of axes or layout.
            UsageError: The length of a list is not the number of outputs.
        """
        for number, value in enumerate(graph.outputs):
            dtype, ndim, layout = (_entry(required, number, len(graph.outputs)) for required in astuple(self))
            if dtype is not None and value.spec.dtype != as_dtype(dtype):
                raise DefinitionError(f"output {number} has another dtype", given=value.spec, expected=as_dtype(dtype))
            if ndim is not None and len(value.spec.shape) != ndim:
                raise DefinitionError(f"output {number} has another rank", given=value.spec, expected=f"{ndim} axes")
            if layout and value.spec.layout != layout:
                raise DefinitionError(
                    f"output {number} has another layout",
                    given=value.spec,
                    expected=layout,
                    fix=f"fn.reshape(..., layout={layout!r}), which names its axes",
                )


def _entry(required: Any, number: int, count: int) -> Any:
    if not isinstance(required, list | tuple):
        return required
    if len(required) != count:
        what = "output_dtype, output_ndim and output_layout have one entry per output"
        raise UsageError(what, given=required, expected=f"{count}")
    return required[number]
