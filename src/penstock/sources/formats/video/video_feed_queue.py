"""Queue of videos that are fed by hand, read as sequences of frames."""

import io
from typing import Any

import numpy as np

from penstock.core import Array
from penstock.errors import SourceError
from penstock.sources.external.array_conversion import SampleKind, to_column
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.formats.video.video_decoder import VideoDecoder, index_video
from penstock.sources.stream import BatchRequest


class VideoFeedQueue(FeedQueue):
    """Batches of frame sequences from encoded videos, which `Pipeline.feed_input` passes one at a time.

    Frames are decoded when their batch is requested.

    Args:
        name: Name of the input in messages.
        rows: Sequences per batch; the last batch of a video may have fewer.
        length: Frames per sequence.
        pads: True to pad the last sequence of a video with black frames, False to return a shorter one.
    """

    def __init__(self, *, name: str, rows: int, length: int, pads: bool) -> None:
        super().__init__((SampleKind(np.dtype(np.uint8), 4, "FHWC"),), name=name, repeat_last=False)
        self._rows, self._length, self._pads = rows, length, pads

    def feed(self, data: Any, layout: str | None) -> None:
        """Append a video to the queue.

        Raises:
            SourceError: The data is not a single video, as a vector of bytes.
        """
        column = to_column(data)
        # As in DALI, the vector may have leading axes of extent 1.
        if len(column) != 1 or column[0].dtype != np.uint8 or column[0].shape[-1:] != (column[0].size,):
            raise SourceError(
                f"{self.name} accepts one encoded video at a time",
                given=", ".join(f"{sample.dtype}{list(sample.shape)}" for sample in column),
                expected="a batch of one sample, uint8[n]",
            )
        file = io.BytesIO(column[0].tobytes())
        try:
            index = index_video(file)
            decoder = VideoDecoder(file, index)
        except (OSError, ValueError) as error:
            raise SourceError(f"the data fed to {self.name} cannot be decoded as a video", given=error) from None
        # A video is read by its own decoder, shared by all of its batches.
        self._queue += [(decoder, index, first) for first in range(0, len(index), self._rows * self._length)]

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """Return the next batch of a video."""
        # Batches of one video are consecutive, so its decoder never seeks.
        decoder, index, first = super().fetch(request, row)
        self._last = None  # it would hold the decoder, and with it the whole video
        stop = min(first + self._rows * self._length, len(index))
        frames = [frame for _, frame in decoder.frames(range(first, stop))]
        return [self._sequence(frames[at : at + self._length]) for at in range(0, len(frames), self._length)]

    def _sequence(self, frames: list[Array]) -> Array:
        missing = self._length - len(frames) if self._pads else 0
        return np.stack([*frames, *[np.zeros_like(frames[0])] * missing])
