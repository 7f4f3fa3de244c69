"""The formats of shards: what a sample is in them, how they are written, and read back."""

from __future__ import annotations

import io
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core.atomic_files import fsync_file
from penstock.core.columns import Array
from penstock.errors import DefinitionError
from penstock.sources.formats.array_record_source import array_record_module
from penstock.sources.formats.tar.webdataset_source import NUMBERS, kind_of
from penstock.sources.formats.tfrecord.tf_example import encode_example

Member = tuple[str, bytes]
"""A name and bytes; ArrayRecord has no names."""


class Format(ABC):
    """How samples are kept in a file."""

    suffix: str

    @abstractmethod
    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """A sample as it is kept.

        Args:
            key: its name.
            values: its values by name.

        Raises:
            DefinitionError: the format has no place for such values.
        """

    @abstractmethod
    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """Write a file, and see that it is on the disk.

        Raises:
            OSError: it cannot be written.
        """

    @abstractmethod
    def read(self, path: Path) -> Iterator[Member]:
        """What a file has, by the format's own library.

        Raises:
            OSError: it cannot be read.
            ValueError: it is damaged.
        """

    def companions(self, path: Path) -> list[Path]:
        """Further files that `write` makes beside one, named before it."""
        del path
        return []


class Tar(Format):
    """Tar files in the manner of WebDataset, each with the index that DALI's ``wds2idx`` would write."""

    suffix = ".tar"

    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """A file per value."""
        return [(f"{key}.{name}", _bytes(name, value)) for name, value in values.items()]

    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """Headers have no times and owners, so that the same samples give the same bytes."""
        lines: list[str] = []
        with path.open("wb") as file:
            for sample in samples:
                words: list[str] = []
                for name, data in sample:
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    file.write(entry.tobuf(tarfile.USTAR_FORMAT))
                    words.append(f"{name.partition('.')[2]} {file.tell()} {len(data)} {name}")
                    file.write(data)
                    file.write(bytes(-len(data) % tarfile.BLOCKSIZE))
                lines.append(" ".join(words))
            end = file.tell() + 2 * tarfile.BLOCKSIZE
            file.write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
            fsync_file(file)
        with self.companions(path)[0].open("w") as file:
            file.write("\n".join([f"v1.2 {len(lines)}", *lines]) + "\n")
            fsync_file(file)

    def companions(self, path: Path) -> list[Path]:
        """The index."""
        return [path.with_name(path.name.replace(self.suffix, ".idx"))]

    def read(self, path: Path) -> Iterator[Member]:
        """The files in it, by `tarfile`."""
        try:
            with tarfile.open(path, "r:") as archive:
                for entry in archive:
                    file = archive.extractfile(entry)
                    yield entry.name, b"" if file is None else file.read()
        except tarfile.TarError as error:
            raise ValueError(f"it is no tar file: {error}") from error


class ArrayRecord(Format):
    """ArrayRecord files, in groups of one: a sample with one value is its bytes, with several an Example message."""

    suffix = ".array_record"

    def __init__(self) -> None:
        self._module = array_record_module("penstock pack --format array_record")

    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """A record."""
        del key
        if len(values) > 1:
            return [("", encode_example({name: _feature(name, value) for name, value in values.items()}))]
        ((name, value),) = values.items()
        return [("", _bytes(name, value))]

    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """The library says little of what fails, so the file's own count is compared."""
        writer = self._module.ArrayRecordWriter(str(path), "group_size:1")
        count = 0
        try:
            for ((_, record),) in samples:
                writer.write(record)
                count += 1
        finally:
            writer.close()
        reader = self._module.ArrayRecordReader(str(path))
        if not reader.ok() or reader.num_records() != count:
            raise OSError(
                f"{count} records were written, and the file has {reader.num_records()}: the disk may be full"
            )
        with path.open("rb+") as file:
            fsync_file(file)

    def read(self, path: Path) -> Iterator[Member]:
        """The records."""
        reader: Any = self._module.ArrayRecordReader(str(path))
        if not reader.ok():
            raise ValueError("it is no ArrayRecord file")
        try:
            for first in range(0, reader.num_records(), 64):
                for record in reader.read(list(range(first, min(first + 64, reader.num_records())))):
                    yield "", record
        except RuntimeError as error:
            raise ValueError(f"a record is damaged: {error}") from error


def _bytes(name: str, value: Array) -> bytes:
    """A value as the content of a file with an extension."""
    extension = kind_of(name)
    if extension == "npy":
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return file.getvalue()
    if extension in NUMBERS and value.size == 1 and value.dtype.kind in "iub":
        return str(int(value.item())).encode()
    if value.ndim > 1:
        raise DefinitionError(
            f"{name!r} has {value.ndim} axes, and a file of plain bytes would lose them",
            given=f"shape {value.shape}",
            fix='the name "npy", or one that ends in ".npy"',
        )
    return value.tobytes()


def _feature(name: str, value: Array) -> bytes | list[int] | list[float]:
    """A value as a feature of an Example message, which has no axes."""
    if value.dtype == np.uint8 and value.ndim == 1:
        return value.tobytes()
    if value.dtype == np.uint8 or value.dtype.kind not in "iubf":
        raise DefinitionError(
            f"an Example message has no place for {name!r}",
            given=f"{value.dtype} of shape {value.shape}",
            expected="bytes, or numbers",
        )
    return value.ravel().tolist()


FORMATS: Mapping[str, type[Format]] = {"tar": Tar, "array_record": ArrayRecord}
