"""FITS files: astronomical images, several per file. Needs the extra `fits`.

Format: https://fits.gsfc.nasa.gov/fits_standard.html
"""

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.core import Array, Column, Indices, Spec, optional_import
from penstock.errors import SourceError
from penstock.sources.files.file_selection import FileSelection, SelectedFilesSource

# Largest ratio of an image to its file. The header of a compressed image declares its size; without a limit, a damaged
# header could request any amount of memory.
_MOST = 4096


class FitsSource(SelectedFilesSource):
    """Images of FITS files. A sample consists of one image per requested place.

    Args:
        choice: The files.
        places: Numbers of the images in a file, from 1; the first is the primary image.
        dtypes: Expected dtypes of the images, or None to use those of the first file.

    Raises:
        MissingExtraError: astropy is not installed.
        SampleError: The first file cannot be read.
        SourceError: It is not a FITS file, lacks one of the images, or their dtypes differ from `dtypes`.
    """

    def __init__(
        self, choice: FileSelection, places: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...] | None
    ) -> None:
        self._fits = optional_import.import_extra("astropy.io.fits", "fits", "reading FITS files")
        super().__init__(choice, places)
        self._places = places
        try:
            first = self._images(self.records.content(0))
        except ValueError as error:
            raise SourceError(f"{self.describe(0)} cannot be read as a FITS file: {error}") from error
        actual = [image.dtype for image in first]
        if dtypes is not None and list(dtypes) != actual:
            raise SourceError(
                f"the images of {self.describe(0)} have different dtypes",
                given=", ".join(map(str, actual)), expected=", ".join(map(str, dtypes)), fix="omit dtypes",
            )  # fmt: skip
        self.specs = tuple(Spec(image.dtype, (None,) * image.ndim) for image in first)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the images."""
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
            raise self.sample_error(index, f"cannot be read as a FITS file: {error}") from error
        return images

    def _images(self, data: Array) -> list[Array]:
        """Return the requested images of a file.

        Raises:
            ValueError: An image is missing or damaged.
        """
        try:
            # Lazy mapping would read pixels after the file is closed.
            with self._fits.open(io.BytesIO(data.tobytes()), memmap=False) as units:
                return [_image(units[place - 1], place, len(data)) for place in self._places]
        except IndexError as error:
            raise ValueError(f"image {max(self._places)} does not exist") from error
        # astropy raises many types of exceptions for damaged files.
        except Exception as error:
            raise ValueError(
                f"{type(error).__name__}: {error}" if not isinstance(error, ValueError) else error
            ) from error

    def fingerprint(self) -> str:
        """Combine the file names below their common folder and the image numbers."""
        return f"fits:{','.join(map(str, self._places))}:{self.records.fingerprint()}"


def _image(unit: Any, place: int, file: int) -> Array:
    """Return the image of a part of a file, in C order and native byte order.

    Raises:
        ValueError: The part has no image, is damaged, or its image is too large.
    """
    if not unit.is_image or not unit.shape:
        raise ValueError(f"part {place} does not contain an image")
    if not 0 <= math.prod(unit.shape) <= _MOST * file:
        raise ValueError(f"image {place} has the shape {unit.shape}, in a file of {file} bytes")
    # FITS standard, section 4.4.2.7 (DATASUM). 0 means that the sum is present and wrong.
    if unit.verify_datasum() == 0:
        raise ValueError(f"the checksum of image {place} does not match its header")
    image: Array | None = unit.data
    if image is None or image.dtype.kind not in "iuf":
        raise ValueError(f"part {place} does not contain an image")
    return np.ascontiguousarray(image, image.dtype.newbyteorder("="))
