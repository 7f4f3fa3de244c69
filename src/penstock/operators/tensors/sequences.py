"""sequence_rearrange, element_extract: selection of frames of a sequence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    Operator,
    Range,
    SampleContext,
    SampleKernel,
    apply,
    common_arguments,
    operator,
)
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.operators.tensors.getitem import Index, IndexItem


@dataclass(frozen=True)
class Rearrange(Operator, BatchKernel):
    """Selection of frames, the same for all samples."""

    order: tuple[int, ...]

    def infer(self, frames: Spec) -> Spec:
        """Return the spec with the number of selected frames."""
        count = frames.shape[0]
        if count is not None and max(self.order) >= count:
            raise DefinitionError("the frame does not exist", given=max(self.order), expected=f"less than {count}")
        return Spec(frames.dtype, (len(self.order), *frames.shape[1:]), frames.layout)

    def batch(self, context: BatchContext, frames: Any) -> Any:
        """Return the selected frames."""
        # While tracing, the length may be unknown.
        if max(self.order) >= frames.shape[1]:
            raise ValueError(f"frame {max(self.order)} does not exist in a sequence of {frames.shape[1]} frames")
        return context.xp.take(frames, np.array(self.order, np.int32), axis=1)


@dataclass(frozen=True)
class RearrangeEach(Operator, SampleKernel):
    """Selection of frames that differs per sample."""

    def infer(self, frames: Spec, order: Spec) -> Spec:
        """Return the spec with the number of selected frames."""
        if order.dtype.kind not in "iu" or len(order.shape) != 1:
            raise DefinitionError("new_order must be a vector of integers", given=order)
        return Spec(frames.dtype, (order.shape[0], *frames.shape[1:]), frames.layout)

    def sample(self, context: SampleContext, frames: Array, order: Array) -> Array:
        """Return the selected frames."""
        if len(order) and not 0 <= order.min() <= order.max() < len(frames):
            raise ValueError(f"some of the frames {order.tolist()} do not exist in a sequence of {len(frames)} frames")
        return frames[order]


def _check_sequence(frames: Spec) -> None:
    if not frames.shape or frames.layout[:1] not in ("", "F"):
        raise DefinitionError(
            "sequences must have frames along the first axis",
            given=frames,
            expected="a layout that begins with F, or none",
        )


def _frame_numbers(name: str, numbers: int | Sequence[int]) -> tuple[int, ...]:
    if not np.size(numbers):
        raise DefinitionError(f"{name} must not be empty")
    return tuple(np.atleast_1d(numbers).tolist())


@operator("sequence_rearrange")
def sequence_rearrange(data: DataNode, *, new_order: Annotated[int | Sequence[int] | DataNode, Range(0)]) -> DataNode:
    """Select frames of a sequence, in any order.

    Args:
        data: Sequences, with frames along the first axis.
        new_order: Numbers of the frames, from 0. Frames can be omitted or repeated. A node sets them per sample.

    Returns:
        The selected frames.

    Raises:
        DefinitionError: A frame does not exist, the list is empty, or the layout does not begin with F.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     frames = fn.readers.arrays([[10, 20, 30]])
        ...     pipeline.set_outputs(fn.sequence_rearrange(frames, new_order=[2, 0, 2]))
        >>> pipeline.run()[0].as_array().tolist()
        [[30, 10, 30]]
    """
    _check_sequence(data.spec)
    if isinstance(new_order, DataNode):
        return apply(RearrangeEach(), data, new_order)
    return apply(Rearrange(_frame_numbers("new_order", new_order)), data)


@operator("element_extract")
def element_extract(
    data: DataNode, *, element_map: Annotated[int | Sequence[int], Range(0)]
) -> DataNode | list[DataNode]:
    """Extract single frames of a sequence as separate outputs.

    Args:
        data: Sequences, with frames along the first axis.
        element_map: Numbers of the frames, from 0.

    Returns:
        One node per number, without the axis of frames. A single node for a single number.

    Raises:
        DefinitionError: A frame does not exist, or the layout does not begin with F.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(*fn.element_extract(fn.readers.arrays([[10, 20, 30]]), element_map=[2, 0]))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[30], [10]]
    """
    _check_sequence(data.spec)
    # Node names are unique, so the name of the call goes to the first element.
    unnamed: CommonArguments = {**common_arguments(), "name": None}
    frames = [
        apply(Index((IndexItem(number),)), data, common=unnamed if position else None)
        for position, number in enumerate(_frame_numbers("element_map", element_map))
    ]
    return frames if len(frames) > 1 else frames[0]
