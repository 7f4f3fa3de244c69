"""What an image operator is: it describes its work, and an executor does it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from penstock.graph.ir.fusion import FusibleOperator
from penstock.graph.ir.operator import Operator
from penstock.image.codecs.image_header import Region
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_fusion import ImageFusion
from penstock.image.per_frame_images import HostImageFrames, ImageFrames


class ImageOperator(Operator, FusibleOperator):
    """An operator on images, volumes, sequences of them, or any arrays of which it moves or changes elements.

    A subclass is a frozen dataclass with a spec rule, a schema of its arguments, and `describe`. It is never asked for
    pixels: the same description is executed on the host, for dense and for ragged images, alone and together with the
    operators around it, and on the device.
    """

    fusion_group = ImageFusion
    is_matrix_map: ClassVar[bool] = True
    """Whether a matrix can say where it moves pixels: else masks can follow images through it, but not points."""

    @property
    def assumed_layout(self) -> str:
        """The layout that images are taken to have where they have none; "" where it does not matter."""
        return ""

    def per_frame(
        self, kind: str, layouts: Sequence[str], framed: AbstractSet[str], varying: AbstractSet[str]
    ) -> Operator:
        """Each frame as an image, where the operator draws no random numbers."""
        if self.random_bits:
            return super().per_frame(kind, layouts, framed, varying)
        frames = ImageFrames if self.traceable else HostImageFrames
        return frames(self, kind, tuple(layouts), frozenset(framed), frozenset(varying))

    def of_sequences(self, frames: int) -> ImageOperator:
        """The operator for frames with arguments of their own, `frames` to a sequence, which stay alike in size."""
        del frames
        return self

    @abstractmethod
    def describe(self, images: ImageInfo, bits: Any, *_: Any, **arguments: Any) -> Sequence[Step]:
        """What becomes of the images, as steps.

        Args:
            images: what is known of them.
            bits: uint32 (rows, n), where the operator declares `random_bits` n; else None.
            arguments: those of its schema, arrays with an entry per row.

        Raises:
            ValueError: it cannot be done, such as a window that leaves an image; in the words of one image.
        """


class ImageDecoder(Operator, FusibleOperator):
    """An operator that makes images of encoded bytes: the head of a chain."""

    fusion_group = ImageFusion
    starts_group = True
    reads_content = True
    reduced: bool
    """Whether images may be decoded at a part of their size, where they are made smaller anyhow."""

    @abstractmethod
    def read_header(self, data: Any) -> Any:
        """What the header of a file says.

        Returns:
            An object with `height`, `width`, `channels`, whether it is `reducible`, and `head`: how many bytes, from
            the first on, say all this; 0 where that is not known.

        Raises:
            ValueError: the bytes are no image.
        """

    def headers(self, files: Iterable[Any]) -> list[Any]:
        """What `header` gives for each file. Small ones that one program has written often begin alike."""
        found: list[Any] = []
        head, header = b"", None
        for data in files:
            if not head or data[: len(head)].tobytes() != head:
                header = self.read_header(data)
                head = data[: header.head].tobytes()
            found.append(header)
        return found

    @abstractmethod
    def region_to_decode(self, header: Any, region: Region, reduce: int) -> Region:
        """Return the region that is decoded when the pixels of `region` are read. It contains `region`.

        Args:
            header: Result of `read_header`.
            region: Rows and columns that are read, in pixels of the reduced image.
            reduce: 2, 4 or 8 if the image is decoded at 1/2, 1/4 or 1/8 of its size; otherwise 1.
        """

    @abstractmethod
    def decode_region(self, data: Any, header: Any, region: Region, memory: Any, reduce: int) -> Any:
        """Decode a region of an image.

        Args:
            data: Bytes of the file, uint8 of shape (n,).
            header: Result of `read_header`.
            region: Result of `region_to_decode`, or the whole image.
            memory: Memory that the pixels may be written to, uint8, large enough for the region. None: allocate it.
            reduce: Same value as for `region_to_decode`.

        Returns:
            Pixels of layout HWC.

        Raises:
            ValueError: damaged bytes.
        """
