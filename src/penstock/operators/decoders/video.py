"""decoders.video: decoding of frames of videos."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Spec, optional_import
from penstock.errors import DefinitionError
from penstock.graph import (
    Argument,
    DataNode,
    Operator,
    PerformanceHint,
    Range,
    SampleContext,
    SampleKernel,
    apply,
    operator,
)
from penstock.graph.ir.node_checks import machine_memory
from penstock.operators.decoders.encoded_bytes import EncodedBytes
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
    """Decoding of frames of a video file.

    Args:
        pad_mode: Handling of frames beyond the end, a `PadMode`.
        fill: Value of padded frames, one per channel.
    """

    reads_content: ClassVar[bool] = True
    pad_mode: str
    fill: tuple[int, ...]

    def infer(self, data: Spec, **arguments: Any) -> Spec:
        """Return the spec of any number of frames of any size."""
        return Spec(np.dtype(np.uint8), (None, None, None, 3), "FHWC")

    def sample(self, context: SampleContext, data: Array, **arguments: Any) -> Array:
        """Decode the requested frames of one video."""
        file = io.BytesIO(data.tobytes())
        # The index has the position of each frame and its keyframe, so that decoding starts at the nearest keyframe.
        index = index_video(file)
        numbers = self._frame_numbers(index, **arguments)
        out = np.empty((len(numbers), index.height, index.width, 3), np.uint8)
        # Frames of the fill value are not decoded: their number is -1.
        out[numbers < 0] = self.fill
        decoder = VideoDecoder(file, index)
        # Each frame is decoded once, in order: seeking back costs the way from the key frame again.
        for number, frame in decoder.frames(np.unique(numbers[numbers >= 0]).tolist()):
            out[numbers == number] = frame
        return out

    def _frame_numbers(
        self,
        index: VideoIndex,
        *,
        frames: Any = None,
        start_frame: Any = 0,
        end_frame: Any = None,
        sequence_length: Any = None,
        stride: Any = 1,
    ) -> NDArray[np.int64]:
        """Return the numbers of the frames to decode; -1 stands for a frame of the fill value.

        Raises:
            ValueError: A frame does not exist and `pad_mode` does not replace it, or the start is not in the video.
        """
        if frames is not None:
            numbers = np.asarray(frames, np.int64)
            known = padded_frame_indices(numbers, len(index), self.pad_mode)
            if len(known) != len(numbers) or (self.pad_mode != CONSTANT and numbers.min(initial=0) < 0):
                raise ValueError(f"frames {numbers.tolist()} are requested, but the video has 0 to {len(index) - 1}")
            return known
        start, step = int(start_frame), int(stride)
        if not 0 <= start < len(index):
            raise ValueError(f"start_frame is {start}, but the video has frames 0 to {len(index) - 1}")
        stop = len(index) if end_frame is None else int(end_frame)
        if sequence_length is not None:
            stop = start + int(sequence_length) * step
        if stop <= start:
            raise ValueError(f"end_frame {stop} must be after start_frame {start}")
        # Padding can make any number of frames. Fail before the machine swaps or the process is killed.
        if -(-(stop - start) // step) * index.height * index.width * 3 > machine_memory():
            raise ValueError(f"frames {start} to {stop - 1} of {index.height} x {index.width} do not fit into memory")
        return padded_frame_indices(np.arange(start, stop, step), len(index), self.pad_mode)


@operator("decoders.video")
def video(
    encoded: EncodedBytes,
    *,
    frames: Annotated[int | Sequence[int] | DataNode | None, Argument(np.int64, (None,))] = None,
    start_frame: Annotated[int | DataNode | None, Argument(np.int64)] = None,
    end_frame: Annotated[int | DataNode | None, Argument(np.int64)] = None,
    sequence_length: Annotated[int | DataNode | None, Argument(np.int64, low=1)] = None,
    stride: Annotated[int | DataNode | None, Argument(np.int64, low=1)] = None,
    pad_mode: PadMode = "constant",
    fill_value: Annotated[int | Sequence[int], Range(0, 255)] = 0,
    build_index: PerformanceHint[bool] = True,
    affine: PerformanceHint[bool] = True,
) -> DataNode:
    """Decode frames of videos on the host, with FFmpeg through PyAV. Requires the extra `video`.

    Args:
        encoded: Bytes of each file, uint8 of shape (n,).
        frames: Numbers of the frames, in any order, also repeated. Excludes the other arguments that select frames. A
            node selects the frames per sample.
        start_frame: First frame; 0 by default. This and the next three may be nodes, with a number per sample.
        end_frame: End of the frames, exclusive; the end of the video by default.
        sequence_length: Number of frames, instead of `end_frame`.
        stride: Distance between frames; 1 by default.
        pad_mode: Replacement for frames beyond the end: frames of `fill_value` ("constant"), the last frame ("edge" or
            "repeat"), the frames before it in reverse order without ("reflect" or "reflect_101") or with the last one
            ("symmetric" or "reflect_1001"), or none: the sequence is shorter ("none").
        fill_value: Value of padded frames, 0 to 255; one number, or one per channel.
        build_index: DALI's hint; frames are always indexed.
        affine: DALI's hint; it has no effect.

    Returns:
        Frames, uint8 (frames, height, width, 3), layout FHWC, RGB.

    Raises:
        DefinitionError: The input is not a vector of bytes, or arguments exclude each other.
        MissingExtraError: The package av is not installed.
        SampleError: While running, a file cannot be decoded, or does not have a requested frame.

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
    optional_import.import_extra("av", "video", "decoding a video")
    part = {"start_frame": start_frame, "end_frame": end_frame, "sequence_length": sequence_length, "stride": stride}
    selection: dict[str, Any] = {name: value for name, value in part.items() if value is not None}
    if frames is not None and selection:
        raise DefinitionError(f"frames cannot be combined with {', '.join(selection)}", fix="leave one of them out")
    if end_frame is not None and sequence_length is not None:
        raise DefinitionError("end_frame and sequence_length cannot be combined", fix="leave one of them out")
    if frames is not None:
        selection["frames"] = frames
    return apply(DecodeVideo(pad_mode, tuple(fill_of(fill_value).tolist())), encoded, **selection)
