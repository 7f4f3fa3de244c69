"""readers.parquet: rows of Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
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
    """Read columns of Parquet files; a row is a sample. Needs the extra `parquet`.

    A row group is read as a whole and kept in memory while there is room (256 MiB). A shuffle visits all groups at
    once: write groups of a few megabytes, as ``pyarrow.parquet.write_table(..., row_group_size=)`` does.

    Args:
        paths: a file, or several, read one after the other.
        columns: names; ``image.bytes`` is a field of a struct. All columns by default.
        **loader: See `ReaderArguments`.

    Returns:
        A dictionary with the names: bytes and text as uint8 (?,), numbers in their dtype without axes, lists of numbers
        (?,), or (n,) where all have n.

    Raises:
        MissingExtraError: the package pyarrow is not installed.
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no Parquet file or is cut short, lacks a column, or has one of another kind.
        DefinitionError: no files, no columns.
        SampleError: while running, a row group that is damaged, or a value that is missing.

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
    files = as_paths(paths)
    names = (columns,) if isinstance(columns, str) else None if columns is None else tuple(columns)
    if not files or names == ():
        raise DefinitionError(f"fn.readers.parquet: {'columns' if files else 'paths'} is empty")
    source = open_shared(ParquetSource, files, names, stamp=file_stamps(*files))
    return dict(zip(source.names, apply_reader(source, loader), strict=True))
