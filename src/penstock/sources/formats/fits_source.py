"""FITS files: the images of astronomers, several in a file. Needs the extra `fits`.

The format: https://fits.gsfc.nasa.gov/fits_standard.html
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import SampleError, SourceError
from penstock.sources.files.file_selection import FileSelection, SelectedFilesSource
from penstock.sources.source import Source

_MOST = 4096
"""How many times as large as its file an image may be: a compressed one says itself how large it becomes."""


class FitsSource(SelectedFilesSource):
    """Images of FITS files, one of each place per sample.

    Args:
        choice: the files.
        places: which images of a file, counted from 1; the first is that of the file itself.
        dtypes: of the images; None where those of the first file say so.

    Raises:
        MissingExtraError: the package astropy is not installed.
        SampleError: the first file cannot be read.
        SourceError: it is no FITS file, has no such images, or has others than `dtypes` says.
    """

    def __init__(
        self, choice: FileSelection, places: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...] | None
    ) -> None:
        self._fits = optional_import.import_extra("astropy.io.fits", "fits", "fn.readers.fits")
        super().__init__(choice)
        self._places = places
        try:
            first = self._images(self.records.content(0))
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} is no FITS file that can be read: {error}") from error
        found = [image.dtype for image in first]
        if dtypes is not None and list(dtypes) != found:
            raise SourceError(
                f"the images of {self.describe(0)} have other dtypes",
                given=", ".join(map(str, found)), expected=", ".join(map(str, dtypes)), fix="leave dtypes out",
            )  # fmt: skip
        self.specs = tuple(Spec(image.dtype, (None,) * image.ndim) for image in first)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The images."""
        contents = self.records.contents(indices)
        samples = [self._sample(index, data) for index, data in zip(indices.tolist(), contents, strict=True)]
        return tuple([sample[number] for sample in samples] for number in range(len(self.specs)))

    def _sample(self, index: int, data: Array) -> list[Array]:
        try:
            images = self._images(data)
            for place, image, spec in zip(self._places, images, self.specs, strict=True):
                if not spec.accepts(image):
                    raise ValueError(f"image {place} is {image.dtype}{list(image.shape)}, where sample 0 has {spec}")
        except ValueError as error:
            path = self.describe(index)
            raise SampleError.of(index, path, f"is no FITS file that can be read: {error}", path) from error
        return images

    def _images(self, data: Array) -> list[Array]:
        """The images in a file's bytes.

        Raises:
            ValueError: it has none there, or is damaged.
        """
        try:
            with self._fits.open(io.BytesIO(data.tobytes()), memmap=False) as units:
                return [_image(units[place - 1], place, len(data)) for place in self._places]
        except IndexError as error:
            raise ValueError(f"it has no image {max(self._places)}") from error
        except Exception as error:
            raise ValueError(
                f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else error
            ) from error

    def path(self, index: int) -> str:
        """The file's path."""
        return self.describe(index)

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the same images of the same files are read."""
        if not isinstance(other, FitsSource) or self._places != other._places:  # noqa: SLF001  # one class
            return False
        return self.records.reads_same_samples(other.records)

    def fingerprint(self) -> str:
        """The names of the files below their common folder, and which images are read."""
        return f"fits:{','.join(map(str, self._places))}:{self.records.fingerprint()}"


def _image(unit: Any, place: int, file: int) -> Array:
    """The image of a part of a file, in C order and in the machine's byte order.

    Raises:
        ValueError: it has none, is damaged, or is larger than an image may be.
    """
    if not unit.is_image or not unit.shape:
        raise ValueError(f"part {place} has no image")
    if not 0 <= math.prod(unit.shape) <= _MOST * file:
        raise ValueError(f"image {place} has the shape {unit.shape}, in a file of {file} bytes")
    if unit.verify_datasum() == 0:
        raise ValueError(f"image {place} has another checksum than its header says")
    image: Array | None = unit.data
    if image is None or image.dtype.kind not in "iuf":
        raise ValueError(f"part {place} has no image")
    return np.ascontiguousarray(image, image.dtype.newbyteorder("="))
