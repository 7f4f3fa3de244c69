"""readers.fits: images in FITS files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack, cast

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.file_selection import Path, select_files
from penstock.sources.formats.fits_source import FitsSource
from penstock.sources.open_sources import open_shared
from penstock.types import DALIDataType, as_dtype


@operator("readers.fits")
def fits(
    *,
    file_root: DataLocation[Path | None] = None,
    files: DataLocation[Path | Sequence[Path] | None] = None,
    file_list: DataLocation[Path | None] = None,
    file_filter: DataLocation[str] = "*.fits",
    hdu_indices: int | Sequence[int] = 2,
    dtypes: DALIDataType | Any | Sequence[DALIDataType | Any] | None = None,
    **loader: Unpack[ReaderArguments],
) -> list[DataNode]:
    """Read images from FITS files, as astronomers keep them. Needs the extra `fits`.

    Give one of three: `file_root` alone, a folder, whose files come first, and then those of the folders directly below
    it, sorted by the bytes of their names; `files`, a list of paths; or `file_list`, a text file with a path per line.

    Images are what astropy gives: compressed ones are uncompressed; integers that stand for others (``BSCALE``,
    ``BZERO``, ``BLANK``) become these, as float32 or float64, or as unsigned integers. An image whose checksum
    (``DATASUM``) is wrong is a bad sample.

    Args:
        file_root: that folder; with `files` or `file_list`, what their paths are relative to.
        files: paths, in the order of the data set.
        file_list: the text file; its paths are relative to its own folder if there is no `file_root`.
        file_filter: a pattern such as "*.fits"; a file below `file_root` counts if it matches its name.
        hdu_indices: which images are read: their numbers in a file, counted from 1, which is the one at its beginning.
        dtypes: of the images, one for each number; by default as the first file has them (DALI expects UINT8).
        **loader: See `ReaderArguments`.

    Returns:
        Per number the images, with axes in NumPy's order: that of FITS, reversed.

    Raises:
        MissingExtraError: the package astropy is not installed.
        SourceNotFoundError: a path does not exist.
        SourceError: no files are found, or the first one has no such images, or other dtypes.
        DefinitionError: none or two of the three ways are used, an HDU below 1, or a number of dtypes other than that
            of HDUs.
        SampleError: while running, a file that is damaged, or has other dtypes or numbers of axes than the first.

    Example:
        >>> import penstock, tempfile
        >>> import numpy as np
        >>> from astropy.io import fits
        >>> from penstock import fn
        >>> root = tempfile.mkdtemp()
        >>> image = fits.ImageHDU(np.arange(6, dtype=np.int16).reshape(2, 3))
        >>> fits.HDUList([fits.PrimaryHDU(), image]).writeto(root + "/stars.fits")
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(*fn.experimental.readers.fits(file_root=root))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0, 1, 2], [3, 4, 5]]]
    """
    choice = select_files("fn.readers.fits", file_root, files, file_list, file_filter)
    places = (hdu_indices,) if isinstance(hdu_indices, int) else tuple(hdu_indices)
    if not places or min(places) < 1:
        raise DefinitionError("fn.readers.fits counts images from 1", given=f"hdu_indices={hdu_indices}", fix="[2]")
    kinds = None if dtypes is None else _dtypes(dtypes)
    if kinds is not None and len(kinds) != len(places):
        raise DefinitionError("fn.readers.fits takes a dtype per image", given=len(kinds), expected=len(places))
    return apply_reader(open_shared(FitsSource, choice, places, kinds, stamp=choice.stamp()), loader)


def _dtypes(given: Any) -> tuple[np.dtype[Any], ...]:
    several = cast(Sequence[Any], given if isinstance(given, list | tuple) else [given])
    return tuple(map(as_dtype, several))
