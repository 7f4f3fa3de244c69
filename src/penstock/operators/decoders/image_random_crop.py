"""decoders.image_random_crop: decoding of a random window of images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from penstock.core import Spec
from penstock.graph import DataNode, apply, operator, select_arguments
from penstock.image.describe.random_window import RandomWindow, RandomWindowArguments, random_window
from penstock.image.describe.steps import CropStep, ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.decoders.image import DecoderArguments, decoder
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16


class ImageRandomCropArguments(RandomWindowArguments, DecoderArguments, total=False):
    """Arguments of the window and of the decoder."""


@dataclass(frozen=True)
class RandomCrop(ImageOperator):
    """Random window of an image of layout HWC.

    Args:
        window: Distribution of the window.
    """

    window: RandomWindow

    @property
    def random_bits(self) -> int:
        """Number of random bits per sample."""
        return self.window.random_bits

    def infer(self, images: Spec) -> Spec:
        """Return the spec of an image of unknown size."""
        return Spec(images.dtype, (None, None, images.shape[2]), "HWC", bounds=images.bounds)

    def describe(self, images: ImageInfo, bits: Any) -> Sequence[Step]:
        """Return the crops of both axes, drawn for each row."""
        top, left, height, width = self.window(images.sizes[0], images.sizes[1], bits)
        return [CropStep(0, top, height), CropStep(1, left, width)]

    def draws(self, bits: NDArray[np.uint32], shape: tuple[int, ...]) -> Mapping[str, int]:
        """Return the window."""
        return self.window.draws(shape[0], shape[1], bits)


@operator("decoders.image_random_crop")
@rounds_to_bfloat16
def image_random_crop(data: EncodedBytes, *, seed: int = -1, **arguments: Unpack[ImageRandomCropArguments]) -> DataNode:
    """Decode images and crop a window of random area and aspect ratio.

    The whole image is decoded into a buffer that is reused for the next one; a `resize` that follows reads the window
    from that buffer. The EXIF orientation is applied before the crop.

    Args:
        data: Bytes of an image file, uint8 of shape (n,).
        seed: Seed of this operator; -1 derives it from the pipeline's.
        **arguments: See `ImageRandomCropArguments`.

    Returns:
        Pixels, (height, width, channels), layout HWC.

    Raises:
        DefinitionError: The limits of the window are not valid, or an option is not supported.
        SampleError: While running, an image cannot be decoded.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> with penstock.Pipeline(batch_size=1):
        ...     data = fn.readers.arrays(np.zeros((1, 400), np.uint8))
        ...     images = fn.decoders.image_random_crop(data, random_area=[0.1, 0.5])
        ...     fn.resize(images, size=(32, 32))
        DataNode(resize: uint8[32, 32, 3] HWC)
    """
    # Separate nodes, so that the resize that usually follows can take the window as its ROI without a copy.
    draw = RandomCrop(random_window(select_arguments(RandomWindowArguments, arguments)))
    # The seed belongs to the window; the decoder draws nothing.
    return apply(draw, apply(decoder(arguments), data, common={}), seed=seed)
