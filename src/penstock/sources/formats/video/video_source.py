"""Clips of videos: sequences of frames."""

import os
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import numpy as np

from penstock.core import Array, Column, Indices, Spec, short_digest
from penstock.errors import SourceError, SourceNotFoundError
from penstock.sources.formats.video.video_decoder import (
    VideoDecoder,
    VideoIndex,
    fill_of,
    index_video,
    padded_frame_indices,
)
from penstock.sources.formats.video.video_list import ROUNDING, Entry, Rounding
from penstock.sources.source import Source
from penstock.sources.storage.byte_range import ReadCost
from penstock.sources.storage.file_folders import folders_suffix
from penstock.sources.storage.file_stamps import check_unchanged, file_stamps
from penstock.sources.storage.object_store import is_remote, opening
from penstock.sources.storage.random_access_file import RemoteFile
from penstock.sources.storage.store_requests import map_or_raise

# Decoders that stay open between batches, so that the next clip of a video can continue without seeking.
_MAX_IDLE = 8


@dataclass(frozen=True)
class ClipOptions:
    """Options of `fn.readers.video`, where each is documented."""

    length: int
    stride: int = 1
    step: int = -1
    pad_mode: str = "none"
    fill: tuple[int, ...] = (0,)
    uniform: bool = False
    labels: bool = False
    frame_num: str = "none"
    timestamps: bool = False
    rounding: Rounding = ROUNDING

    @property
    def span(self) -> int:
        """Number of frames that a clip needs: as in DALI, a whole stride for each of its frames."""
        return self.length * self.stride


class VideoSource(Source):
    """Clips of videos, file by file in the order of their frames.

    The clips of a batch from the same file share a decoder: frames in several clips are decoded once, and a clip that
    follows closely is reached without seeking.

    Args:
        entries: Files, with labels and parts.
        options: Values to read, and their form.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a video, or none is long enough.
    """

    per_process: ClassVar[Mapping[str, Callable[[], Any]]] = {"_idle_decoders": list, "_lock": threading.Lock}

    def __init__(self, entries: tuple[Entry, ...], options: ClipOptions) -> None:
        self._options, self._entries = options, entries
        paths = [entry.path for entry in entries]
        self.cost = ReadCost.STORE if any(map(is_remote, paths)) else ReadCost.FILE
        indexes = map_or_raise(_index, paths, concurrent=self.cost is ReadCost.STORE)
        self._videos: list[VideoIndex] = [video for video, _ in indexes]
        self._stamps: list[Hashable] = [stamp for _, stamp in indexes]
        ranges = [entry.frames(video, options.rounding) for entry, video in zip(entries, self._videos, strict=True)]
        starts = [_starts(*result, options) for result in ranges]
        self._stops = [stop for _, stop in ranges]
        self._files: Indices = np.repeat(np.arange(len(entries)), [len(result) for result in starts])
        self._starts: Indices = np.concatenate(starts) if starts else np.empty(0, np.int64)
        if not len(self):
            frames = f"{options.span} frames"
            fix = 'a shorter sequence_length or stride, or another pad_mode than "none"'
            raise SourceError(
                f"the videos are shorter than {frames}", given=", ".join(e.path for e in entries[:4]), fix=fix
            )
        # Videos of different sizes make the spec ragged in height and width.
        sizes = {(video.height, video.width) for video in self._videos}
        height, width = sizes.pop() if len(sizes) == 1 else (None, None)
        count = options.length
        self.specs = (
            Spec(np.dtype(np.uint8), (count, height, width, 3), "FHWC"),
            *([Spec(np.dtype(np.int32), (1,))] if options.labels else []),
            *([Spec(np.dtype(np.int32), (count if options.frame_num == "sequence" else 1,))] * self._numbered),
            *([Spec(np.dtype(np.float64), (count,))] if options.timestamps else []),
        )
        self._fill = fill_of(options.fill)
        self._idle_decoders: list[tuple[int, VideoDecoder]] = []
        self._lock = threading.Lock()

    @property
    def _numbered(self) -> bool:
        return self._options.frame_num != "none"

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, indices: Indices, out: Sequence[Array | None]) -> tuple[Column, ...]:
        """Return the frames, then the other requested values."""
        numbers = np.stack([self._numbers(index) for index in indices.tolist()])
        owners = self._files[indices]
        files: list[int] = owners.tolist()
        # Clips are decoded file by file, so that one decoder per file serves the batch.
        clips = self._allocate_clips(files, out[0])
        for file in sorted(set(files)):
            self._decode(file, np.flatnonzero(owners == file), numbers, indices, clips)
        columns: list[Column] = [clips]
        if self._options.labels:
            columns.append(np.array([self._entries[file].label for file in files], np.int32)[:, None])
        if self._numbered:
            columns.append((numbers if self._options.frame_num == "sequence" else numbers[:, :1]).astype(np.int32))
        if self._options.timestamps:
            columns.append(np.stack([self._times(file, row) for file, row in zip(files, numbers, strict=True)]))
        return tuple(columns)

    def _allocate_clips(self, files: list[int], out: Array | None) -> Column:
        if self.specs[0].dense:
            return np.empty((len(files), *self.specs[0].fixed_shape), np.uint8) if out is None else out
        videos = [self._videos[file] for file in files]
        return [np.empty((self._options.length, video.height, video.width, 3), np.uint8) for video in videos]

    def _numbers(self, index: int) -> Indices:
        """Return the frame numbers of a clip; -1 is a frame with a constant value."""
        start, stop = int(self._starts[index]), self._stops[int(self._files[index])]
        count = self._options.length
        if self._options.uniform:
            return np.floor(np.linspace(start, stop - 1, count) + 0.5).astype(np.int64)
        return padded_frame_indices(start + self._options.stride * np.arange(count), stop, self._options.pad_mode)

    def _times(self, file: int, numbers: Indices) -> Array:
        video = self._videos[file]
        # As in DALI, the first frame has the time 0, also in recordings that begin at another one.
        return np.where(numbers < 0, -1.0, (video.times[numbers] - video.times[0]) * video.tick)

    def _decode(self, file: int, rows: Indices, numbers: Indices, indices: Indices, clips: Column) -> None:
        """Decode the frames of one file into the clips.

        Raises:
            SampleError: A frame cannot be decoded, or the file has been modified.
        """
        # Each frame is decoded once, in ascending order, and copied to every clip that contains it.
        wanted, places = np.unique(numbers[rows], return_inverse=True)
        owners = np.argsort(places, axis=None, kind="stable")
        bounds = np.searchsorted(places.ravel()[owners], np.arange(len(wanted) + 1))
        # -1, the constant frame, sorts first.
        if wanted[0] < 0:
            for place in owners[: bounds[1]].tolist():
                clips[int(rows[place // numbers.shape[1]])][place % numbers.shape[1]] = self._fill
        first = int(wanted[0] < 0)
        if first == len(wanted):
            return
        done = first
        try:
            decoder = self._open(file, int(wanted[first]))
            for _, frame in decoder.frames(wanted[first:].tolist()):
                for place in owners[bounds[done] : bounds[done + 1]].tolist():
                    clips[int(rows[place // numbers.shape[1]])][place % numbers.shape[1]] = frame
                done += 1
        except (OSError, ValueError) as error:
            row = int(rows[owners[bounds[done]] // numbers.shape[1]])
            raise self.sample_error(int(indices[row]), f"cannot be read: {error}") from error
        with self._lock:
            self._idle_decoders = [(file, decoder), *self._idle_decoders][:_MAX_IDLE]

    def _open(self, file: int, number: int) -> VideoDecoder:
        """Return an idle decoder positioned before frame `number`, or a new one.

        Raises:
            ValueError: The file has been modified.
        """
        path = self._entries[file].path
        remote = is_remote(path)
        if not remote:
            check_unchanged(path, self._stamps[file])
        with self._lock:
            for place, (other, decoder) in enumerate(self._idle_decoders):
                if other == file and decoder.near(number):
                    del self._idle_decoders[place]
                    return decoder
        # Remote files are compared when they are opened, which requests their state anyway.
        opened, stamp = _open_file(path)
        if remote and stamp != self._stamps[file]:
            raise ValueError("the video has been written to since the data set was opened")
        return VideoDecoder(opened, self._videos[file])

    def class_names(self, value: int) -> Mapping[int, str]:
        """Return the names of the class folders."""
        named = self._entries if value == 1 and self._options.labels else ()
        return {entry.label: entry.class_name for entry in named if entry.class_name}

    def describe(self, index: int) -> str:
        """Return the file and the first frame."""
        return f"{self.path(index)} from frame {self._starts[index]}"

    def source_info(self, index: int, value: int = 0) -> str:
        """Return the file."""
        return self.path(index)

    def path(self, index: int) -> str:
        """Return the file."""
        return self._entries[int(self._files[index])].path

    def identity(self) -> tuple[Any, ...]:
        """Return the files in their state, and the clips."""
        return self._entries, self._stamps, self._options

    def fingerprint(self) -> str:
        """Hash the names of the files below their common folder, labels and clips."""
        names = "\0".join(f"{os.path.basename(entry.path)}\0{entry.label}" for entry in self._entries)  # noqa: PTH119  # text
        digest = short_digest(f"{names}{self._options}", self._files, self._starts, np.array(self._stops, np.int64))
        return f"video:{len(self)}:{digest}{folders_suffix([entry.path for entry in self._entries])}"


def stamp_of_clips(entries: Sequence[Entry]) -> Hashable:
    """Return a value that changes if one of the videos is modified."""
    return file_stamps(*(entry.path for entry in entries))


def _open_file(path: str) -> tuple[str | IO[bytes], Hashable]:
    """Return what PyAV opens, and a stamp that changes if the video is modified.

    Raises:
        OSError: The object does not exist.
    """
    if not is_remote(path):
        return path, file_stamps(path)
    file = RemoteFile(path)
    return cast(IO[bytes], file.raw()), file.state


def _index(path: str) -> tuple[VideoIndex, Hashable]:
    if not is_remote(path) and not Path(path).is_file():
        raise SourceNotFoundError(f"file {path!r} does not exist")
    with opening(path):
        file, stamp = _open_file(path)
    try:
        return index_video(file), stamp
    except (OSError, ValueError) as error:
        raise SourceError(f"{path!r} cannot be read as a video: {error}", fix="remove it from the data set") from error


def _starts(start: int, stop: int, options: ClipOptions) -> Indices:
    """Return the first frames of the clips in a range of frames."""
    if options.uniform:
        return np.array([start][: stop - start], np.int64)
    step = options.span if options.step <= 0 else options.step
    whole = max((stop - start - options.span) // step + 1, 0)
    # With padding, the first clip that does not fit is the last one, as in DALI.
    padded = options.pad_mode != "none" and start + whole * step < stop
    return start + step * np.arange(whole + padded, dtype=np.int64)
