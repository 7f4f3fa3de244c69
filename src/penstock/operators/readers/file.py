"""readers.file: encoded files with labels."""

from collections.abc import Sequence
from os import fspath
from typing import Annotated, Unpack

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, Range, operator
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.files.class_folders import class_folder_stamp, list_class_folders
from penstock.sources.files.file_lists import files_from_labeled_list, files_from_paths
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps
from penstock.sources.storage.object_store import is_remote

# DALI's default of `file_filters`.
_EXTENSIONS = "jpg jpeg png bmp tif tiff pnm ppm pgm pbm jp2 webp flac ogg wav"
_PATTERNS = tuple(f"*.{extension}" for extension in _EXTENSIONS.split())


@operator("readers.file")
def file(
    *,
    file_root: DataLocation[Path | None] = None,
    files: DataLocation[Path | Sequence[Path] | None] = None,
    labels: DataLocation[Annotated[int | Sequence[int] | None, Range(-(2**31), 2**31 - 1)]] = None,
    file_list: DataLocation[Path | None] = None,
    file_filters: DataLocation[str | Sequence[str]] = _PATTERNS,
    dir_filters: DataLocation[str | Sequence[str]] = (),
    case_sensitive_filter: DataLocation[bool] = False,
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode]:
    """Read files as bytes, with a label each.

    Use one of three arguments. `file_root` alone: a folder with a folder of files per class; labels number the classes
    in the byte order of the folder names, including hidden and empty folders. A warning names empty folders, and files
    above or below the class folders, which are not read. `files`: a list of paths. `file_list`: a text file with a path
    and a label per line.

    Args:
        file_root: Folder of the class folders; with `files` or `file_list`, the folder that their paths are relative
            to.
        files: Paths, in the order of the data set.
        labels: Labels, one per entry of `files`; by default the index of the file.
        file_list: Text file; its paths are relative to its own folder unless `file_root` is given.
        file_filters: Patterns such as "*.png"; files of class folders are read if one of them matches the name.
        dir_filters: Patterns of the names of class folders; other folders do not get a label.
        case_sensitive_filter: If True, `file_filters` distinguish upper and lower case.
        **loader: See `LabeledReaderArguments`.

    Returns:
        Bytes of the files, uint8 of shape (n,), and labels, int32 of shape (1,), or () with `flat_labels`.

    Raises:
        SourceNotFoundError: A path does not exist.
        SourceError: There are no files, or a list cannot be read.
        DefinitionError: Not exactly one of the three arguments is used.

    Example:
        >>> import penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> root = Path(tempfile.mkdtemp())
        >>> for name in ("cat/1.jpg", "dog/1.jpg"):
        ...     (root / name).parent.mkdir()
        ...     _ = (root / name).write_bytes(b"...")
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     data, labels = fn.readers.file(file_root=root, flat_labels=True)
        ...     pipeline.set_outputs(labels)
        >>> pipeline.run()[0].as_array().tolist()
        [0, 1]
    """
    root = None if file_root is None else fspath(file_root)
    if files is not None and file_list is not None:
        raise DefinitionError("files and file_list cannot be combined", fix="leave one of them out")
    if labels is not None and files is None:
        raise DefinitionError("labels can only be combined with files", fix="give files=, or leave labels out")
    if files is not None:
        # One label may be a plain number, for one file.
        numbers = None if labels is None else tuple(map(int, np.atleast_1d(labels)))
        paths = as_paths(files)
        # Local files are only looked at when they are read.
        remote = next(filter(is_remote, (root or "", *paths)), None)
        stamp = None if remote is None else file_stamps(remote)
        source = open_shared(files_from_paths, root or "", paths, numbers, stamp=stamp)
    elif file_list is not None:
        source = open_shared(files_from_labeled_list, fspath(file_list), root, stamp=file_stamps(file_list))
    elif root is not None:
        # Object stores and large folders are slow to list, so the listing is shared until a folder changes.
        patterns = _patterns(file_filters), _patterns(dir_filters)
        source = open_shared(list_class_folders, root, *patterns, case_sensitive_filter, stamp=class_folder_stamp(root))
    else:
        raise DefinitionError("there is nothing to read", fix="give file_root, files or file_list")
    return apply_labeled_reader(source, loader)


def _patterns(patterns: str | Sequence[str] | None) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns or ())
