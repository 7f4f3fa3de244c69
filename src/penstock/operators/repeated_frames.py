"""Repetition of images for inputs that have an entry per frame."""

from dataclasses import dataclass
from typing import Any

from penstock.core import Spec
from penstock.graph import BatchContext, BatchKernel, DataNode, Operator, apply


@dataclass(frozen=True)
class _RepeatFrames(Operator, BatchKernel):
    """Sequence of equal images, as long as another input."""

    def infer(self, image: Spec, entries: Spec) -> Spec:
        """Return the spec of the image with the frames of the other input as first axis."""
        return Spec(image.dtype, (entries.shape[0], *image.shape), f"F{image.layout}")

    def batch(self, context: BatchContext, image: Any, entries: Any) -> Any:
        """Repeat the images of all rows."""
        return context.xp.repeat(image[:, None], entries.shape[1], axis=1)


def repeated_for_frames(data: DataNode, *inputs: Any) -> DataNode:
    """Return images as sequences if one of the inputs that follow them has an entry per frame, as in DALI.

    Args:
        data: Images, or sequences, which are returned unchanged.
        inputs: The other inputs of an operator, not its arguments: only sequences have arguments per frame.
    """
    framed = [node for node in inputs if isinstance(node, DataNode) and node.layout[:1] == "F"]
    is_image = bool(data.layout) and data.layout[0] != "F"
    return apply(_RepeatFrames(), data, framed[0]) if framed and is_image else data
