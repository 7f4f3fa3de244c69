"""Requests for chunks and the heads of their answers, as JSON.

These are methods of gRPC whose messages are bytes. A trainer opens a program on a host with the action `OPEN`, whose
body describes the program, and requests chunks with tickets. The answer to a ticket is a stream: a head, which is JSON,
and the bytes of the chunk's columns in pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import google_crc32c
import numpy as np

from penstock.core import Array, Column, Indices
from penstock.core.stage_timers import StageTotals
from penstock.engine.input_hosts import json_messages as messages
from penstock.engine.input_hosts.json_messages import MessageError
from penstock.sources.order.schedule import BatchStep

SERVICE = "penstock.InputHost"
OPEN, STATUS, CHUNK = "Open", "Status", "Chunk"

# Fields of the answer to `STATUS`.
STATUS_FIELDS = ("threads", "identity", "instance")

# Bytes of a piece of a column. Measured with gRPC over loopback: pieces of 256 KiB and of 1 MiB cost a sixth to a third
# more CPU time on both sides, smaller ones by their number, larger ones because they do not stay in the cache between
# the socket and the batch buffer.
PIECE_BYTES = 512 << 10

# Bytes of the results of one chunk. A larger chunk is computed by the trainer.
MAX_CHUNK_BYTES = 1 << 30

# Rows of one chunk.
MAX_CHUNK_ROWS = 1 << 20

_MAX_INTEGER = 2**62
_MAX_TEXT = 1 << 16


@dataclass(frozen=True)
class ChunkRequest:
    """Request to compute a chunk.

    Args:
        program: Key of the program, which the host returned when it was opened.
        step: The batch.
        rows: Numbers of the rows in the batch, ascending.
        dtypes: Per result the name of the dtype of its slot; None for a ragged result.
    """

    program: str
    step: BatchStep
    rows: Indices
    dtypes: tuple[str | None, ...]

    def encode(self) -> bytes:
        """Return the request as JSON."""
        step = self.step
        return messages.encode(
            {
                "program": self.program,
                "step": [step.epoch, step.row, list(step.consumed), step.rows],
                "rows": _ranges(self.rows),
                "dtypes": list(self.dtypes),
            }
        )

    @staticmethod
    def decode(data: bytes) -> ChunkRequest:
        """Return the request in a message.

        Raises:
            MessageError: The message violates the protocol.
        """
        entries = messages.decode(data, ("program", "step", "rows", "dtypes"))
        step = messages.sequence(entries["step"], 4, "step")
        if len(step) != 4:
            raise MessageError("step must have 4 entries")
        epoch, row, rows = (
            messages.integer(value, 0, _MAX_INTEGER, name)
            for value, name in zip([step[0], step[1], step[3]], ("epoch", "row", "rows"), strict=True)
        )
        consumed = [
            messages.integer(value, 0, _MAX_INTEGER, "consumed")
            for value in messages.sequence(step[2], 1024, "consumed")
        ]
        dtypes = messages.sequence(entries["dtypes"], 4096, "dtypes")
        return ChunkRequest(
            messages.text(entries["program"], 64, "program"),
            BatchStep(epoch, row, tuple(consumed), rows),
            _row_numbers(messages.sequence(entries["rows"], MAX_CHUNK_ROWS, "rows")),
            tuple([messages.optional_text(name, 32, "dtypes") for name in dtypes]),
        )


@dataclass(frozen=True)
class ChunkHead:
    """Head of the answer to a request: everything but the bytes of the columns.

    Args:
        refusal: Reason why the host did not compute the chunk; "" if it did. The other fields are empty then.
        unknown: True if the host does not have the program, for example because it restarted.
        shapes: Per column, its shape; for a ragged column the shape of each sample.
        dtypes: Per column the name of its dtype.
        checksum: CRC-32C of the bytes of all columns, one after another.
        failed: Numbers of the rows that failed and are tolerated. The trainer computes them itself.
        seconds: Wall time of the computation.
        stages: Calls, samples, seconds and CPU seconds by stage.
        compilation: Time spent compiling, in seconds.
    """

    refusal: str = ""
    unknown: bool = False
    shapes: tuple[tuple[Any, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    checksum: int = 0
    failed: tuple[int, ...] = ()
    seconds: float = 0.0
    stages: Mapping[str, Sequence[float]] | None = None
    compilation: float = 0.0

    def encode(self) -> bytes:
        """Return the head as JSON."""
        message = {
            "refusal": self.refusal[:_MAX_TEXT],
            "unknown": self.unknown,
            "shapes": self.shapes,
            "dtypes": self.dtypes,
            "checksum": self.checksum,
            "failed": self.failed,
            "seconds": self.seconds,
            "stages": {} if self.stages is None else {name: list(totals) for name, totals in self.stages.items()},
            "compilation": self.compilation,
        }
        return messages.encode(message)

    @staticmethod
    def decode(data: bytes) -> ChunkHead:
        """Return the head in a message.

        Raises:
            MessageError: The message violates the protocol.
        """
        entries = messages.decode(data, tuple(ChunkHead.__dataclass_fields__))
        failed = messages.sequence(entries["failed"], MAX_CHUNK_ROWS, "failed")
        stages = entries["stages"]
        if not isinstance(stages, dict) or len(cast(dict[str, Any], stages)) > 4096:
            raise MessageError("stages must be an object")
        return ChunkHead(
            messages.text(entries["refusal"], _MAX_TEXT, "refusal"),
            messages.flag(entries["unknown"], "unknown"),
            tuple([_shape(shape) for shape in messages.sequence(entries["shapes"], 4096, "shapes")]),
            tuple([messages.text(name, 32, "dtype") for name in messages.sequence(entries["dtypes"], 4096, "dtypes")]),
            messages.integer(entries["checksum"], 0, 2**32 - 1, "checksum"),
            tuple([messages.integer(row, 0, _MAX_INTEGER, "a row") for row in failed]),
            messages.number(entries["seconds"], "seconds"),
            {name: _totals(totals) for name, totals in cast(dict[str, Any], stages).items()},
            messages.number(entries["compilation"], "compilation"),
        )

    def totals(self, first: float, last: float) -> StageTotals:
        """Return the totals of the stages, for a computation between two times of this machine's clock."""
        return StageTotals({name: list(of) for name, of in (self.stages or {}).items()}, self.compilation, first, last)


def column_bytes(column: Column) -> tuple[tuple[Any, ...], str, list[Array]]:
    """Return shape, name of the dtype, and bytes of a column; of a ragged column the shape of each sample."""
    samples = [column] if isinstance(column, np.ndarray) else column
    arrays = [np.ascontiguousarray(sample) for sample in samples]
    shape = arrays[0].shape if isinstance(column, np.ndarray) else tuple([array.shape for array in arrays])
    name = arrays[0].dtype.name if arrays else "uint8"
    return shape, name, [array.reshape(-1).view(np.uint8) for array in arrays if array.size]


def extended_checksum(checksum: int, data: Array) -> int:
    """Return the CRC-32C of some bytes, given that of the bytes before them. The array must be read-only."""
    return cast(Any, google_crc32c).extend(checksum, data)  # the package has no types


def ragged_column(data: Array, shapes: Sequence[Sequence[int]], dtype: np.dtype[Any]) -> list[Array]:
    """Return the samples of a ragged column in its bytes.

    Args:
        data: The bytes, which the samples share.
        shapes: Shape of each sample.
        dtype: Dtype of the samples.
    """
    ends = np.cumsum([0] + [math.prod(shape) for shape in shapes])
    values = data.view(dtype)
    return [values[start:end].reshape(shape) for (start, end), shape in zip(pairwise(ends), shapes, strict=True)]


def _ranges(rows: Indices) -> list[list[int]]:
    """Return ascending row numbers as ranges: first number, and number after the last."""
    breaks = np.flatnonzero(np.diff(rows) != 1) + 1
    bounds = [0, *breaks.tolist(), len(rows)]
    return [[int(rows[start]), int(rows[stop - 1]) + 1] for start, stop in pairwise(bounds)]


def _row_numbers(ranges: Sequence[Any]) -> Indices:
    parts: list[Indices] = []
    end = count = 0
    for item in ranges:
        pair = messages.sequence(item, 2, "a range of rows")
        if len(pair) != 2:
            raise MessageError("a range of rows must have 2 entries")
        start = messages.integer(pair[0], end, _MAX_INTEGER, "the start of a range of rows")
        end = messages.integer(pair[1], start + 1, start + MAX_CHUNK_ROWS, "the end of a range of rows")
        count += end - start
        if count > MAX_CHUNK_ROWS:
            raise MessageError(f"a chunk has at most {MAX_CHUNK_ROWS} rows")
        parts.append(np.arange(start, end))
    if not parts:
        raise MessageError("a chunk has at least one row")
    return np.concatenate(parts)


def _shape(shape: Any) -> tuple[Any, ...]:
    return tuple(
        [
            _shape(cast(list[Any], size))
            if isinstance(size, list)
            else messages.integer(size, 0, MAX_CHUNK_BYTES, "an axis")
            for size in messages.sequence(shape, MAX_CHUNK_ROWS, "shape")
        ]
    )


def _totals(totals: Any) -> list[float]:
    values = messages.sequence(totals, 4, "stages")
    if len(values) != 4:
        raise MessageError("stages must have 4 numbers each")
    # Rounding can make a short time negative.
    return [messages.number(max(value, 0) if type(value) in (int, float) else value, "stages") for value in values]
