"""Image operators on sequences whose frames have arguments of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.fusion import FusedOperator
from penstock.graph.ir.operator import BatchContext, HostBatchKernel
from penstock.graph.ir.per_frame_kernel import PerFrameOperator

if TYPE_CHECKING:
    from penstock.image.image_operator import ImageOperator


@dataclass(frozen=True)
class ImageFrames(PerFrameOperator):
    """Each frame of a sequence as a sequence of one, with its own arguments."""

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """As many frames as there were, each as the operator says."""
        (frames,) = inputs
        if self.layouts[0][:1] != "F":
            raise DefinitionError(
                f"fn.{self.kind}: arguments per frame are for sequences",
                given=f"{', '.join(sorted(self.framed))}, and images of {frames}",
                expected="a layout that begins with F, such as FHWC",
            )
        for name in self.framed:
            count = arguments[name].shape[0]
            if None not in (count, frames.shape[0]) and count != frames.shape[0]:
                raise DefinitionError(
                    f"fn.{self.kind}: {name} has an entry per frame", given=count, expected=f"{frames.shape[0]} frames"
                )
        made = self.inner.infer(replace(frames, shape=(1, *frames.shape[1:]), bounds=()), **self.specs(arguments))
        assert isinstance(made, Spec)  # an image operator has one output
        return replace(made, shape=(frames.shape[0], *made.shape[1:]), bounds=())

    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """One chain over the frames of all rows."""
        (frames,) = inputs
        xp, (rows, count) = context.xp, frames.shape[:2]
        inner = cast("ImageOperator", self.inner).of_sequences(count)
        flat = frames.reshape(rows * count, 1, *frames.shape[2:])
        given = self.entries(xp, rows, count, arguments)
        one = Spec(np.dtype(flat.dtype), tuple(flat.shape[1:]), self.layouts[0])
        known = {
            n: (Spec(v.dtype, v.shape[1:]) if n in self.framed | self.varying else arguments[n])
            for n, v in given.items()
        }
        made = inner.infer(one, **known)
        assert isinstance(made, Spec)  # an image operator has one output
        for whole in context.specs:  # known where an argument says the size of frames that are all alike
            made = replace(made, shape=(1, *whole.shape[1:]))
        chain = inner.fusion_group([FusedOperator(inner, one, made, varies_by_row=True)])
        if xp is not np:
            result = chain.trace(flat, [given], [None])
        else:
            flat = np.ascontiguousarray(flat)
            result = chain.execute(chain.describe(flat, [given], [None]), flat, None)
            if len({each.shape for each in result}) > 1:
                raise ValueError("the frames of a sequence become images of different sizes")
            result = np.stack(list(result))
        return result.reshape(rows, count, *result.shape[2:])


class HostImageFrames(ImageFrames, HostBatchKernel):
    """The same, of an operator that describes its work with NumPy alone."""
