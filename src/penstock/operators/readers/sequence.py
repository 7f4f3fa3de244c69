"""readers.sequence: sequences of image files."""

from dataclasses import dataclass
from os import PathLike, fspath
from typing import Annotated, ClassVar, Unpack

import numpy as np

from penstock.core import Array, Spec
from penstock.graph import DataLocation, DataNode, Operator, Range, SampleContext, SampleKernel, apply, operator
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.output_channels import CHANNELS
from penstock.operators.argument_limits import Length
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.class_folders import class_folder_stamp
from penstock.sources.files.sequence_source import SequenceSource
from penstock.sources.open_sources import open_shared
from penstock.types import RGB, DALIImageType

_EXTENSIONS = "jpg jpeg png bmp tif tiff pnm ppm pgm pbm jp2 webp"
# Hidden files are skipped, unlike in readers.file.
_PATTERNS = tuple(f"[!.]*.{extension}" for extension in _EXTENSIONS.split())


@dataclass(frozen=True)
class DecodeSequence(Operator, SampleKernel):
    """Decoding of the image files of a sequence.

    Args:
        length: Number of images.
        decoding: Codec of the images.
    """

    reads_content: ClassVar[bool] = True
    length: int
    decoding: ImageCodec

    def infer(self, data: Spec, sizes: Spec) -> Spec:
        """Return the spec of a sequence of images of unknown size."""
        del data, sizes
        return Spec(np.dtype(np.uint8), (self.length, None, None, CHANNELS[self.decoding.output_type]), "FHWC")

    def sample(self, context: SampleContext, data: Array, sizes: Array) -> Array:
        """Decode the images of one sequence."""
        # The reader returns the bytes of all files of a sequence in one array, and their sizes.
        ends = np.cumsum(sizes)
        frames: list[Array] = []
        # All frames must have one shape, because they become one array.
        for number, file in enumerate(np.split(data, ends[:-1])):
            try:
                frame = self.decoding.decode(file, self.decoding.header(file))
                if frame.dtype != np.uint8 or (frames and frame.shape != frames[0].shape):
                    expected = list(frames[0].shape) if frames else "8 bits"
                    raise ValueError(f"{frame.dtype}{list(frame.shape)}, but {expected} is expected")
            except ValueError as error:
                raise ValueError(f"frame {number} of the sequence: {error}") from error
            frames.append(frame)
        return np.stack(frames)


@operator("readers.sequence")
def sequence(
    *,
    file_root: DataLocation[str | PathLike[str]],
    sequence_length: Length,
    step: Annotated[int, Range(1)] = 1,
    stride: Annotated[int, Range(1)] = 1,
    image_type: DALIImageType = RGB,
    **loader: Unpack[ReaderArguments],
) -> DataNode:
    """Read sequences of images, such as video frames, from a folder of image files per video.

    Folders and the images in them come in byte order of their names. Hidden folders and files are skipped, and so are
    files without the extension of an image format. A sequence is part of one folder and always complete.

    Args:
        file_root: Folder of the image folders.
        sequence_length: Images per sequence.
        step: Distance between the first images of consecutive sequences, in images.
        stride: Distance between the images of a sequence, in images.
        image_type: Color space: RGB, BGR, GRAY, YCbCr, or ANY_DATA for the channels of the files.
        **loader: See `ReaderArguments`.

    Returns:
        Images, uint8 of shape (sequence_length, height, width, channels), layout FHWC.

    Raises:
        SourceNotFoundError: `file_root` is not a folder.
        SourceError: No folder has enough images.
        DefinitionError: `sequence_length`, `step` or `stride` is below 1.
        SampleError: While running, a file cannot be decoded, or the images of a sequence differ in size.

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
    key = fspath(file_root), _PATTERNS, sequence_length, step, stride
    data, sizes = apply_reader(open_shared(SequenceSource, *key, stamp=class_folder_stamp(key[0])), loader)
    return apply(DecodeSequence(sequence_length, ImageCodec(image_type)), data, sizes, common={})
