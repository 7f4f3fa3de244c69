"""Speech manifests of NVIDIA NeMo: segments of sound files with their transcripts. Needs the extra `audio`.

Format: https://docs.nvidia.com/nemo-framework/user-guide/latest/nemotoolkit/asr/datasets.html. Each line is a JSON
object with `audio_filepath` and, optionally, `offset` and `duration` in seconds and `text`.
"""

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

from penstock.core import Array, Column, Indices, Spec, optional_import, short_digest
from penstock.errors import SourceError, error_text
from penstock.sources.files.file_source import FileSource
from penstock.sources.formats.mp3_stream import read_stream, states_length
from penstock.sources.record_source import RecordSource
from penstock.sources.storage.byte_range import ByteRange, ReadCost
from penstock.sources.storage.disk_cache import read_input
from penstock.sources.storage.local_bytes import read_file, read_range
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.sample_limit import check_announced_size

# Duration of an entry that has none: up to the end of the file. Being negative, it is below any min_duration.
_WHOLE = -1.0

# Subtypes of libsndfile to read as floats. As integers, floats would only be rounded to -1, 0 or 1, and peaks of Vorbis
# and Opus above full scale would wrap to the opposite sign.
FLOAT_SUBTYPES = ("FLOAT", "DOUBLE", "VORBIS", "OPUS")


@dataclass(frozen=True)
class _Entry:
    path: str
    offset: float
    duration: float
    text: bytes


class NemoSource(RecordSource[FileSource]):
    """Signals, their sample rates in Hz, transcripts in UTF-8, and entry numbers within their manifests.

    Args:
        manifests: The manifests, read one after the other.
        shortest: Minimum duration in seconds; 0 for no limit.
        longest: Maximum duration in seconds; 0 for no limit.
        downmix: True to average the channels.
        dtype: Dtype of the signals: float32, or int16 or int32, whose largest value corresponds to 1.

    Raises:
        SourceNotFoundError: A manifest or the first sound file does not exist.
        SourceError: A line is not a valid entry, or no entry is left.
    """

    def __init__(
        self, manifests: tuple[str, ...], shortest: float, longest: float, downmix: bool, dtype: np.dtype[Any]
    ) -> None:
        self._downmix, self._dtype = downmix, dtype
        entries: list[_Entry] = []
        numbers: list[int] = []
        for manifest in manifests:
            selected = [
                entry
                for entry in _entries(manifest)
                if entry.duration >= (shortest or -math.inf) and entry.duration <= (longest or math.inf)
            ]
            entries += selected
            numbers += range(len(selected))  # as in DALI, skipped entries are not counted
        if not entries:
            raise SourceError(
                "the manifests do not contain matching entries", given=", ".join(manifests[:4]),
                fix="change min_duration and max_duration; entries without a duration are below any min_duration",
            )  # fmt: skip
        paths = [os.fsencode(entry.path) for entry in entries]
        super().__init__(FileSource("", paths, np.zeros(len(entries), np.int32)))
        self._numbers = np.array(numbers, np.int64)[:, None]
        self._offsets = np.array([entry.offset for entry in entries])
        self._durations = np.array([entry.duration for entry in entries])
        # One buffer for all texts: a Python object per entry would cost more memory than the text.
        self._texts = np.frombuffer(b"".join(entry.text for entry in entries), np.uint8)
        self._bounds = np.cumsum([0, *(len(entry.text) for entry in entries)])
        self.records.check_first("paths must be relative to the working directory, or to the manifest's folder")
        self.specs = (
            Spec(dtype, (None,) if downmix else (None, None)),
            Spec(np.dtype(np.float32), ()),
            Spec(np.dtype(np.uint8), (None,)),
            Spec(np.dtype(np.int64), (1,)),
        )

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the signals, sample rates, transcripts and entry numbers."""
        rows: list[int] = indices.tolist()
        contents = self.records.contents(indices) if self.cost is ReadCost.STORE else [None] * len(rows)
        signals, rates = zip(*map(self._signal, rows, contents), strict=True)
        texts = [self._texts[self._bounds[index] : self._bounds[index + 1]] for index in rows]
        numbers = np.take(self._numbers, indices, axis=0, out=out[3], mode="clip")
        return list(signals), np.array(rates, np.float32), texts, numbers

    def byte_ranges(self, indices: Indices) -> Sequence[ByteRange]:
        """Return the sound files to fetch: whole files, because segments cannot be located without decoding."""
        return super().byte_ranges(indices) if self.cost is ReadCost.STORE else []

    def _signal(self, index: int, data: Array | None) -> tuple[Array, float]:
        """Return the segment of an entry, and the file's sample rate.

        Args:
            index: Index of the sample.
            data: Content of the file if it has been fetched.

        Raises:
            SampleError: It cannot be read.
        """
        soundfile = optional_import.import_extra("soundfile", "audio", "reading audio files")
        path = self.records.describe(index)
        offset, duration = float(self._offsets[index]), float(self._durations[index])
        try:
            # Opening a pipe would block until another process writes to it.
            if data is None and not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  # names need not be valid text
                raise ValueError("not a regular file, but a folder, a pipe, a socket or a device")
            with soundfile.SoundFile(path if data is None else io.BytesIO(data.data)) as file:
                rate = file.samplerate
                as_floats = self._downmix or file.subtype in FLOAT_SUBTYPES
                dtype = "float32" if as_floats else self._dtype.name
                whole = _stream_without_length(file.format, path, data, dtype)
                frames = file.frames if whole is None else len(whole)
                start = max(int(offset * rate), 0)
                left = frames - start
                if left < 0:
                    raise ValueError(f"the offset is {offset} s, but the file has only {frames / rate} s")
                count = left if duration < 0 else min(int(duration * rate), left)
                # The header declares the number of frames; a damaged one must not allocate any amount of memory.
                check_announced_size(count * file.channels * 4)
                if whole is not None:
                    values = whole[start : start + count]
                else:
                    if file.seekable():
                        file.seek(start)
                    else:
                        file.read(start, dtype="int16")
                    values = cast(Array, file.read(count, dtype=dtype, always_2d=True))
                if len(values) < count:
                    raise ValueError(f"the file is cut short: it has {len(values)} of {count} frames")
        except (OSError, ValueError, soundfile.SoundFileError) as error:
            raise self.sample_error(index, f"cannot be read: {error_text(error)}") from error
        if self._downmix:
            # Averaged as floats even for integer dtypes, which are rounded once at the end.
            values = values.mean(axis=1, dtype=np.float32)
        return _as_type(values, self._dtype), float(rate)

    def describe(self, index: int) -> str:
        """Return the sound file, and the offset of the segment."""
        path, offset = self.records.describe(index), self._offsets[index]
        return f"{path} from {offset:g} s" if offset > 0 else path

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the sound file, and the offset of the segment."""
        return self.describe(index)

    def identity(self) -> tuple[Any, ...]:
        """Return the files, the form of the samples, the segments and the transcripts."""
        return self.records, self.specs, self._parts()

    def _parts(self) -> tuple[Array, ...]:
        return self._offsets, self._durations, self._numbers, self._bounds, self._texts

    def fingerprint(self) -> str:
        """Combine the file names below their common folder with a hash of segments, transcripts and numbers."""
        return f"nemo:{self.records.fingerprint()}:{short_digest(*self._parts())}"


def _stream_without_length(kind: str, path: bytes | str, data: Array | None, dtype: str) -> Array | None:
    """Return the signal of an MP3 file that does not state its length; None for other files."""

    def read(start: int, stop: int) -> Array:
        return read_range(path, start, stop) if data is None else data[start:stop]

    if kind != "MP3" or states_length(read):
        return None
    return read_stream(read_file(path) if data is None else data, dtype)


def _as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to integers whose largest value corresponds to 1, if an integer dtype is requested."""
    if values.dtype == dtype:
        return values
    limits = np.iinfo(dtype)
    return np.clip(np.rint(values.astype(np.float64) * limits.max), limits.min, limits.max).astype(dtype)


def _entries(manifest: str) -> Iterator[_Entry]:
    """Iterate over the entries of a manifest.

    Paths are relative to the working directory. They are relative to the manifest's folder if the first one exists only
    there, or if the manifest is a remote object.

    Raises:
        SourceNotFoundError: The manifest does not exist.
        SourceError: A line is not a valid entry.
    """
    folder: Path | None = None
    for number, line in enumerate(read_input(manifest, "manifest").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            entry = _entry(line)
        except ValueError as error:
            raise SourceError(
                f"{manifest}:{number} is not a valid entry: {error}", given=line[:200].decode(errors="replace"),
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
            parent = Path(manifest).parent
            folder = parent if not Path(entry.path).exists() and (parent / entry.path).exists() else Path()
        yield replace(entry, path=str((folder or Path()) / entry.path))


def _entry(line: bytes) -> _Entry:
    """Parse a line.

    Raises:
        ValueError: It is not a valid entry.
    """
    try:
        parsed: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  # the caller adds the line
    fields = cast(dict[str, Any], parsed)
    path, text = fields.get("audio_filepath"), fields.get("text", "")
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"audio_filepath is {path!r}")
    if not isinstance(text, str):
        raise ValueError(f"text is {text!r}")  # noqa: TRY004  # the caller adds the line
    offset, duration = (_seconds(fields, name, default) for name, default in (("offset", 0.0), ("duration", _WHOLE)))
    return _Entry(path, offset, duration, text.encode(errors="surrogatepass"))


def _seconds(fields: dict[str, Any], name: str, default: float) -> float:
    value = fields.get(name, default)
    # The comparison is also false for NaN, which Python's JSON parser accepts.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        raise ValueError(f"{name} is {value!r}")
    return float(value)
