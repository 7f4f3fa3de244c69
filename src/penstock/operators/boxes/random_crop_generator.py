"""Operator that draws windows of random area and aspect ratio."""

from dataclasses import dataclass
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Input, Operator, SampleContext, SampleKernel, apply_many, operator
from penstock.image.describe.random_window import RandomWindow, RandomWindowArguments, random_window


@dataclass(frozen=True)
class RandomCropGenerator(Operator, SampleKernel):
    """Random window in an image of a given shape."""

    window: RandomWindow

    @property
    def random_bits(self) -> int:
        """Random words of the window."""
        return self.window.random_bits

    def infer(self, shape: Spec) -> tuple[Spec, Spec]:
        """Return the specs of anchor and shape."""
        if shape.shape[0] not in (None, 2, 3):
            raise DefinitionError("shapes of images have two or three numbers", given=shape, expected="int64[3]")
        spec = Spec(np.dtype(np.int32), (2,))
        return spec, spec

    def sample(self, context: SampleContext, shape: Array) -> Any:
        """Return the first row and column, and height and width."""
        assert context.bits is not None  # because random_bits is not 0
        if shape[0] < 1 or shape[1] < 1:  # an image without pixels has only the empty window
            return np.zeros(2, np.int32), np.zeros(2, np.int32)
        window = self.window(shape[:1], shape[1:2], context.bits[None])
        top, left, height, width = (int(value[0]) for value in window)
        return np.array([top, left], np.int32), np.array([height, width], np.int32)


@operator("random_crop_generator")
def random_crop_generator(
    shapes: Annotated[DataNode, Input(("integer",), ranks=(1,), needs="shapes of images", fix="fn.shapes(images)")],
    *,
    seed: int = -1,
    **arguments: Unpack[RandomWindowArguments],
) -> list[DataNode]:
    """Draw windows of random area and aspect ratio, as `fn.random_resized_crop` does.

    Cut an image and its mask with ``fn.slice(images, start=anchor, shape=shape, axes=[0, 1])``.

    Args:
        shapes: Shapes of images, integers (2,) or (3,): height, width, ..., as from `fn.shapes` and
            `fn.peek_image_shape`.
        seed: Seed of this operator; -1 (default) derives one from the pipeline's seed.
        **arguments: See `RandomWindowArguments`.

    Returns:
        Anchor and shape of the window, both int32 (2,): along height and width.

    Raises:
        DefinitionError: Limits are out of order or not positive, or the inputs are not shapes of images.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 20, 30, 3), np.uint8), layout="HWC")
        ...     anchor, shape = fn.random_crop_generator(fn.shapes(images))
        ...     pipeline.set_outputs(fn.slice(images, start=anchor, shape=shape, axes=[0, 1]))
        >>> pipeline.run()[0].as_array().shape[3]
        3
    """
    return apply_many(RandomCropGenerator(random_window(arguments)), shapes, seed=seed)
