"""decoders.video: frames of encoded videos."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.core import optional_import
from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import PerformanceHint
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.node_checks import machine_memory
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.sources.formats.video.video_decoder import (
    CONSTANT,
    PadMode,
    VideoDecoder,
    VideoIndex,
    fill_of,
    index_video,
    padded_frame_indices,
)


@dataclass(frozen=True)
class DecodeVideo(Operator, SampleKernel):
    """Frames of a video, from an encoded file.

    Args:
        pad_mode: a `PadMode`.
        fill: the value of padded frames, per channel.
    """

    reads_content: ClassVar[bool] = True
    pad_mode: str
    fill: tuple[int, ...]
    schema: ClassVar[Mapping[str, Argument]] = {
        "frames": Argument(np.int64, (None,)),
        "start_frame": Argument(np.int64),
        "end_frame": Argument(np.int64),
        "sequence_length": Argument(np.int64, low=1),
        "stride": Argument(np.int64, low=1),
    }

    def infer(self, data: Spec, **arguments: Any) -> Spec:
        """Any number of frames, of any size."""
        if data.dtype != np.uint8 or len(data.shape) != 1:
            raise DefinitionError("fn.decoders.video takes encoded bytes", given=data, expected="uint8[n]")
        return Spec(np.dtype(np.uint8), (None, None, None, 3), "FHWC")

    def sample(self, context: SampleContext, data: Array, **arguments: Any) -> Array:
        """The frames."""
        file = io.BytesIO(data.tobytes())
        index = index_video(file)
        numbers = self._numbers(index, **arguments)
        out = np.empty((len(numbers), index.height, index.width, 3), np.uint8)
        out[numbers < 0] = self.fill
        file.seek(0)
        decoder = VideoDecoder(file, index)
        for number, frame in decoder.frames(np.unique(numbers[numbers >= 0]).tolist()):
            out[numbers == number] = frame
        return out

    def _numbers(
        self,
        index: VideoIndex,
        *,
        frames: Any = None,
        start_frame: Any = 0,
        end_frame: Any = None,
        sequence_length: Any = None,
        stride: Any = 1,
    ) -> NDArray[np.int64]:
        """The frames that are asked for; -1 is one of the fill value.

        Raises:
            ValueError: one is not there, and nothing stands in for it, or the first one is not.
        """
        if frames is not None:
            numbers = np.asarray(frames, np.int64)
            known = padded_frame_indices(numbers, len(index), self.pad_mode)
            if len(known) != len(numbers) or (self.pad_mode != CONSTANT and numbers.min(initial=0) < 0):
                raise ValueError(f"frames {numbers.tolist()} are asked for, and there are 0 to {len(index) - 1}")
            return known
        start, apart = int(start_frame), int(stride)
        if not 0 <= start < len(index):
            raise ValueError(f"start_frame is {start}, and there are frames 0 to {len(index) - 1}")
        stop = len(index) if end_frame is None else int(end_frame)
        if sequence_length is not None:
            stop = start + int(sequence_length) * apart
        if stop <= start:
            raise ValueError(f"end_frame {stop} does not lie after start_frame {start}")
        if -(-(stop - start) // apart) * index.height * index.width * 3 > machine_memory():
            raise ValueError(f"frames {start} to {stop - 1} of {index.height} x {index.width} do not fit into memory")
        return padded_frame_indices(np.arange(start, stop, apart), len(index), self.pad_mode)


@operator("decoders.video")
def video(
    encoded: DataNode,
    *,
    frames: int | Sequence[int] | DataNode | None = None,
    start_frame: int | DataNode | None = None,
    end_frame: int | DataNode | None = None,
    sequence_length: int | DataNode | None = None,
    stride: int | DataNode | None = None,
    pad_mode: PadMode = "constant",
    fill_value: int | Sequence[int] = 0,
    build_index: PerformanceHint[bool] = True,
    affine: PerformanceHint[bool] = True,
) -> DataNode:
    """Decode frames of videos: what FFmpeg decodes, by PyAV. Needs the extra `video`.

    Args:
        encoded: the bytes of each file.
        frames: the numbers of frames, in any order, some perhaps several times. Without them, all frames from
            `start_frame` on; numbers may be nodes, with their own for each sample.
        start_frame: the first one.
        end_frame: the one after the last.
        sequence_length: how many frames, instead of `end_frame`.
        stride: how many frames lie from one to the next.
        pad_mode: what stands for frames that the video does not have: frames of `fill_value` ("constant"), the last
            one ("edge", "repeat"), those before in reverse order, without ("reflect", "reflect_101") or with the last
            one ("symmetric", "reflect_1001"), or nothing ("none").
        fill_value: of padded frames, 0 to 255; one number, or one per channel.
        build_index: a hint of DALI's; frames are always listed first.
        affine: a hint of DALI's.

    Returns:
        Frames, uint8 (frames, height, width, 3), layout FHWC, RGB.

    Raises:
        DefinitionError: the input is no vector of bytes, or `frames` or `end_frame` go with what they exclude.
        MissingExtraError: the package av is not installed.
        SampleError: a file that cannot be decoded, or without a frame that is asked for.

    Example:
        >>> import av, io, penstock
        >>> import numpy as np
        >>> from penstock import fn
        >>> video = io.BytesIO()
        >>> with av.open(video, "w", "avi") as file:
        ...     stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
        ...     for number in range(5):
        ...         file.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint8))))
        ...     file.mux(stream.encode())
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     encoded = fn.constant(np.frombuffer(video.getvalue(), np.uint8))
        ...     pipeline.set_outputs(fn.decoders.video(encoded, start_frame=1, stride=2))
        >>> pipeline.run()[0].at(0).shape
        (2, 16, 32, 3)
    """
    del build_index, affine
    optional_import.import_extra("av", "video", "fn.decoders.video")
    part = {"start_frame": start_frame, "end_frame": end_frame, "sequence_length": sequence_length, "stride": stride}
    given: dict[str, Any] = {name: value for name, value in part.items() if value is not None}
    if frames is not None and given:
        raise DefinitionError("fn.decoders.video: frames are all that is read", given=f"frames, {', '.join(given)}")
    if end_frame is not None and sequence_length is not None:
        raise DefinitionError("fn.decoders.video: either end_frame or sequence_length")
    if frames is not None:
        given["frames"] = frames
    try:
        fill = tuple(fill_of(fill_value).tolist())
    except (ValueError, TypeError) as error:
        raise DefinitionError(f"fn.decoders.video: {error}") from error
    return apply(DecodeVideo(pad_mode, fill), encoded, **given)
