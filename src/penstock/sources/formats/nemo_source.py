"""Manifests of speech, as NVIDIA NeMo has them: parts of sound files, and what is said in them.

The format: https://docs.nvidia.com/nemo-framework/user-guide/latest/nemotoolkit/asr/datasets.html. Each line is a JSON
object with `audio_filepath` and, where they are given, `offset` and `duration` in seconds and `text`. Needs the extra
`audio`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array, Column, Indices
from penstock.core.spec import Spec
from penstock.errors import SampleError, SourceError, SourceNotFoundError, error_text
from penstock.sources.files.file_source import FileSource
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.disk_cache import read_bytes
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.sample_limit import check_announced_size

_WHOLE = -1.0
"""The duration of an entry that has none: it goes to the end of the file."""


@dataclass(frozen=True)
class _Entry:
    path: str
    offset: float
    duration: float
    text: bytes


class NemoSource(Source):
    """Signals, their rates in Hz, texts in UTF-8, and the numbers of the entries within their manifests.

    Args:
        manifests: the files, read one after the other.
        shortest: the least duration of an entry that counts, in seconds; 0 is no limit.
        longest: likewise the greatest.
        downmix: whether channels are averaged.
        dtype: of signals: float32, or int16 or int32, of which the largest value stands for 1.

    Raises:
        SourceNotFoundError: a manifest, or the first sound file, does not exist.
        SourceError: a line is no entry, or no entry is left.
    """

    def __init__(
        self, manifests: tuple[str, ...], shortest: float, longest: float, downmix: bool, dtype: np.dtype[Any]
    ) -> None:
        self._downmix, self._dtype = downmix, dtype
        entries: list[_Entry] = []
        numbers: list[int] = []
        for manifest in manifests:
            found = [
                entry
                for entry in _entries(manifest)
                if entry.duration >= (shortest or -math.inf) and entry.duration <= (longest or math.inf)
            ]
            entries += found
            numbers += range(len(found))  # as DALI counts: entries that are left out have none
        if not entries:
            raise SourceError(
                "the manifests have no entries that count", given=", ".join(manifests[:4]),
                fix="other limits of duration; entries without one are below every min_duration",
            )  # fmt: skip
        self._files = FileSource("", [os.fsencode(entry.path) for entry in entries], np.zeros(len(entries), np.int32))
        self._numbers = np.array(numbers, np.int64)[:, None]
        self._offsets = np.array([entry.offset for entry in entries])
        self._durations = np.array([entry.duration for entry in entries])
        self._texts = np.frombuffer(b"".join(entry.text for entry in entries), np.uint8)
        self._bounds = np.cumsum([0, *(len(entry.text) for entry in entries)])
        self._files.check_first("paths are relative to the working directory, or to the manifest's folder")
        self.specs = (
            Spec(dtype, (None,) if downmix else (None, None)),
            Spec(np.dtype(np.float32), ()),
            Spec(np.dtype(np.uint8), (None,)),
            Spec(np.dtype(np.int64), (1,)),
        )

    def __len__(self) -> int:
        return len(self._files)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """The signals, their rates, the texts and the numbers."""
        rows: list[int] = indices.tolist()
        far = self._files.contents(indices) if self.cost is ReadCost.STORE else [None] * len(rows)
        signals, rates = zip(*map(self._signal, rows, far), strict=True)
        texts = [self._texts[self._bounds[index] : self._bounds[index + 1]] for index in rows]
        numbers = np.take(self._numbers, indices, axis=0, out=out[3], mode="clip")
        return list(signals), np.array(rates, np.float32), texts, numbers

    @property
    def cost(self) -> ReadCost:
        """What reading costs."""
        return self._files.cost

    def byte_ranges(self, indices: Indices) -> list[ByteRange]:
        """The sound files that are fetched for some samples: as a whole, whatever the parts."""
        return self._files.byte_ranges(indices) if self.cost is ReadCost.STORE else []

    def _signal(self, index: int, data: Array | None) -> tuple[Array, float]:
        """The part of the file that an entry names, and the file's rate.

        Args:
            index: of the sample.
            data: the file, where it is in memory.

        Raises:
            SampleError: it cannot be read.
        """
        soundfile = optional_import.import_extra("soundfile", "audio", "fn.readers.nemo_asr")
        path = self._files.describe(index)
        offset, duration = float(self._offsets[index]), float(self._durations[index])
        try:
            if data is None and not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  # names need not be valid text
                raise ValueError("it is no file, but a folder, a pipe, a socket or a device")
            with soundfile.SoundFile(path if data is None else io.BytesIO(data.data)) as file:
                rate = file.samplerate
                start = max(int(offset * rate), 0)
                left = file.frames - start
                if left < 0:
                    raise ValueError(f"its offset is {offset} s, and the file has {file.frames / rate} s")
                count = left if duration < 0 else min(int(duration * rate), left)
                check_announced_size(count * file.channels * 4)
                file.seek(start)
                values: Array = file.read(count, dtype=self._read_as, always_2d=True)
                if len(values) < count:
                    raise ValueError(f"the file is cut short: {len(values)} of {count} elements are left")
        except (OSError, ValueError, soundfile.SoundFileError) as error:
            what = f"cannot be read: {error_text(error)}"
            raise SampleError.of(index, self.describe(index), what, path) from error
        if self._downmix:
            values = values.mean(axis=1, dtype=np.float32)
        return _as_type(values, self._dtype), float(rate)

    @property
    def _read_as(self) -> str:
        return "float32" if self._downmix else self._dtype.name

    def describe(self, index: int) -> str:
        """The sound file, and where in it the part begins."""
        path, offset = self._files.describe(index), self._offsets[index]
        return f"{path} from {offset:g} s" if offset > 0 else path

    def path(self, index: int) -> str:
        """The sound file."""
        return self._files.describe(index)

    def reads_same_samples(self, other: Source) -> bool:
        """Whether the same parts of the same files are read in the same way."""
        if not isinstance(other, NemoSource) or not self._files.reads_same_samples(other._files):  # noqa: SLF001  # one class
            return False
        return self.specs == other.specs and all(map(np.array_equal, self._parts(), other._parts()))  # noqa: SLF001  # one class

    def _parts(self) -> tuple[Array, ...]:
        return self._offsets, self._durations, self._numbers, self._bounds, self._texts

    def fingerprint(self) -> str:
        """The names of the files below their common folder, and the parts, texts and numbers."""
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in self._parts()))
        return f"nemo:{self._files.fingerprint()}:{digest.hexdigest()[:16]}"


def _as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Floats as integers of which the largest stands for 1, where such are asked for."""
    if values.dtype == dtype:
        return values
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values.astype(np.float64) * limits.max), limits.min, limits.max).astype(dtype)


def _entries(manifest: str) -> Iterator[_Entry]:
    """The entries of a manifest.

    Paths are relative to the working directory; or to the manifest's folder, if the first one leads to a file there
    only, or if the manifest is an object of a store.

    Raises:
        SourceNotFoundError: there is no such file.
        SourceError: a line is no entry.
    """
    try:
        lines = read_bytes(manifest).splitlines()
    except FileNotFoundError:
        raise SourceNotFoundError(f"there is no manifest {manifest!r}") from None
    except OSError as error:
        raise SourceError(f"the manifest {manifest!r} cannot be read: {error.strerror}") from error
    folder: Path | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = _entry(line)
        except ValueError as error:
            raise SourceError(
                f"{manifest}:{number} is no entry: {error}", given=line[:200].decode(errors="replace"),
                expected='{"audio_filepath": "1.wav", "offset": 0.5, "duration": 2.5, "text": "words"}',
            ) from None  # fmt: skip
        if is_remote(entry.path):
            yield entry
            continue
        if is_remote(manifest) and not Path(entry.path).is_absolute():
            place = posixpath.normpath(entry.path)
            yield replace(entry, path=f"{manifest.rpartition('/')[0]}/{place}")
            continue
        if folder is None and not Path(entry.path).is_absolute():
            beside = Path(manifest).parent
            folder = beside if not Path(entry.path).exists() and (beside / entry.path).exists() else Path()
        yield replace(entry, path=str((folder or Path()) / entry.path))


def _entry(line: bytes) -> _Entry:
    """The entry of a line.

    Raises:
        ValueError: it has none.
    """
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004  # the caller names the line
    fields = cast(dict[str, Any], found)
    path, text = fields.get("audio_filepath"), fields.get("text", "")
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"audio_filepath is {path!r}")
    if not isinstance(text, str):
        raise ValueError(f"text is {text!r}")  # noqa: TRY004  # likewise
    offset, duration = (_seconds(fields, name, default) for name, default in (("offset", 0.0), ("duration", _WHOLE)))
    return _Entry(path, offset, duration, text.encode(errors="surrogatepass"))


def _seconds(fields: dict[str, Any], name: str, default: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:  # also of NaN
        raise ValueError(f"{name} is {value!r}")
    return float(value)
