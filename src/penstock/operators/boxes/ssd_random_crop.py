"""Operator that cuts windows for training SSD."""

from penstock.graph import DataNode, operator
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
    """Cut a random window from each image, as for training SSD, and convert the boxes to it.

    Combines `fn.slice` and `fn.random_bbox_crop` with the choices of the paper (Liu et al., 2016): windows with a
    minimum IoU of 0, 0.1, 0.3, 0.5, 0.7 or 0.9 with every box, or the whole image; extents at least 0.3 of the image.

    Args:
        images: Images of any dtype; layout with H and W (HWC if the input has none).
        bboxes: Boxes relative to the image, float32 (n, 4): left, top, right, bottom.
        labels: Labels of the boxes, (n, ...), any dtype.
        num_attempts: Windows to try before another overlap is chosen; 0 or less uses the whole image.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.

    Returns:
        Windows; the boxes whose centers are inside, relative to the window and clipped to it; their labels.

    Raises:
        DefinitionError: The boxes are not float32.
        SampleError: At run time, a box leaves the image.

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
    anchor, shape, kept, kept_labels = random_bbox_crop(
        bboxes,
        labels,
        thresholds=[0.1, 0.3, 0.5, 0.7, 0.9, 0.0],
        scaling=[0.3, 1.0],
        aspect_ratio=[0.5, 2.0],
        num_attempts=num_attempts,
        seed=seed,
    )
    return [cut.forward(images, anchor, shape), kept, kept_labels]
