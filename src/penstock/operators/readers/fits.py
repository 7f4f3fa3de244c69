"""readers.fits: images in FITS files."""

from collections.abc import Sequence
from typing import Annotated, Any, Unpack, cast

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, DType, Range, operator
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.file_selection import Path, select_files
from penstock.sources.formats.fits_source import FitsSource
from penstock.sources.open_sources import open_shared
from penstock.types import as_dtype


@operator("readers.fits")
def fits(
    *,
    file_root: DataLocation[Path | None] = None,
    files: DataLocation[Path | Sequence[Path] | None] = None,
    file_list: DataLocation[Path | None] = None,
    file_filter: DataLocation[str] = "*.fits",
    hdu_indices: Annotated[int | Sequence[int], Range(1)] = 2,
    dtypes: DType | Sequence[DType] | None = None,
    **loader: Unpack[ReaderArguments],
) -> list[DataNode]:
    """Read images from FITS files, the format of astronomy. Requires the extra `fits`.

    Use one of three arguments. `file_root` alone: a folder, whose files come first, then those of its direct
    subfolders, in byte order of their names. `files`: a list of paths. `file_list`: a text file with a path per line.

    astropy reads the images: compressed ones are decompressed, and scaled integers (``BSCALE``, ``BZERO``, ``BLANK``)
    become float32, float64 or unsigned integers. An image with a wrong checksum (``DATASUM``) is a bad sample.

    Args:
        file_root: Folder of the files; with `files` or `file_list`, the folder that their paths are relative to.
        files: Paths, in the order of the data set.
        file_list: Text file; its paths are relative to its own folder unless `file_root` is given.
        file_filter: Pattern such as "*.fits"; files below `file_root` are read if it matches the name.
        hdu_indices: Indices of the HDUs to read, counted from 1, which is the primary HDU.
        dtypes: Element types of the images, one per HDU; by default those of the first file (DALI expects UINT8).
        **loader: See `ReaderArguments`.

    Returns:
        The images of each HDU, with axes in NumPy's order, the reverse of that of FITS.

    Raises:
        MissingExtraError: The package astropy is not installed.
        SourceNotFoundError: A path does not exist.
        SourceError: There are no files, or the first file does not have such images, or has other dtypes.
        DefinitionError: Not exactly one of the three arguments is used, an HDU index is below 1, or the number of
            dtypes is not that of HDUs.
        SampleError: While running, a file is damaged, or has other dtypes or ranks than the first.

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
    choice = select_files(file_root, files, file_list, file_filter)
    # Counted from 1 as in DALI and CFITSIO, whereas astropy counts from 0.
    hdus = (hdu_indices,) if isinstance(hdu_indices, int) else tuple(hdu_indices)
    check_not_empty(hdu_indices=hdus)
    if dtypes is not None:
        dtypes = tuple(map(as_dtype, cast(Sequence[Any], dtypes if isinstance(dtypes, list | tuple) else [dtypes])))
        if len(dtypes) != len(hdus):
            raise DefinitionError("dtypes must have one entry per HDU", given=len(dtypes), expected=len(hdus))
    # The stamp changes if files are added or written; the data set is then opened again.
    return apply_reader(open_shared(FitsSource, choice, hdus, dtypes, stamp=choice.stamp()), loader)
