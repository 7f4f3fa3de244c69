"""sequence_rearrange, element_extract: frames of a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.graph.ir.operator import BatchContext, BatchKernel, Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import common_arguments, operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.tensors.getitem import Index, IndexItem


@dataclass(frozen=True)
class Rearrange(Operator, BatchKernel):
    """Some frames, in an order that is the same for all samples."""

    order: tuple[int, ...]

    def infer(self, frames: Spec) -> Spec:
        """As many frames as asked for."""
        count = frames.shape[0]
        if count is not None and max(self.order) >= count:
            raise DefinitionError("there is no such frame", given=max(self.order), expected=f"less than {count}")
        return Spec(frames.dtype, (len(self.order), *frames.shape[1:]), frames.layout)

    def batch(self, context: BatchContext, frames: Any) -> Any:
        """The frames."""
        if max(self.order) >= frames.shape[1]:
            raise ValueError(f"there is no frame {max(self.order)} in a sequence of {frames.shape[1]}")
        return context.xp.take(frames, np.array(self.order, np.int32), axis=1)


@dataclass(frozen=True)
class RearrangeEach(Operator, SampleKernel):
    """Some frames, in an order of its own for each sample."""

    def infer(self, frames: Spec, order: Spec) -> Spec:
        """As many frames as asked for."""
        if order.dtype.kind not in "iu" or len(order.shape) != 1:
            raise DefinitionError("fn.sequence_rearrange: new_order is a vector of whole numbers", given=order)
        return Spec(frames.dtype, (order.shape[0], *frames.shape[1:]), frames.layout)

    def sample(self, context: SampleContext, frames: Array, order: Array) -> Array:
        """The frames."""
        if len(order) and not 0 <= order.min() <= order.max() < len(frames):
            raise ValueError(f"a sequence of {len(frames)} frames does not have all of {order.tolist()}")
        return frames[order]


def _check_sequence(kind: str, frames: Spec) -> None:
    if not frames.shape or frames.layout[:1] not in ("", "F"):
        raise DefinitionError(
            f"fn.{kind} takes sequences, whose first axis counts frames",
            given=frames,
            expected="a layout that begins with F, or none",
        )


@operator("sequence_rearrange")
def sequence_rearrange(data: DataNode, *, new_order: int | Sequence[int] | DataNode) -> DataNode:
    """Take frames of a sequence, in another order.

    Args:
        data: sequences: the first axis counts frames.
        new_order: the numbers of the frames, from 0; frames may be left out or repeated. A node gives each sample its
            own.

    Returns:
        The frames, in that order.

    Raises:
        DefinitionError: a frame that does not exist, no number at all, or a layout that does not begin with F.

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
    _check_sequence("sequence_rearrange", data.spec)
    if isinstance(new_order, DataNode):
        return apply(RearrangeEach(), data, new_order)
    order = np.atleast_1d(new_order)
    if order.ndim != 1 or not order.size or order.dtype.kind not in "iu" or order.min() < 0:
        raise DefinitionError("fn.sequence_rearrange: new_order has numbers of frames, from 0", given=new_order)
    return apply(Rearrange(tuple(order.tolist())), data)


@operator("element_extract")
def element_extract(data: DataNode, *, element_map: int | Sequence[int]) -> DataNode | list[DataNode]:
    """Take single frames of a sequence.

    Args:
        data: sequences: the first axis counts frames.
        element_map: the numbers of the frames, from 0.

    Returns:
        A node per number, each without the axis of frames; one node for one number.

    Raises:
        DefinitionError: a frame that does not exist, or a layout that does not begin with F.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(*fn.element_extract(fn.readers.arrays([[10, 20, 30]]), element_map=[2, 0]))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[30], [10]]
    """
    _check_sequence("element_extract", data.spec)
    numbers = np.atleast_1d(np.asarray(element_map))
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise DefinitionError("fn.element_extract: element_map has numbers of frames, from 0", given=element_map)
    # Names are unique, so that of the call is for the first element.
    unnamed: CommonArguments = {**common_arguments(), "name": None}
    frames = [
        apply(Index((IndexItem(number),)), data, common=unnamed if at else None)
        for at, number in enumerate(numbers.tolist())
    ]
    return frames if len(frames) > 1 else frames[0]
