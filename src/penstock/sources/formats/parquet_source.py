"""Parquet files: tables whose rows are samples. Needs the extra `parquet`."""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Column, Indices, Spec, optional_import, short_digest
from penstock.errors import SourceError, SourceNotFoundError, did_you_mean
from penstock.sources.order.part_offsets import PartOffsets
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ObjectInfo, ReadCost
from penstock.sources.storage.file_folders import folders_suffix
from penstock.sources.storage.file_stamps import check_unchanged, file_stamps
from penstock.sources.storage.object_store import is_remote, opening
from penstock.sources.storage.random_access_file import FetchedFile, RemoteFile
from penstock.sources.storage.range_coalescing import RangeReader
from penstock.sources.storage.store_requests import map_or_raise

# Capacity of the cache of decoded row groups, in bytes. The most recent group may exceed it.
_KEPT = 1 << 28


class ParquetSource(Source):
    """Rows of Parquet files, file after file.

    Row groups are read as a whole and cached, so random access is fast only if they have a few megabytes.

    Args:
        paths: The files.
        columns: Names of the columns, with dots for fields of structs; None for all.

    Raises:
        MissingExtraError: pyarrow is not installed.
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a Parquet file, is cut short, has no rows, lacks a column, or has one that contains
            neither bytes, text, numbers nor lists of numbers; or the files differ.

    Attributes:
        names: Names of the columns.
    """

    per_process: ClassVar[Mapping[str, Callable[[], Any]]] = {
        "_tables": OrderedDict,
        "_sizes": dict,
        "_cached_bytes": int,
        "_lock": threading.Lock,
    }

    def __init__(self, paths: tuple[str, ...], columns: tuple[str, ...] | None) -> None:
        self._parquet = _pyarrow("parquet")
        self._paths = paths
        self.cost = ReadCost.STORE if any(map(is_remote, paths)) else ReadCost.FILE
        opened: list[Any] = map_or_raise(self._open, paths, concurrent=self.cost is ReadCost.STORE)
        self._metadata, self._stamps, self._objects = zip(*opened, strict=True)
        self._range_reader = RangeReader(self._objects)
        schemas = [metadata.schema.to_arrow_schema() for metadata in self._metadata]
        self.names: tuple[str, ...] = tuple(schemas[0].names) if columns is None else columns
        self.specs = tuple(_spec(paths[0], schemas[0], name) for name in self.names)
        for path, schema in zip(paths, schemas, strict=True):
            for name, spec in zip(self.names, self.specs, strict=True):
                if (other := _spec(path, schema, name)) != spec:
                    raise SourceError(
                        f"the column {name!r} of {path!r} has a different type", given=other, expected=spec
                    )
        self._groups = [(n, g) for n, metadata in enumerate(self._metadata) for g in range(metadata.num_row_groups)]
        self._offsets = PartOffsets(self._metadata[n].row_group(g).num_rows for n, g in self._groups)
        if not len(self):
            raise SourceError("the Parquet files are empty", given=", ".join(paths[:4]))
        self._tables: OrderedDict[int, Future[Any]] = OrderedDict()
        self._sizes, self._cached_bytes = dict[int, int](), 0
        self._lock = threading.Lock()

    def _open(self, path: str) -> tuple[Any, Hashable, ObjectInfo]:
        """Return a file's metadata, a stamp that changes when it is modified, and its size and tag in a store."""
        if is_remote(path):
            with opening(path):
                file = RemoteFile(path)
            return self._metadata_of(path, file.raw()), file.state, ObjectInfo(path, file.size, file.tag)
        if not Path(path).is_file():
            raise SourceNotFoundError(f"file {path!r} does not exist")
        return self._metadata_of(path, path), file_stamps(path), ObjectInfo(path, 0, "")

    def _metadata_of(self, path: str, file: Any) -> Any:
        try:
            metadata = self._parquet.read_metadata(file)
            counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        except Exception as error:
            raise SourceError(f"{path!r} cannot be read as a Parquet file: {error}") from error
        if min(counts, default=0) < 0 or sum(counts) != metadata.num_rows:
            raise SourceError(
                f"{path!r} is a damaged Parquet file: its row groups do not have its number of rows",
                given=counts,
                expected=f"{metadata.num_rows} in total",
            )
        return metadata

    def __len__(self) -> int:
        return len(self._offsets)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the columns of the rows."""
        rows: list[list[Array]] = [[np.empty(0)] * len(indices) for _ in self.specs]
        # Rows are grouped by row group, so that each group is decoded once per batch.
        for group, places, inner in self._offsets.split(indices):
            first = int(indices[places[0]])
            try:
                table = self._table(group)
                for column, name in zip(rows, self.names, strict=True):
                    values = _column_values(_field(table, name), inner, name)
                    for place in places.tolist():
                        first = int(indices[place])
                        column[place] = next(values)
            except Exception as error:
                raise self.sample_error(first, f"cannot be read: {error}") from error
        return tuple(
            np.stack(column, out=slot) if spec.dense else [np.asarray(value, spec.dtype) for value in column]
            for column, spec, slot in zip(rows, self.specs, out, strict=True)
        )

    def _table(self, group: int) -> Any:
        """Return a row group, from the cache if possible.

        Raises:
            ValueError: The file has been modified.
        """
        # The first thread that requests a group decodes it; others wait for its future.
        with self._lock:
            is_first = group not in self._tables
            table = self._tables.setdefault(group, Future())
            self._tables.move_to_end(group)
        if is_first:
            try:
                table.set_result(self._decoded(group))
            except BaseException as error:
                with self._lock:
                    del self._tables[group]
                table.set_exception(error)
                raise
            self._make_room(group, table.result().nbytes)
        return table.result()

    def _make_room(self, group: int, size: int) -> None:
        """Add the size of a row group, and evict the least recently used ones."""
        with self._lock:
            self._sizes[group] = size
            self._cached_bytes += size
            while self._cached_bytes > _KEPT and len(self._sizes) > 1:
                # Groups without a size are still being decoded by another thread.
                oldest = next(key for key in self._tables if key in self._sizes and key != group)
                del self._tables[oldest]
                self._cached_bytes -= self._sizes.pop(oldest)

    def _decoded(self, group: int) -> Any:
        number, place = self._groups[group]
        path = self._paths[number]
        if is_remote(path):
            opened = self._fetched(group).raw()
        else:
            check_unchanged(path, self._stamps[number])
            opened = path
        # Penstock's own threads decode groups in parallel and fetch remote ranges, so pyarrow's are off.
        with self._parquet.ParquetFile(opened, metadata=self._metadata[number], pre_buffer=False) as file:
            columns = sorted({_column(file.schema_arrow.names, name) for name in self.names})
            return file.read_row_group(place, columns=columns, use_threads=False)

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """Return the byte ranges to fetch from object stores: the columns of the rows' groups."""
        groups: list[int] = np.unique(self._offsets.owners(indices)).tolist()
        return [
            byte_range
            for group in groups
            if is_remote(self._paths[self._groups[group][0]]) and group not in self._tables
            for byte_range in self._range_reader.coalesced_ranges(*self._chunks(group))
        ]

    def _chunks(self, group: int) -> tuple[Indices, Indices, Indices]:
        """Return the location of a row group's columns: file number, first byte and end."""
        number, place = self._groups[group]
        row_group = self._metadata[number].row_group(place)
        names = self._metadata[number].schema.to_arrow_schema().names
        wanted = {_column(names, name) for name in self.names}
        starts: list[int] = []
        stops: list[int] = []
        for chunk in map(row_group.column, range(row_group.num_columns)):
            if any(f"{chunk.path_in_schema}.".startswith(f"{name}.") for name in wanted):
                # A column chunk begins with its dictionary page if it has one (Parquet format, ColumnMetaData).
                starts.append(chunk.dictionary_page_offset or chunk.data_page_offset)
                stops.append(starts[-1] + chunk.total_compressed_size)
        return np.full(len(starts), number), np.array(starts, np.int64), np.array(stops, np.int64)

    def _fetched(self, group: int) -> FetchedFile:
        """Return a file-like object with a row group in memory.

        Raises:
            OSError: It cannot be fetched, or has been modified.
        """
        files, starts, stops = self._chunks(group)
        parts = [np.empty(size, np.uint8) for size in (stops - starts).tolist()]
        for error in self._range_reader.read(files, starts, stops, parts).values():
            raise error
        return FetchedFile(self._objects[int(files[0])], list(zip(starts.tolist(), parts, strict=True)))

    def describe(self, index: int) -> str:
        """Return the file and the row in it."""
        number, _ = self._groups[self._offsets.locate(index)[0]]
        first = int(self._offsets.starts[self._groups.index((number, 0))])
        return f"{self._paths[number]} at row {index - first}"

    def path(self, index: int) -> str:
        """Return the file."""
        return self._paths[self._groups[self._offsets.locate(index)[0]][0]]

    def identity(self) -> tuple[Any, ...]:
        """Return the files in their state, and the columns."""
        return self._paths, self._stamps, self.names

    def fingerprint(self) -> str:
        """Hash the names of the files below their common folder, those of the columns, and the row groups' sizes."""
        names = "\0".join((*map(os.path.basename, self._paths), *self.names))
        return f"parquet:{len(self)}:{short_digest(names, self._offsets.starts)}{folders_suffix(self._paths)}"


def _pyarrow(module: str) -> Any:
    """Import a module of PyArrow, which has no type annotations.

    Raises:
        MissingExtraError: It is not installed.
    """
    return optional_import.import_extra(f"pyarrow.{module}", "parquet", "reading Parquet files")


def _column(names: Sequence[str], name: str) -> str:
    """Return the column that contains a field. Names of columns may contain dots, too."""
    return name if name in names else name.partition(".")[0]


def _field(table: Any, name: str) -> Any:
    column = _column(table.column_names, name)
    values = table.column(column)
    return values if column == name else _pyarrow("compute").struct_field(values, name[len(column) + 1 :].split("."))


def _column_values(values: Any, rows: Indices, name: str) -> Iterator[Array]:
    """Yield the values of some rows of a column, without copying bytes.

    Raises:
        ValueError: A value is null or contains nulls.
    """
    types, kind = _pyarrow("types"), values.type
    is_large = types.is_large_binary(kind) or types.is_large_string(kind)
    chunk = values.chunk(0)
    if values.num_chunks == 1 and not values.null_count and _is_number(types, kind):
        yield from chunk.to_numpy(zero_copy_only=False)[rows]
        return
    if values.num_chunks > 1 or not (is_large or types.is_binary(kind) or types.is_string(kind)):
        for value in values.take(rows):
            yield _array(value, name)
        return
    # Arrow's variable-size binary layout: validity bitmap, offsets (32 or 64 bits), data. Slicing the buffers is faster
    # than one PyArrow scalar per row.
    _, offsets, data = chunk.buffers()
    stops = np.frombuffer(offsets, np.int64 if is_large else np.int32)[chunk.offset :]
    content = np.frombuffer(data or b"", np.uint8)
    for row in rows.tolist():
        if chunk.null_count and not chunk[row].is_valid:
            raise ValueError(f"the column {name!r} is null")
        yield content[stops[row] : stops[row + 1]]


def _is_number(types: Any, kind: Any) -> bool:
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _spec(path: str, schema: Any, name: str) -> Spec:
    """Return the spec of a column.

    Raises:
        SourceError: The column does not exist, or cannot be read.
    """
    types = _pyarrow("types")
    column = _column(schema.names, name)
    try:
        kind = schema.field(column).type
        for part in name[len(column) + 1 :].split(".") if column != name else ():
            kind = kind.field(part).type
    except (KeyError, AttributeError, TypeError):
        raise SourceError(
            f"{path!r} does not contain a column {name!r}",
            expected=", ".join(schema.names),
            fix=did_you_mean(name, schema.names),
        ) from None
    if types.is_dictionary(kind):
        kind = kind.value_type
    if any(test(kind) for test in (types.is_binary, types.is_large_binary, types.is_string, types.is_large_string)):
        return Spec(np.dtype(np.uint8), (None,))
    shape: list[int | None] = []
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        # The size of a fixed-size list may be -1 in a damaged file.
        shape.append(max(kind.list_size, 0) if types.is_fixed_size_list(kind) else None)
        kind = kind.value_type
    if len(shape) > 1 or not _is_number(types, kind):
        raise SourceError(
            f"the column {name!r} of {path!r} cannot be read", given=schema.field(column).type,
            expected="bytes, text, numbers, or lists of numbers", fix="select other columns with columns=",
        )  # fmt: skip
    return Spec(np.dtype(kind.to_pandas_dtype()), tuple(shape))


def _array(value: Any, name: str) -> Array:
    """Convert a value of a column to an array.

    Raises:
        ValueError: It is null or contains nulls.
    """
    if not value.is_valid:
        raise ValueError(f"the column {name!r} is null")
    if hasattr(value, "index") and hasattr(value, "dictionary"):
        value = value.value
    if hasattr(value, "as_buffer"):
        return np.frombuffer(value.as_buffer(), np.uint8)
    if hasattr(value, "values"):
        if value.values.null_count:
            raise ValueError(f"the list in the column {name!r} contains nulls")
        return value.values.to_numpy(zero_copy_only=False)
    return np.asarray(value.as_py(), value.type.to_pandas_dtype())
