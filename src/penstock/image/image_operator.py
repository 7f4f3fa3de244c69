"""Contracts of image operators and image decoders."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.graph import FramedCall, Operator
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.image.codecs.image_header import DirectDecoding, ImageHeaders, Region
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_fusion import ImageFusion
from penstock.image.per_frame_images import HostImageFrames, ImageFrames


class ImageOperator(Operator, FusibleOperator):
    """Operator on images, volumes, sequences of them, or other arrays whose elements it moves or changes.

    A subclass is a frozen dataclass with a spec rule, a schema of its arguments, and `describe`. It never computes
    pixels: executors use the same description on the host and on the device, for dense and ragged images, alone and
    fused with other operators.
    """

    fusion_group = ImageFusion
    is_matrix_map: ClassVar[bool] = True
    """True if a matrix maps its coordinates. Otherwise masks can follow images through it, but points cannot."""

    @property
    def assumed_layout(self) -> str:
        """Layout that is assumed for images without one; "" if the layout does not matter."""
        return ""

    def per_frame(self, call: FramedCall) -> Operator:
        """Return an operator that treats each frame as an image, unless this one draws random numbers."""
        if self.random_bits:
            return super().per_frame(call)
        frames = ImageFrames if self.traceable else HostImageFrames
        return frames(self, call)

    def of_sequences(self, frames: int) -> ImageOperator:
        """Return the operator for frames with separate arguments, `frames` per sequence, which must keep one size."""
        del frames
        return self

    @abstractmethod
    def describe(self, images: ImageInfo, bits: Any, *_: Any, **arguments: Any) -> Sequence[Step]:
        """Describe the work as steps.

        Args:
            images: Sizes and dtype of the images.
            bits: Random bits, uint32 (rows, n), if `random_bits` is n > 0; otherwise None.
            arguments: Arguments of the schema, arrays with one entry per row.

        Raises:
            ValueError: An image cannot be processed, such as one that is smaller than a crop. The message is about one
                image; the caller adds which one.
        """


class ImageDecoder(Operator, FusibleOperator):
    """Operator that decodes files. It starts a fusion group."""

    fusion_group = ImageFusion
    starts_group = True
    reads_content = True
    reduced: bool
    """True if images may be decoded at a reduced size before they are resized to less than half."""

    @property
    def runs_python_per_sample(self) -> bool:
        """True unless `direct_decoding` decodes many files in one call."""
        return True

    @abstractmethod
    def read_headers(self, files: Sequence[Any]) -> ImageHeaders:
        """Read the headers of files; `ImageHeaders.of` makes them of a header per file.

        Raises:
            ValueError: The bytes of a file are not an image.
        """

    @abstractmethod
    def regions_to_decode(
        self, headers: ImageHeaders, regions: NDArray[np.int64], reductions: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the regions that are decoded when the pixels of `regions` are read, which they contain.

        Args:
            headers: Headers of files.
            regions: Rows and columns that are read, in pixels of the reduced images; (files, 4), fields of `Region`.
            reductions: 2, 4 or 8 for an image that is decoded at 1/2, 1/4 or 1/8 of its size; otherwise 1.
        """

    def direct_decoding(
        self, files: Sequence[Any], headers: ImageHeaders, regions: NDArray[np.int64]
    ) -> DirectDecoding:
        """Prepare the decoding of images, or regions of them, into memory: for those that need nothing else.

        By default, none.

        Args:
            files: Bytes of the files.
            headers: Headers of the files.
            regions: Per file, one of `regions_to_decode` for an image that is not reduced, (files, 4); zeros to leave
                the file out.

        Returns:
            A function for one thread. It takes, per file, memory for its pixels: uint8, C-contiguous, of their size;
            and the rows of the files to decode. It returns the rows that are left, for `decode_region`.
        """
        del files, headers, regions
        return lambda _memory, rows: rows

    @abstractmethod
    def decode_region(self, data: Any, header: Any, region: Region | None, memory: Any, reduce: int) -> Any:
        """Decode a region of an image.

        Args:
            data: Bytes of the file, uint8 of shape (n,).
            header: Header of the file.
            region: One of `regions_to_decode`; None for the whole image.
            memory: Memory that the pixels may be written to, uint8, large enough for the region. None: allocate it.
            reduce: Same value as for `regions_to_decode`.

        Returns:
            Pixels of layout HWC.

        Raises:
            ValueError: The file is damaged.
        """
