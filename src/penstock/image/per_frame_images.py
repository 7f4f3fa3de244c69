"""Image operators on sequences with one argument per frame."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph import BatchContext, HostBatchKernel
from penstock.graph.ir.fusion_contract import FusedOperator
from penstock.graph.ir.per_frame_kernel import PerFrameOperator

if TYPE_CHECKING:
    from penstock.image.image_operator import ImageOperator


@dataclass(frozen=True)
class ImageFrames(PerFrameOperator):
    """Image operator on each frame of a sequence, with the arguments of the frame."""

    def infer(self, *inputs: Spec, **arguments: Any) -> Spec:
        """Return the spec of the operator for one frame, with the number of frames in front."""
        (frames,) = inputs
        if self.call.layouts[0][:1] != "F":
            raise DefinitionError(
                "arguments per frame are for sequences",
                given=f"{', '.join(sorted(self.call.framed))}, and images of {frames}",
                expected="a layout that begins with F, such as FHWC",
            )
        for name in self.call.framed:
            count = arguments[name].shape[0]
            if count != 1 and None not in (count, frames.shape[0]) and count != frames.shape[0]:
                raise DefinitionError(
                    f"{name} must have one entry, or one per frame", given=count, expected=f"{frames.shape[0]} frames"
                )
        result = self.inner.infer(replace(frames, shape=(1, *frames.shape[1:]), bounds=()), **self.specs(arguments))
        assert isinstance(result, Spec)  # an image operator has one output
        return replace(result, shape=(frames.shape[0], *result.shape[1:]), bounds=())

    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """Describe and execute the frames of all rows as one batch."""
        (frames,) = inputs
        xp, (rows, count) = context.xp, frames.shape[:2]
        inner = cast("ImageOperator", self.inner).of_sequences(count)
        flat = frames.reshape(rows * count, 1, *frames.shape[2:])
        values = self.entries(xp, rows, count, arguments)
        one = Spec(np.dtype(flat.dtype), tuple(flat.shape[1:]), self.call.layouts[0])
        known = {
            n: (Spec(v.dtype, v.shape[1:]) if n in self.call.framed | self.call.varying else arguments[n])
            for n, v in values.items()
        }
        output = inner.infer(one, **known)
        assert isinstance(output, Spec)  # an image operator has one output
        # The spec of the sequence knows sizes that the inner operator cannot infer from arguments that vary by row.
        for whole in context.specs:
            output = replace(output, shape=(1, *whole.shape[1:]))
        group = inner.fusion_group([FusedOperator(inner, one, output, varies_by_row=True)])
        if xp is not np:
            result = group.trace(flat, [values], [None])
        else:
            flat = np.ascontiguousarray(flat)
            result = group.execute(group.describe(flat, [values], [None]), flat, None)
            if len({image.shape for image in result}) > 1:
                raise ValueError("the frames of a sequence have results of different sizes")
            result = np.stack(list(result))
        return result.reshape(rows, count, *result.shape[2:])


class HostImageFrames(ImageFrames, HostBatchKernel):
    """`ImageFrames` of an operator that can only be described with NumPy."""
