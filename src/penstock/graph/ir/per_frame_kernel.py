"""Operators on sequences with inputs or arguments per frame."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, FramedCall, Operator


@dataclass(frozen=True)
class PerFrameOperator(Operator, BatchKernel):
    """Batch kernel that runs once per frame. All frames of a sample share inputs and arguments without frames.

    Args:
        inner: Operator that runs on each frame.
        call: Inputs and arguments that have an entry per frame.
    """

    inner: Operator
    call: FramedCall

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """Return the operator's spec with the frames as first axis."""
        framed = {f"input {at}": spec for at, spec in enumerate(inputs) if self.call.layouts[at][:1] == "F"}
        framed |= {name: arguments[name] for name in self.call.framed}
        # An argument with one entry applies to all frames, as in DALI.
        single = {name for name in self.call.framed if arguments[name].shape[0] == 1}
        counts = {name: spec.shape[0] for name, spec in framed.items() if spec.shape[0] is not None}
        if single != framed.keys():
            counts = {name: count for name, count in counts.items() if name not in single}
        if len(set(counts.values())) > 1:
            text = ", ".join(f"{name} for {count}" for name, count in counts.items())
            raise DefinitionError("inputs and arguments per frame must have the same number of frames", given=text)
        frames = [_frame(spec) if f"input {at}" in framed else spec for at, spec in enumerate(inputs)]
        result = self.inner.infer(*frames, **self.specs(arguments))
        assert isinstance(result, Spec)  # per-frame kernels have one output
        # As in DALI, data without a layout that is repeated for the frames of an argument remains without one. Other
        # axes without names get a placeholder after F, because a layout has a letter per axis.
        repeated = not self.inner.per_frame_inputs and self.call.layouts[:1] == ("",)
        layout = result.layout or ("" if repeated else "*" * len(result.shape))
        shape = (next(iter(counts.values()), None), *result.shape)
        return replace(result, shape=shape, layout=f"F{layout}" if layout or not repeated else "", bounds=())

    def specs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments for one frame, checked against the operator's schema."""
        result = {name: _frame(value) if name in self.call.framed else value for name, value in arguments.items()}
        for name, value in result.items():
            self.call.schema[name].check(name, value)
        return result

    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """Compute the frames of all rows as one batch."""
        columns = [value for value, layout in zip(inputs, self.call.layouts, strict=True) if layout[:1] == "F"]
        counts = {column.shape[1] for column in columns}
        if not counts:
            counts = {arguments[name].shape[1] for name in self.call.framed}
            counts = counts - {1} or counts
        if len(counts) > 1:
            raise ValueError(f"inputs and arguments per frame have {' and '.join(map(str, counts))} frames")
        # Frames become rows of one batch, so that the kernel of the operator needs no code for sequences.
        (count,), rows, xp = counts, context.rows, context.xp
        frames = [
            _merged(value) if layout[:1] == "F" else xp.repeat(value, count, axis=0)
            for value, layout in zip(inputs, self.call.layouts, strict=True)
        ]
        entries = self.entries(xp, rows, count, arguments)
        result = cast(Any, self.inner).batch(BatchContext(xp, rows * count), *frames, **entries)
        return result.reshape(rows, count, *result.shape[1:])

    def entries(self, xp: Any, rows: int, count: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with an entry per frame of all rows."""
        result: dict[str, Any] = {}
        for name, value in arguments.items():
            column = value
            if name in self.call.framed:
                if value.shape[1] not in (1, count):
                    raise ValueError(f"{name} has {value.shape[1]} entries for {count} frames")
                # As in DALI, one entry applies to all frames.
                column = _merged(xp.broadcast_to(value, (rows, count, *value.shape[2:])))
            elif name in self.call.varying:
                column = xp.repeat(value, count, axis=0)
            varying = name in self.call.framed | self.call.varying
            result[name] = self.call.schema[name].broadcast_rows(
                xp if varying else np, column, rows * count, varying=varying
            )
        return result


class PerFrameKernel(Operator, BatchKernel):
    """Batch kernel that also runs per frame of a sequence if an argument or input has an entry per frame."""

    def per_frame(self, call: FramedCall) -> Operator:
        """Return the operator that runs this one on each frame."""
        return PerFrameOperator(self, call)


def _frame(spec: Spec) -> Spec:
    """Return the spec of one frame."""
    return replace(spec, shape=spec.shape[1:], layout=spec.layout[1:].strip("*"), bounds=())


def _merged(values: Any) -> Any:
    """Return the frames of all rows along the first axis."""
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def each_frame(spec: Spec) -> Spec:
    """Return the spec of one frame if the value has frames, otherwise its spec."""
    return _frame(spec) if spec.layout[:1] == "F" else spec
