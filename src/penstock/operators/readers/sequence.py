"""readers.sequence: sequences of images, a folder each."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike, fspath
from typing import ClassVar, Unpack

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.output_channels import CHANNELS
from penstock.operators.argument_limits import Length
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.class_folders import class_folder_stamp
from penstock.sources.files.sequence_source import SequenceSource
from penstock.sources.open_sources import open_shared
from penstock.types import RGB, DALIImageType

_EXTENSIONS = "jpg jpeg png bmp tif tiff pnm ppm pgm pbm jp2 webp"
_PATTERNS = tuple(f"[!.]*.{extension}" for extension in _EXTENSIONS.split())


@dataclass(frozen=True)
class DecodeSequence(Operator, SampleKernel):
    """Images of one size, from encoded files that follow each other.

    Args:
        length: how many.
        decoding: how.
    """

    reads_content: ClassVar[bool] = True
    length: int
    decoding: ImageCodec

    def infer(self, data: Spec, sizes: Spec) -> Spec:
        """Images of any size."""
        del data, sizes
        return Spec(np.dtype(np.uint8), (self.length, None, None, CHANNELS[self.decoding.output_type]), "FHWC")

    def sample(self, context: SampleContext, data: Array, sizes: Array) -> Array:
        """The images."""
        ends = np.cumsum(sizes)
        frames: list[Array] = []
        for number, file in enumerate(np.split(data, ends[:-1])):
            try:
                frame = self.decoding.decode(file, self.decoding.header(file))
                if frame.dtype != np.uint8 or (frames and frame.shape != frames[0].shape):
                    expected = list(frames[0].shape) if frames else "8 bits"
                    raise ValueError(f"{frame.dtype}{list(frame.shape)}, where {expected} is expected")
            except ValueError as error:
                raise ValueError(f"frame {number} of the sequence: {error}") from error
            frames.append(frame)
        return np.stack(frames)


@operator("readers.sequence")
def sequence(
    *,
    file_root: DataLocation[str | PathLike[str]],
    sequence_length: Length,
    step: int = 1,
    stride: int = 1,
    image_type: DALIImageType = RGB,
    **loader: Unpack[ReaderArguments],
) -> DataNode:
    """Read sequences of images: frames of videos, for example, with a folder of image files for each video.

    Folders come in the order of their names, byte by byte, and so do the images of each. Folders and files that are
    hidden do not count, nor do files whose names do not end as those of images. A sequence lies in one folder, and is
    always complete.

    Args:
        file_root: the folder above the folders of images.
        sequence_length: images of a sequence.
        step: how many images lie from the first one of a sequence to that of the next.
        stride: how many lie from one image of a sequence to the next.
        image_type: the channels: RGB, BGR, GRAY, YCbCr, or ANY_DATA for those of the files.
        **loader: See `ReaderArguments`.

    Returns:
        The images, uint8 of shape (sequence_length, height, width, channels), layout FHWC.

    Raises:
        SourceNotFoundError: `file_root` is no folder.
        SourceError: no folder has enough images.
        DefinitionError: a length, step or stride below 1.
        SampleError: while running, a file that cannot be decoded, or images of several sizes in one sequence.

    Example:
        >>> import numpy as np, penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> from PIL import Image
        >>> root = Path(tempfile.mkdtemp())
        >>> (root / "video").mkdir()
        >>> for number in range(4):
        ...     Image.fromarray(np.full((8, 6, 3), number, np.uint8)).save(root / "video" / f"{number}.png")
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.sequence(file_root=root, sequence_length=3))
        >>> [images.shape for images in pipeline.run()[0]], pipeline.run()[0].at(1)[:, 0, 0, 0].tolist()
        ([(3, 8, 6, 3), (3, 8, 6, 3)], [1, 2, 3])
    """
    if min(step, stride) < 1:
        given = f"sequence_length={sequence_length}, step={step}, stride={stride}"
        raise DefinitionError("fn.readers.sequence: step and stride are at least 1", given=given)
    key = fspath(file_root), _PATTERNS, sequence_length, step, stride
    data, sizes = apply_reader(open_shared(SequenceSource, *key, stamp=class_folder_stamp(key[0])), loader)
    return apply(DecodeSequence(sequence_length, ImageCodec(image_type)), data, sizes, common={})
