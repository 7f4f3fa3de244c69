"""Formats of shards: how samples are written and read back."""

import io
import itertools
import re
import tarfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.core.atomic_files import fsync_file
from penstock.errors import DefinitionError, short_repr
from penstock.sources.formats.array_record_source import array_record_module
from penstock.sources.formats.tar.webdataset_source import NUMBERS, WHOLE, kind_of
from penstock.sources.formats.tfrecord.example_message import encode_example
from penstock.types import is_bfloat16

# Names of values in tar files: spaces would split them in an index, and long ones do not fit into a header.
EXTENSION = re.compile(r"[A-Za-z0-9_.-]{1,32}")

# The first bytes of a .npy file.
_NPY = b"\x93NUMPY"

# A name and its bytes. ArrayRecord has no names.
Member = tuple[str, bytes]


class Format(ABC):
    """Format of a shard."""

    suffix: str

    @abstractmethod
    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """Return the members that store a sample.

        Args:
            key: Name of the sample.
            values: Values by name.

        Raises:
            DefinitionError: The format cannot store such a value.
        """

    @abstractmethod
    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """Write a file and flush it to disk.

        Raises:
            OSError: The file cannot be written.
        """

    @abstractmethod
    def read(self, path: Path) -> Iterator[Member]:
        """Yield the members of a file, read by the format's own library.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is damaged.
        """

    def companions(self, path: Path) -> list[Path]:
        """Return further files that `write` creates, which are renamed before the shard."""
        del path
        return []


class Tar(Format):
    """WebDataset tar files, each with the index that DALI's ``wds2idx`` would write."""

    suffix = ".tar"

    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """Return a file per value."""
        return [(f"{key}.{name}", _bytes(name, value)) for name, value in values.items()]

    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """Write headers without times and owners, so that equal samples give equal bytes."""
        places: list[tuple[str, int, int]] = []
        with path.open("wb") as file:
            for sample in samples:
                for name, data in sample:
                    entry = tarfile.TarInfo(name)
                    entry.size = len(data)
                    file.write(entry.tobuf(tarfile.USTAR_FORMAT))
                    places.append((name, file.tell(), len(data)))
                    file.write(data)
                    file.write(bytes(-len(data) % tarfile.BLOCKSIZE))
            # The tar format ends with two zero blocks and is padded to whole records.
            end = file.tell() + 2 * tarfile.BLOCKSIZE
            file.write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
            fsync_file(file)
        with self.companions(path)[0].open("w") as file:
            file.write(_index(places))
            fsync_file(file)

    def companions(self, path: Path) -> list[Path]:
        """Return the path of the index."""
        return [path.with_name(path.name.replace(self.suffix, ".idx"))]

    def read(self, path: Path) -> Iterator[Member]:
        """Yield the files of the archive, read by `tarfile`, and compare the index."""
        places: list[tuple[str, int, int]] = []
        try:
            with tarfile.open(path, "r:") as archive:
                for entry in archive:
                    places.append((entry.name, entry.offset_data, entry.size))
                    file = archive.extractfile(entry)
                    yield entry.name, b"" if file is None else file.read()
        except tarfile.TarError as error:
            raise ValueError(f"it is not a tar file: {error}") from error
        index = self.companions(path)[0]
        if index.read_bytes() != _index(places).encode():
            raise ValueError(f"its index {index.name} does not list its files")


def _index(places: Sequence[tuple[str, int, int]]) -> str:
    """Return the index of a tar file from the name, data offset and size of each file."""
    lines = [
        " ".join(f"{name.partition('.')[2]} {start} {size} {name}" for name, start, size in sample)
        for _, sample in itertools.groupby(places, lambda place: place[0].partition(".")[0])
    ]
    return "\n".join([f"v1.2 {len(lines)}", *lines]) + "\n"


class ArrayRecord(Format):
    """ArrayRecord files with a group size of 1: a record holds one value, or several as an Example message."""

    suffix = ".array_record"

    def __init__(self) -> None:
        self._module = array_record_module("penstock pack --format array_record")

    def members(self, key: str, values: Mapping[str, Array]) -> list[Member]:
        """Return the record."""
        del key
        if len(values) > 1:
            return [("", encode_example({name: _feature(name, value) for name, value in values.items()}))]
        ((name, value),) = values.items()
        return [("", _bytes(name, value))]

    def write(self, path: Path, samples: Iterable[list[Member]]) -> None:
        """Write the records, then compare the file's own count: the library does not report all failures."""
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
        """Yield the records."""
        reader: Any = self._module.ArrayRecordReader(str(path))
        if not reader.ok():
            raise ValueError("it is not an ArrayRecord file")
        try:
            for first in range(0, reader.num_records(), 64):
                for record in reader.read(list(range(first, min(first + 64, reader.num_records())))):
                    yield "", record
        except RuntimeError as error:
            raise ValueError(f"a record is damaged: {error}") from error


def _bytes(name: str, value: Array) -> bytes:
    """Return a value as the content of a file with an extension."""
    extension = kind_of(name)
    if extension == "npy":
        # Such as the files of a list, which no reader has decoded.
        if value.dtype == np.uint8 and value.ndim == 1 and value[: len(_NPY)].tobytes() == _NPY:
            return value.tobytes()
        if is_bfloat16(value.dtype):
            # NumPy would write it as two bytes without a meaning.
            raise DefinitionError(
                "a .npy file cannot store bfloat16", given=name, fix="fn.cast to types.FLOAT, which loses nothing"
            )
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return file.getvalue()
    if extension in NUMBERS:
        return _number_text(name, value)
    if value.ndim > 1:
        raise DefinitionError(
            f"{name!r} has {value.ndim} axes, which a file of plain bytes would lose",
            given=f"shape {value.shape}",
            fix='the name "npy", or one that ends in ".npy"',
        )
    return value.tobytes()


def _number_text(name: str, value: Array) -> bytes:
    """Return a whole number as text, which is how readers take files of such a name.

    Raises:
        DefinitionError: The value is not a whole number, or the bytes of its text.
    """
    # Bytes are the text that a reader has not decoded; of samples without the component they are empty.
    if value.dtype == np.uint8 and value.ndim == 1:
        text = value.tobytes()
        if not text or WHOLE.fullmatch(text):
            return text
    elif value.size == 1 and float(number := value.item()).is_integer():
        return str(int(number)).encode()
    raise DefinitionError(
        f"{name!r} stores a whole number as text",
        given=f"{short_repr(value.tolist())}, {value.dtype} of shape {value.shape}",
        fix='a name that ends in "npy"; or int64 for numbers, because bytes are text here',
    )


def _feature(name: str, value: Array) -> bytes | list[int] | list[float]:
    """Return a value as a feature of an Example message, which has no axes."""
    if value.dtype == np.uint8 and value.ndim == 1:
        return value.tobytes()
    if value.dtype == np.uint8 or value.dtype.kind not in "iubf":
        raise DefinitionError(
            f"an Example message cannot store {name!r}",
            given=f"{value.dtype} of shape {value.shape}",
            expected="bytes, or numbers",
        )
    # Examples have 64-bit signed integers and 32-bit floats; larger values would become other ones.
    if value.dtype == np.uint64:
        kind, fits = "int64", value <= np.iinfo(np.int64).max
    elif value.dtype.kind == "f":
        with np.errstate(over="ignore"):
            kind, fits = "float32", np.isfinite(value.astype(np.float32)) | ~np.isfinite(value)
    else:
        return value.ravel().tolist()
    if not fits.all():
        raise DefinitionError(
            f"an Example message stores {name!r} as {kind}",
            given=f"{short_repr(value[~fits].tolist())} of {value.dtype}",
            fix="--format tar, and a name that ends in npy",
        )
    return value.ravel().tolist()


FORMATS: Mapping[str, type[Format]] = {"tar": Tar, "array_record": ArrayRecord}
