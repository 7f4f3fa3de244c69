"""Video index and decoder: any frame is decoded from the key frame before it. Needs the extra `video`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

from penstock.core import Array, Indices, optional_import
from penstock.errors import DefinitionError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

_NEEDED_FOR = "decoding a video"
# Flags of FFmpeg's libswscale: SWS_BILINEAR, SWS_ACCURATE_RND and SWS_FULL_CHR_H_INT. PyAV has names for the last two
# from version 18 on.
_CONVERSION = 0x2 | 0x40000 | 0x2000
CONSTANT = "constant"
# Modes that append frames in reverse order, and whether they repeat the last one.
MIRRORED = {"reflect": 0, "reflect_101": 0, "symmetric": 1, "reflect_1001": 1}
PadMode = Literal["none", "constant", "edge", "repeat", "reflect", "reflect_101", "symmetric", "reflect_1001"]


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """Index of a video's frames, in presentation order.

    Args:
        times: Presentation times, in ticks, increasing.
        keys: Numbers of the key frames, at which decoding can begin; includes the first frame.
        tick: Duration of a tick in seconds.
        height: Height of a frame in pixels.
        width: Width of a frame in pixels.
        counted: True if frames are found by their position, because the times in the file do not tell them apart.
    """

    times: Indices
    keys: Indices
    tick: float
    height: int
    width: int
    counted: bool = False

    def __len__(self) -> int:
        return len(self.times)


def index_video(file: str | IO[bytes]) -> VideoIndex:
    """Index the frames of a video. The file is read once, without decoding unless its times are unreliable.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a video, or does not contain frames.
    """
    container, stream = _open(file)
    times: list[int] = []
    keys: list[int] = []
    untimed = cut = False
    first = None
    try:
        # VP8 has frames that are decoded but not shown, in packets of their own: bit show_frame of the frame header
        # (RFC 6386, section 9.1) is 0. Other formats pack such frames with a shown one.
        hidden = stream.codec_context.name == "vp8"
        for packet in container.demux(stream):
            if not packet.size:
                continue
            time, cut = _time(packet), packet.is_corrupt
            first = first or (packet.is_keyframe, time)
            if packet.is_discard or (hidden and not bytes(packet)[0] & 0x10):
                continue
            if time is None:
                untimed = True
                continue
            times.append(time)
            if packet.is_keyframe:
                keys.append(time)
        if cut:
            raise ValueError("the file is cut short: it ends within a frame")
        if not (times or untimed) or stream.time_base is None:
            raise ValueError("the video does not contain frames")
        # Packets are in decoding order; with B-frames the presentation order differs.
        shown, counted = np.unique(np.array(times, np.int64)), False
        # MPEG program streams store the times of some frames. FFmpeg guesses the others, differently after a seek.
        program = container.format.name == "mpeg"
        if program or untimed or len(shown) < len(times) or _lacks_presentation_times(container, stream, times):
            shown, counted = _decoded_times(file, min(times, default=0))
            counted = counted or program or untimed
        elif first != (True, times[0]) or shown[0] < times[0]:
            # A part of a recording may begin with frames that depend on missing ones.
            shown = shown[shown >= _first_decoded_time(file)]
        # Frames are counted from the first one, so decoding cannot begin at another.
        starts = np.flatnonzero(np.isin(shown, keys)) if not counted else np.empty(0, np.int64)
        size = stream.codec_context.height, stream.codec_context.width
        return VideoIndex(shown, np.unique(np.append(starts, 0)), float(stream.time_base), *size, counted)
    except _errors() as error:
        raise ValueError(f"the video is damaged: {error}") from error
    finally:
        container.close()


def _time(item: Packet[Any] | VideoFrame) -> int | None:
    return item.dts if item.pts is None else item.pts


def _first_decoded_time(file: str | IO[bytes]) -> int:
    container, stream = _open(file)
    with container:
        time = next((_time(frame) for frame in container.decode(stream)), None)
    if time is None:
        raise ValueError("the video does not contain frames that can be decoded")
    return time


def _lacks_presentation_times(container: InputContainer, stream: VideoStream, times: list[int]) -> bool:
    """Return True if packets with B-frames have the times at which they are decoded.

    AVI and ASF do not store other times. FFmpeg derives the presentation times of some codecs only.
    """
    stores_decoding_times = container.format.name in ("avi", "asf")
    return stores_decoding_times and stream.codec_context.has_b_frames and bool(np.all(np.diff(times) > 0))


def _decoded_times(file: str | IO[bytes], first: int) -> tuple[Indices, bool]:
    """Decode a video, and return the times of its frames in presentation order, and True if they are not reliable.

    Packets of one time may be two fields of one frame. But a file may also have times in another order, and several
    frames of one time or without a time, which get the tick after that of the frame before.

    Args:
        file: As for `index_video`.
        first: Time of the first frame if it has none.
    """
    container, stream = _open(file)
    with container:
        stored = [_time(frame) for frame in container.decode(stream)]
    if not stored:
        raise ValueError("the video does not contain frames")
    numbers = np.arange(len(stored))
    times = np.array([first if time is None else time for time in stored], np.int64)
    lacking = None in stored
    increasing = np.maximum.accumulate((times if lacking else np.sort(times)) - numbers) + numbers
    return increasing, lacking or not np.array_equal(increasing, times)


class VideoDecoder:
    """Decoder of an open video, positioned at a frame.

    Args:
        file: Path or seekable file.
        index: Index of its frames.

    Raises:
        OSError, ValueError: As `index_video`.

    Attributes:
        position: Number of the next frame.
    """

    def __init__(self, file: str | IO[bytes], index: VideoIndex) -> None:
        self._file, self._index = file, index
        self._start()

    def _start(self) -> None:
        self._container, self._stream = _open(self._file)
        self._frames = self._container.decode(self._stream)
        self.position = 0

    def near(self, number: int) -> bool:
        """Return True if frame `number` can be reached without seeking."""
        return self._key(number) <= self.position <= number

    def _key(self, number: int) -> int:
        return int(self._index.keys[np.searchsorted(self._index.keys, number, side="right") - 1])

    def frames(self, numbers: Sequence[int]) -> Iterator[tuple[int, Array]]:
        """Decode frames as RGB of shape (height, width, 3). No frame is decoded twice.

        Args:
            numbers: Frame numbers, ascending.

        Yields:
            The number and the frame.

        Raises:
            ValueError: A frame cannot be decoded.
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
        # Containers with a wrong seek table position the decoder after the frame: decode from the beginning.
        if frame is None:
            self._start()
            frame = self._advance(number)
        if frame is None:
            raise ValueError("the file does not contain it")
        return frame

    def _jump(self, key: int) -> None:
        if not key:
            self._start()
            return
        time = int(self._index.times[key])
        self._container.seek(time, stream=self._stream, backward=True)
        packets = self._container.demux(self._stream)
        first = next(packets, None)
        reached = None if first is None or not first.is_keyframe else _time(first)
        # Some containers seek by decoding times, which leads to a packet after the key frame: begin from the start.
        if first is None or reached is None or reached > time:
            self._start()
            return
        self._frames = (frame for packet in itertools.chain([first], packets) for frame in packet.decode())
        self.position = key

    def _advance(self, number: int) -> VideoFrame | None:
        """Decode up to a frame; None if a later frame comes first."""
        if self._index.counted:
            skipped, self.position = number - self.position, number + 1
            return next(itertools.islice(self._frames, skipped, None), None)
        wanted = int(self._index.times[number])
        for frame in self._frames:
            time = _time(frame)
            if time is not None and time >= wanted:
                self.position = int(np.searchsorted(self._index.times, time)) + 1
                return frame if time == wanted else None
        self.position = len(self._index)
        return None

    def _rgb(self, frame: VideoFrame) -> Array:
        """Convert a frame to RGB as DALI does: bilinear chroma upsampling with accurate rounding.

        Raises:
            ValueError: The frame differs in size from the video.
        """
        pixels: Array = frame.reformat(format="rgb24", interpolation=_CONVERSION).to_ndarray()
        expected = self._index.height, self._index.width, 3
        if pixels.shape != expected:
            raise ValueError(f"a frame has shape {list(pixels.shape)} in a video of {list(expected)}")
        return pixels


def _open(file: str | IO[bytes]) -> tuple[InputContainer, VideoStream]:
    av = optional_import.import_extra("av", "video", _NEEDED_FOR)
    if not isinstance(file, str):
        file.seek(0)  # it may have been read before
    try:
        # Without the scheme, FFmpeg takes the part of a relative path before a colon for one.
        container: InputContainer = av.open(f"file:{file}" if isinstance(file, str) else file, "r")
    except av.error.FFmpegError as error:
        # Missing files and the like are OSErrors; errors about the data are reported as "not a video".
        if isinstance(error, OSError) and not isinstance(error, ValueError):
            raise
        raise ValueError(f"not a video: {error.strerror}") from error
    if not container.streams.video:
        container.close()
        raise ValueError("the file does not contain a video stream")
    stream = container.streams.video[0]
    if stream.codec_context is None:  # pyright: ignore[reportUnnecessaryComparison]  # its annotation forgets it
        container.close()
        raise ValueError("FFmpeg does not support the format of the video stream")
    # Parallelism comes from the chunks of a batch, one thread each; threads of the codec would compete with them.
    stream.codec_context.thread_count = 1
    return container, stream


def _errors() -> tuple[type[Exception], ...]:
    return optional_import.import_extra("av.error", "video", _NEEDED_FOR).FFmpegError, ValueError, EOFError


def padded_frame_indices(numbers: Indices, stop: int, mode: str) -> Indices:
    """Replace frame numbers that are not below `stop` according to a padding mode.

    >>> [padded_frame_indices(np.arange(2, 7), 4, mode).tolist() for mode in ("constant", "edge", "reflect")]
    [[2, 3, -1, -1, -1], [2, 3, 3, 3, 3], [2, 3, 2, 1, 0]]
    >>> padded_frame_indices(np.arange(2, 7), 4, "symmetric").tolist()
    [2, 3, 3, 2, 1]

    Args:
        numbers: Frame numbers, not negative unless the mode is "constant".
        stop: Number of frames.
        mode: A `PadMode`; "none" omits such frames.

    Returns:
        Frame numbers; -1 is a frame with a constant value.
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
    """Return the value of padded frames per channel.

    Raises:
        DefinitionError: There is another number of values than one or three.
    """
    values = np.atleast_1d(np.asarray(value, np.uint8))
    if values.shape not in ((1,), (3,)):
        raise DefinitionError(
            "fill_value must be one number, or one per channel", given=value, expected="1 or 3 numbers"
        )
    return np.broadcast_to(values, 3)
