"""Lists of video files, and the part of each to read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import SourceError
from penstock.sources.files.class_folders import list_class_folders
from penstock.sources.formats.video.video_decoder import VideoIndex
from penstock.sources.storage.disk_cache import read_input

# Files in class folders that count as videos; `fn.readers.video` documents them.
_EXTENSIONS = (
    "mp4 m4v mov qt mkv webm avi divx mpg mpeg mpe m1v m2v vob ts mts m2ts wmv asf flv f4v ogv 3gp 3g2 mxf gif"
)
_PATTERNS = tuple(f"*.{extension}" for extension in _EXTENSIONS.split())
# Tolerance in ticks: decimal times in a list are rarely exact multiples of a tick.
_EXACT = 1e-3


@dataclass(frozen=True)
class Rounding:
    """Interpretation of the start and end in a list.

    Args:
        frames: True for frame numbers, False for seconds.
        start_up: True to begin with the first frame after the start, False with the last one before it.
        end_up: True to end before the first frame after the end, False before the last one before it.
    """

    frames: bool = False
    start_up: bool = False
    end_up: bool = True


# Defaults of DALI's reader.
ROUNDING = Rounding()


@dataclass(frozen=True)
class Entry:
    """A file, its label, the part to read, as in a list, and the name of its class if there is one."""

    path: str
    label: int = 0
    start: float | None = None
    end: float | None = None
    class_name: str = ""

    def frames(self, video: VideoIndex, rounding: Rounding) -> tuple[int, int]:
        """Return the first frame of the part and the end (exclusive)."""
        start = 0 if self.start is None else _place(self.start, video, rounding.frames, rounding.start_up)
        if self.start is not None and not rounding.frames and self.start >= _duration(video):
            start = len(video)  # otherwise the last frame, which is before the start
        stop = len(video) if self.end is None else _place(self.end, video, rounding.frames, rounding.end_up)
        return start, max(min(stop, len(video)), start)


def _duration(video: VideoIndex) -> float:
    """Return the end of the last frame in seconds, if that lasts as long as the one before it."""
    last = video.times[-2:]
    return float(2 * last[-1] - last[0]) * video.tick if len(last) > 1 else float("inf")


def _place(value: float, video: VideoIndex, frames: bool, up: bool) -> int:
    if frames:
        number = math.ceil(value) if up else math.floor(value)
        # As in DALI, negative frame numbers count from the end.
        return max(number + len(video), 0) if value < 0 else number
    ticks = value / video.tick
    ticks = round(ticks) if abs(ticks - round(ticks)) < _EXACT else ticks
    if up:
        return int(np.searchsorted(video.times, ticks, side="left"))
    return max(int(np.searchsorted(video.times, ticks, side="right")) - 1, 0)


def videos_in(root: str) -> tuple[Entry, ...]:
    """Return the videos in the folders directly below `root`, labeled with the number of their folder."""
    files = list_class_folders(root, _PATTERNS, (), False)
    names = files.class_names(1)
    return tuple(
        Entry(files.describe(index), label, class_name=names[label]) for index, label in enumerate(files.labels)
    )


def videos_of(list_path: str) -> tuple[Entry, ...]:
    """Return the videos of a text file with one line per video: path, label and, optionally, start and end.

    Raises:
        SourceNotFoundError: The list does not exist.
        SourceError: A line does not have this form, or the list is empty.
    """
    text = read_input(list_path, "file_list")
    try:
        lines = text.decode("utf-8-sig").splitlines()  # Windows editors begin UTF-8 with a byte order mark
    except ValueError as error:
        raise SourceError(f"file_list {list_path!r} cannot be read: {error}") from error
    entries = [_entry(list_path, number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    if not entries:
        raise SourceError(f"{list_path} does not list any videos")
    return tuple(entries)


def _entry(list_path: str, number: int, words: Sequence[str]) -> Entry:
    try:
        path, label, *part = words
        start, end = ([float(word) for word in part] + [None] * 2)[:2]
        entry = Entry(path, int(label), start, end)
        if len(part) > 2 or not 0 <= entry.label < 2**31 or not all(math.isfinite(word) for word in map(float, part)):
            raise ValueError
    except ValueError:
        raise SourceError(
            f"{list_path}:{number} is not a path, a label and, optionally, a start and an end",
            given=" ".join(words), expected="cat/1.mp4 3, or cat/1.mp4 3 0.5 2.5",
        ) from None  # fmt: skip
    return entry
