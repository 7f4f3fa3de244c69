"""readers.parquet: columns of Parquet files."""

from collections.abc import Sequence
from typing import Unpack

from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.parquet_source import ParquetSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.parquet")
def parquet(
    *,
    paths: DataLocation[Path | Sequence[Path]],
    columns: str | Sequence[str] | None = None,
    **loader: Unpack[ReaderArguments],
) -> dict[str, DataNode]:
    """Read columns of Parquet files; a row is a sample. Requires the extra `parquet`.

    Row groups are read as a whole and cached in up to 256 MiB. Shuffling visits all row groups at once: write groups of
    a few megabytes with ``pyarrow.parquet.write_table(..., row_group_size=)``.

    Args:
        paths: A file, a folder of files that end in ".parquet", a glob, or a brace pattern; or a list of these, read
            one after the other. In an object store, a folder ends with a slash.
        columns: Names of columns; ``image.bytes`` is a field of a struct. All columns by default.
        **loader: See `ReaderArguments`.

    Returns:
        A dictionary with the names: bytes and text as uint8 (n,), numbers as scalars of their dtype, lists of numbers
        as arrays of one axis, of known length if all lists have the same.

    Raises:
        MissingExtraError: The package pyarrow is not installed.
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a Parquet file or is truncated, lacks a column, or has one of another type.
        DefinitionError: `paths` or `columns` is empty.
        SampleError: While running, a row group is damaged, or a value is missing.

    Example:
        >>> import penstock, pyarrow, pyarrow.parquet, tempfile
        >>> from penstock import fn
        >>> path = tempfile.mkdtemp() + "/train.parquet"
        >>> pyarrow.parquet.write_table(pyarrow.table({"image": [b"a jpeg", b"another"], "label": [3, 5]}), path)
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     row = fn.readers.parquet(paths=path, columns=["image", "label"])
        ...     pipeline.set_outputs(row["label"])
        >>> pipeline.run()[0].as_array().tolist()
        [3, 5]
    """
    files = as_shards(paths, ".parquet")
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    check_not_empty(paths=files, columns=("all",) if names is None else names)
    source = open_shared(ParquetSource, files, names, stamp=file_stamps(*files))
    return dict(zip(source.names, apply_reader(source, loader), strict=True))
