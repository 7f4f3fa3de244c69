"""Operator that adds the artifacts of JPEG compression."""

import io
import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import simplejpeg
from PIL import Image

from penstock.core import Array, Column, Spec
from penstock.graph import (
    Argument,
    BatchContext,
    DataNode,
    HostBatchKernel,
    Input,
    Operator,
    apply,
    assumed_layout,
    operator,
)
from penstock.image.kernels.jpeg_round_trip import jpeg_round_trip

# Images of up to this number of pixels take a compiled round trip without entropy coding. On photographs of 224x224 it
# needs 0.9, 0.75 and 0.6 of the time of libjpeg-turbo at qualities 10, 50 and 90; for larger ones and low qualities,
# whose few coefficients are coded fast, libjpeg-turbo is faster (384x384: 1.2, 0.9 and 0.7).
SMALL = 1 << 17


@dataclass(frozen=True)
class JpegCompressionDistortion(Operator, HostBatchKernel):
    """JPEG round trip with chroma subsampling 4:2:0."""

    pixel_aligned: ClassVar[bool] = True
    accepts_ragged: ClassVar[bool] = True

    def infer(self, images: Spec, *, quality: Any) -> Spec:
        """Return the spec of the input."""
        return replace(images, layout=assumed_layout(images))

    def batch(self, context: BatchContext, images: Column, *, quality: Any) -> Any:
        """Distort a batch: all images in one call if dense, otherwise one by one."""
        # libjpeg clamps the quality to the same limits.
        quality = np.clip(quality, 1, 100)
        if not isinstance(images, list):
            out = np.empty(images.shape, np.uint8) if context.out is None else context.out
            _distort(images, quality, out)
            return out
        result = [np.empty(image.shape, np.uint8) for image in images]
        for row, (image, out) in enumerate(zip(images, result, strict=True)):
            _distort(image[None], quality[row : row + 1], out[None])
        return result


def _distort(images: Array, quality: Array, out: Array) -> None:
    """Distort images, or sequences of frames, of one size, with a quality for each image or sequence."""
    *counts, height, width, channels = images.shape
    # `infer` cannot check channels that are unknown while tracing.
    if channels != 3:
        raise ValueError(f"the image has {channels} channels, not 3")
    shape = math.prod(counts), height, width, channels
    qualities = np.repeat(quality, math.prod(counts[1:]))
    frames, results = np.ascontiguousarray(images).reshape(shape), out.reshape(shape)
    if 0 < height * width <= SMALL:
        jpeg_round_trip(frames, qualities, results)
        return
    for frame, number, result in zip(frames, qualities.tolist(), results, strict=True):
        file = io.BytesIO()
        Image.fromarray(frame).save(file, "JPEG", quality=number)
        result[...] = simplejpeg.decode_jpeg(file.getbuffer(), "RGB", False)


@operator("jpeg_compression_distortion")
def jpeg_compression_distortion(
    data: Annotated[DataNode, Input(("uint8",), layouts=("HWC", "FHWC"), channels=(3,), needs="RGB images")],
    *,
    quality: Annotated[int | DataNode, Argument(np.int32)] = 50,
) -> DataNode:
    """Add the artifacts of JPEG compression to images by encoding and decoding them.

    Results equal those of libjpeg-turbo with chroma subsampling 4:2:0, as in DALI on the CPU. The operator runs on the
    host.

    Args:
        data: RGB images or sequences, uint8, layout HWC (the default) or FHWC.
        quality: Quality of the JPEG, clamped to 1 to 100; a number, or a node with one per sample.

    Returns:
        Images of the same shape, dtype and layout.

    Raises:
        DefinitionError: The dtype is not uint8, or the number of channels or the layout is not supported.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((1, 8, 8, 3), [200, 100, 50], np.uint8), layout="HWC")
        ...     pipeline.set_outputs(fn.jpeg_compression_distortion(images, quality=5))
        >>> pipeline.run()[0].as_array()[0, 0, 0].tolist()
        [218, 97, 54]
    """
    return apply(JpegCompressionDistortion(), data, quality=quality)
