"""ssd_random_crop: a random window of an image that shows enough of its objects."""

from __future__ import annotations

from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import Attempts
from penstock.operators.boxes.random_bbox_crop import random_bbox_crop
from penstock.operators.cropping.slice import slice as cut


@operator("ssd_random_crop")
def ssd_random_crop(
    images: DataNode,
    bboxes: DataNode,
    labels: DataNode,
    *,
    num_attempts: Attempts = 1,
    seed: int = -1,
) -> list[DataNode]:
    """Cut a random window out of each image, as the SSD detector is trained, and move the boxes into it.

    `fn.random_bbox_crop` with the choices of that paper (Liu et al., 2016), and `fn.slice`: windows with an overlap of
    0, 0.1, 0.3, 0.5, 0.7 or 0.9 with every box, or the whole image; at least 0.3 of the image wide and high.

    Args:
        images: any dtype, layout with H and W (HWC where none is named).
        bboxes: boxes relative to the image, float32 (n, 4): left, top, right and bottom.
        labels: what belongs to boxes, (n, ...) of any dtype.
        num_attempts: how many windows are tried before another overlap is chosen; with 0 and less, the whole
            image is taken.
        seed: a seed for this operator alone; -1 derives it from the pipeline's.

    Returns:
        The windows; the boxes whose centres are inside, relative to the window and cut off at its edges; their labels.

    Raises:
        ArgumentTypeError: boxes of another dtype.
        SampleError: while running, a box that leaves the image.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 60, 80, 3), np.uint8), layout="HWC")
        ...     boxes = fn.readers.arrays(np.float32([[[0.25, 0.25, 0.5, 0.5]]]))
        ...     pipeline.set_outputs(*fn.ssd_random_crop(images, boxes, fn.readers.arrays([[7]])))
        >>> [output.as_array().ndim for output in pipeline.run()]
        [4, 3, 2]
    """
    if num_attempts < 1:
        return [images, bboxes, labels]
    anchor, shape, kept, of_kept = random_bbox_crop(
        bboxes,
        labels,
        thresholds=[0.1, 0.3, 0.5, 0.7, 0.9, 0.0],
        scaling=[0.3, 1.0],
        aspect_ratio=[0.5, 2.0],
        num_attempts=num_attempts,
        seed=seed,
    )
    return [cut.forward(images, anchor, shape), kept, of_kept]
