"""The stream of sequences of frames of videos that are fed by hand."""

from __future__ import annotations

import io
from collections import deque
from typing import Any

import numpy as np

from penstock.core.columns import Array
from penstock.errors import SourceError
from penstock.sources.external.array_conversion import SampleKind, to_column
from penstock.sources.external.feed_queue import FeedQueue
from penstock.sources.formats.video.video_decoder import VideoDecoder, VideoIndex, index_video
from penstock.sources.stream import BatchRequest


class VideoFeedQueue(FeedQueue):
    """Batches of sequences of frames, from what `Pipeline.feed_input` gives: one encoded video at a time.

    Frames are decoded when their batch is asked for.

    Args:
        name: what messages call it.
        rows: how many sequences a batch has; the last one of a video may have fewer.
        length: how many frames a sequence has.
        pads: whether the last sequence of a video is filled up with black frames; else it is shorter.
    """

    def __init__(self, *, name: str, rows: int, length: int, pads: bool) -> None:
        super().__init__((SampleKind(np.dtype(np.uint8), 4, "FHWC"),), name=name, repeat_last=False)
        self._rows, self._length, self._pads = rows, length, pads
        self._batches: deque[tuple[VideoDecoder, VideoIndex, int]] = deque()

    @property
    def has_batch(self) -> bool:
        """Whether a batch waits."""
        return bool(self._batches)

    def feed(self, data: Any, layout: str | None) -> None:
        """Put a video behind those that wait.

        Raises:
            SourceError: it is not one video, as a vector of bytes.
        """
        del layout
        column = to_column(data)
        if len(column) != 1 or (column[0].dtype, column[0].ndim) != (np.dtype(np.uint8), 1):
            raise SourceError(
                f"{self.name} is fed one encoded video at a time",
                given=", ".join(f"{sample.dtype}{list(sample.shape)}" for sample in column),
                expected="a batch of one sample, uint8[n]",
            )
        file = io.BytesIO(column[0].tobytes())
        try:
            index = index_video(file)
            file.seek(0)
            decoder = VideoDecoder(file, index)
        except (OSError, ValueError) as error:
            raise SourceError(f"what was fed to {self.name} is no video that can be decoded", given=error) from None
        self._batches += [(decoder, index, first) for first in range(0, len(index), self._rows * self._length)]

    def fetch(self, request: BatchRequest, row: int | None) -> Any:
        """The next batch of a video."""
        if not self._batches:
            return super().fetch(request, row)
        decoder, index, first = self._batches.popleft()
        stop = min(first + self._rows * self._length, len(index))
        frames = [frame for _, frame in decoder.frames(range(first, stop))]
        return [self._sequence(frames[at : at + self._length]) for at in range(0, len(frames), self._length)]

    def _sequence(self, frames: list[Array]) -> Array:
        missing = self._length - len(frames) if self._pads else 0
        return np.stack([*frames, *[np.zeros_like(frames[0])] * missing])
