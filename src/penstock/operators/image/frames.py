"""Image operators on sequences whose frames have arguments of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import BatchContext, BatchKernel, Link, Operator

if TYPE_CHECKING:
    from penstock.operators.image.operator import ImageOperator


@dataclass(frozen=True)
class Frames(Operator, BatchKernel):
    """Each frame of a sequence as a sequence of one, with its own arguments.

    Args:
        inner: what is done to each.
        kind: the public name of that operator.
        layout: of the sequences.
        framed: the arguments that have an entry per frame.
        varying: the others that differ from sample to sample.
    """

    inner: ImageOperator
    kind: str
    layout: str
    framed: frozenset[str]
    varying: frozenset[str]

    def infer(self, frames: Spec, **arguments: Any) -> Spec:
        """As many frames as there were, each as the operator says."""
        if self.layout[:1] != "F":
            raise DefinitionError(
                f"fn.{self.kind}: arguments per frame are for sequences",
                given=f"{', '.join(sorted(self.framed))}, and images of {frames}",
                expected="a layout that begins with F, such as FHWC",
            )
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            given[name] = value
            if name in self.framed:
                given[name] = Spec(value.dtype, value.shape[1:])
                if None not in (value.shape[0], frames.shape[0]) and value.shape[0] != frames.shape[0]:
                    raise DefinitionError(
                        f"fn.{self.kind}: {name} has an entry per frame",
                        given=value.shape[0],
                        expected=f"{frames.shape[0]} frames",
                    )
            self.inner.schema[name].check(f"fn.{self.kind}: {name}", given[name])
        made = self.inner.infer(replace(frames, shape=(1, *frames.shape[1:]), bounds=()), **given)
        assert isinstance(made, Spec)  # an image operator has one output
        return replace(made, shape=(frames.shape[0], *made.shape[1:]), bounds=())

    def batch(self, context: BatchContext, frames: Any, **arguments: Any) -> Any:
        """One chain over the frames of all rows."""
        xp, (rows, count) = context.xp, frames.shape[:2]
        flat = frames.reshape(rows * count, 1, *frames.shape[2:])
        given = self._given(xp, rows, count, arguments)
        one = Spec(np.dtype(flat.dtype), tuple(flat.shape[1:]), self.layout)
        known = {
            n: (Spec(v.dtype, v.shape[1:]) if n in self.framed | self.varying else arguments[n])
            for n, v in given.items()
        }
        made = self.inner.infer(one, **known)
        assert isinstance(made, Spec)  # an image operator has one output
        chain = self.inner.chain([Link(self.inner, one, made, varies=True)])
        if xp is not np:
            result = chain.trace(flat, [given], [None])
        else:
            result = chain.describe(np.ascontiguousarray(flat), [given], [None]).compute(None)
            if len({each.shape for each in result}) > 1:
                raise ValueError("the frames of a sequence become images of different sizes")
            result = np.stack(list(result))
        return result.reshape(rows, count, *result.shape[2:])

    def _given(self, xp: Any, rows: int, count: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with an entry per frame of all rows."""
        given: dict[str, Any] = {}
        for name, value in arguments.items():
            schema, column = self.inner.schema[name], value
            if name in self.framed:
                if value.shape[1] != count:
                    raise ValueError(f"{name} has {value.shape[1]} entries for {count} frames")
                column = value.reshape(rows * count, *value.shape[2:])
            elif name in self.varying:
                column = xp.repeat(value, count, axis=0)
            varying = name in self.framed | self.varying
            given[name] = schema.rows(xp if varying else np, column, rows * count, varying=varying)
        return given
