"""Operators on sequences whose frames have inputs or arguments of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator


@dataclass(frozen=True)
class PerFrameOperator(Operator, BatchKernel):
    """A batch kernel, done to each frame; what has no entry per frame is the same for all frames of a sample.

    Args:
        inner: what is done to each frame.
        kind: the public name of that operator.
        layouts: of the inputs; those that begin with F have an entry per frame.
        framed: the arguments that have an entry per frame.
        varying: the others that differ from sample to sample.
    """

    inner: Operator
    kind: str
    layouts: tuple[str, ...]
    framed: frozenset[str]
    varying: frozenset[str]

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """As many frames as there are, each as the operator says."""
        given = {f"input {at}": spec for at, spec in enumerate(inputs) if self.layouts[at][:1] == "F"}
        given |= {name: arguments[name] for name in self.framed}
        counts = {name: spec.shape[0] for name, spec in given.items() if spec.shape[0] is not None}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{name} for {count}" for name, count in counts.items())
            raise DefinitionError(f"fn.{self.kind}: what has an entry per frame is for as many frames", given=told)
        each = [_frame(spec) if f"input {at}" in given else spec for at, spec in enumerate(inputs)]
        made = self.inner.infer(*each, **self.specs(arguments))
        assert isinstance(made, Spec)  # these have one output
        shape = (next(iter(counts.values()), None), *made.shape)
        return replace(made, shape=shape, layout="F" + (made.layout or "*" * len(made.shape)), bounds=())

    def specs(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the operator knows them for one frame, checked."""
        each = {name: _frame(value) if name in self.framed else value for name, value in arguments.items()}
        for name, value in each.items():
            self.inner.schema[name].check(f"fn.{self.kind}: {name}", value)
        return each

    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """One batch of the frames of all rows."""
        columns = [value for value, layout in zip(inputs, self.layouts, strict=True) if layout[:1] == "F"]
        columns += [arguments[name] for name in self.framed]
        counts = {each.shape[1] for each in columns}
        if len(counts) > 1:
            raise ValueError(f"what has an entry per frame is for {' and for '.join(map(str, counts))} frames")
        (count,), rows, xp = counts, context.rows, context.xp
        each = [
            _merged(value) if layout[:1] == "F" else xp.repeat(value, count, axis=0)
            for value, layout in zip(inputs, self.layouts, strict=True)
        ]
        given = self.entries(xp, rows, count, arguments)
        made = cast(Any, self.inner).batch(BatchContext(xp, rows * count), *each, **given)
        return made.reshape(rows, count, *made.shape[1:])

    def entries(self, xp: Any, rows: int, count: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with an entry per frame of all rows."""
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            column = value
            if name in self.framed:
                if value.shape[1] != count:
                    raise ValueError(f"{name} has {value.shape[1]} entries for {count} frames")
                column = _merged(value)
            elif name in self.varying:
                column = xp.repeat(value, count, axis=0)
            varying = name in self.framed | self.varying
            schema = self.inner.schema[name]
            given[name] = schema.broadcast_rows(xp if varying else np, column, rows * count, varying=varying)
        return given


class PerFrameKernel(Operator, BatchKernel):
    """A batch kernel that is done to each frame of a sequence where an argument or input has an entry per frame."""

    def per_frame(
        self, kind: str, layouts: Sequence[str], framed: AbstractSet[str], varying: AbstractSet[str]
    ) -> Operator:
        """The same for each frame."""
        return PerFrameOperator(self, kind, tuple(layouts), frozenset(framed), frozenset(varying))


def _frame(spec: Spec) -> Spec:
    """The spec of one frame of what has an entry per frame."""
    return replace(spec, shape=spec.shape[1:], layout=spec.layout[1:].strip("*"), bounds=())


def _merged(values: Any) -> Any:
    """The frames of all rows one after the other."""
    return values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])


def each_frame(spec: Spec) -> Spec:
    """The spec of a frame where there is an entry per frame, else that of the sample."""
    return _frame(spec) if spec.layout[:1] == "F" else spec
