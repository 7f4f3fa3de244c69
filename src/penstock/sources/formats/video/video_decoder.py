"""Videos: which frames a file has, and any of them, decoded from the key frame before it. Needs the extra `video`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from penstock.core import optional_import
from penstock.core.columns import Array

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_NEEDED_FOR = "decoding a video"
CONSTANT = "constant"
MIRRORED = {"reflect": 0, "reflect_101": 0, "symmetric": 1, "reflect_1001": 1}
"""Modes in which frames return in reverse order, and whether the last one comes twice."""
PadMode = Literal["none", "constant", "edge", "repeat", "reflect", "reflect_101", "symmetric", "reflect_1001"]


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """The frames of a video, in the order in which they are shown.

    Args:
        times: when each is shown, in ticks.
        keys: the numbers of those at which decoding can begin; the first frame is one.
        tick: seconds.
        height: of a frame, in pixels.
        width: likewise.
    """

    times: NDArray[np.int64]
    keys: NDArray[np.int64]
    tick: float
    height: int
    width: int

    def __len__(self) -> int:
        return len(self.times)


def index_video(file: str | IO[bytes]) -> VideoIndex:
    """List the frames of a video. The file is read once; nothing is decoded.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no video, or has no frames.
    """
    container, stream = _open(file)
    times: list[int] = []
    keys: list[int] = []
    try:
        hidden = stream.codec_context.name == "vp8"  # other formats keep frames that are not shown with those that are
        for packet in container.demux(stream):
            time = packet.dts if packet.pts is None else packet.pts
            if not packet.size or time is None or packet.is_discard or (hidden and not bytes(packet)[0] & 0x10):
                continue
            times.append(time)
            if packet.is_keyframe:
                keys.append(time)
        # VP8's frame header: https://datatracker.ietf.org/doc/html/rfc6386#section-9.1, the bit show_frame
        if not times or stream.time_base is None:
            raise ValueError("it has no frames")
        shown = np.unique(np.array(times, np.int64))
        starts = np.unique(np.append(np.searchsorted(shown, np.array(keys, np.int64)), 0)).astype(np.int64)
        return VideoIndex(
            shown, starts, float(stream.time_base), stream.codec_context.height, stream.codec_context.width
        )
    except _errors() as error:
        raise ValueError(f"it is damaged: {error}") from error
    finally:
        container.close()


class VideoDecoder:
    """A video that is open, at some frame.

    Args:
        file: a path, or a file that can seek.
        index: of its frames.

    Raises:
        OSError, ValueError: as `read_index`.

    Attributes:
        position: the number of the frame that comes next.
    """

    def __init__(self, file: str | IO[bytes], index: VideoIndex) -> None:
        self._file, self._index = file, index
        self._start()

    def _start(self) -> None:
        self._container, self._stream = _open(self._file)
        self._frames = self._container.decode(self._stream)
        self.position = 0

    def near(self, number: int) -> bool:
        """Whether frame `number` is reached without a jump."""
        return self._key(number) <= self.position <= number

    def _key(self, number: int) -> int:
        return int(self._index.keys[np.searchsorted(self._index.keys, number, side="right") - 1])

    def frames(self, numbers: Sequence[int]) -> Iterator[tuple[int, Array]]:
        """Frames, as RGB of shape (height, width, 3), decoding nothing twice.

        Args:
            numbers: ascending.

        Yields:
            The number, and the frame.

        Raises:
            ValueError: one cannot be decoded.
        """
        for number in numbers:
            try:
                frame = self._find(number)
            except _errors() as error:
                raise ValueError(f"frame {number} cannot be decoded: {error}") from error
            yield number, self._rgb(frame)

    def _find(self, number: int) -> VideoFrame:
        if not self.near(number):
            self._jump(self._key(number))
        frame = self._advance(number)
        if frame is None:  # the jump led too far, as in files whose index is wrong
            self._start()
            frame = self._advance(number)
        if frame is None:
            raise ValueError("it is not there")
        return frame

    def _jump(self, key: int) -> None:
        if not key:
            self._start()
            return
        self._container.seek(int(self._index.times[key]), stream=self._stream, backward=True)
        self._frames = self._container.decode(self._stream)
        self.position = key

    def _advance(self, number: int) -> VideoFrame | None:
        """The frame, or None if a later one comes before it."""
        wanted = int(self._index.times[number])
        for frame in self._frames:
            time = frame.dts if frame.pts is None else frame.pts
            if time is not None and time >= wanted:
                self.position = int(np.searchsorted(self._index.times, time)) + 1
                return frame if time == wanted else None
        self.position = len(self._index)
        return None

    def _rgb(self, frame: VideoFrame) -> Array:
        """DALI's conversion: linear between the pixels that have colour differences, rounded exactly.

        Raises:
            ValueError: the frame has another size than the video.
        """
        Interpolation = optional_import.import_extra("av.video.reformatter", "video", _NEEDED_FOR).Interpolation  # noqa: N806  # a class
        how = Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.FULL_CHR_H_INT
        pixels: Array = frame.reformat(format="rgb24", interpolation=how).to_ndarray()
        expected = self._index.height, self._index.width, 3
        if pixels.shape != expected:
            raise ValueError(f"a frame of shape {list(pixels.shape)} in a video of {list(expected)}")
        return pixels


def _open(file: str | IO[bytes]) -> tuple[InputContainer, VideoStream]:
    av = optional_import.import_extra("av", "video", _NEEDED_FOR)
    try:
        container: InputContainer = av.open(file, "r")
    except av.error.FFmpegError as error:
        if isinstance(error, OSError) and not isinstance(error, ValueError):
            raise
        raise ValueError(f"it is no video: {error.strerror}") from error
    if not container.streams.video:
        container.close()
        raise ValueError("it has no pictures")
    stream = container.streams.video[0]
    if stream.codec_context is None:  # pyright: ignore[reportUnnecessaryComparison]  # its annotation forgets it
        container.close()
        raise ValueError("its pictures are in a format that FFmpeg does not know")
    stream.codec_context.thread_count = 1  # batches are cut into chunks for threads
    return container, stream


def _errors() -> tuple[type[Exception], ...]:
    return optional_import.import_extra("av.error", "video", _NEEDED_FOR).FFmpegError, ValueError, EOFError


def padded_frame_indices(numbers: NDArray[np.int64], stop: int, mode: str) -> NDArray[np.int64]:
    """Numbers of frames, with others in place of those that are not below `stop`.

    >>> [padded_frame_indices(np.arange(2, 7), 4, mode).tolist() for mode in ("constant", "edge", "reflect")]
    [[2, 3, -1, -1, -1], [2, 3, 3, 3, 3], [2, 3, 2, 1, 0]]
    >>> padded_frame_indices(np.arange(2, 7), 4, "symmetric").tolist()
    [2, 3, 3, 2, 1]

    Args:
        numbers: at least 0, except in the mode "constant".
        stop: the number of frames.
        mode: a `PadMode`; "none" leaves such frames out.

    Returns:
        The numbers; -1 stands for a frame of one value.
    """
    inside = (numbers >= 0) & (numbers < stop)
    if mode == "none":
        return numbers[inside]
    if mode == CONSTANT:
        return np.where(inside, numbers, -1)
    if mode not in MIRRORED:
        return np.clip(numbers, 0, stop - 1)
    twice = MIRRORED[mode]
    period = max(2 * stop - 2 + 2 * twice, 1)
    back = numbers % period
    return np.where(back < stop, back, period - twice - back)


def fill_of(value: Any) -> Array:
    """The value of padded frames, per channel.

    Raises:
        ValueError: it is not one number of a byte, or three.
    """
    values = np.atleast_1d(np.asarray(value, np.float64))
    if values.shape not in ((1,), (3,)) or np.any((values < 0) | (values > 255) | (values != np.floor(values))):
        raise ValueError(f"fill_value is a whole number from 0 to 255, or three, not {value!r}")
    return np.broadcast_to(values, 3).astype(np.uint8)
