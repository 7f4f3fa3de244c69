"""readers.video: clips of videos."""

from __future__ import annotations

from collections.abc import Sequence
from os import fspath
from typing import Annotated, Any, Unpack

import numpy as np

from penstock.core import optional_import
from penstock.errors import DefinitionError, did_you_mean, short_repr
from penstock.graph.arguments.argument_marks import DataLocation, Default, PerformanceHint
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.argument_limits import Length
from penstock.operators.elementwise.cast import cast
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.video.video_decoder import PAD_MODES, fill_of
from penstock.sources.formats.video.video_list import Entry, Rounding, videos_in, videos_of
from penstock.sources.formats.video.video_source import ClipOptions, VideoSource, stamp_of_clips
from penstock.sources.open_sources import open_shared
from penstock.types import FLOAT, RGB, UINT8, DALIDataType, DALIImageType, as_dtype

_ROUNDINGS = {
    "start_down_end_up": (False, True),
    "start_up_end_down": (True, False),
    "all_up": (True, True),
    "all_down": (False, False),
}
_FRAME_NUM = {False: "none", True: "scalar", None: "none", "none": "none", "scalar": "scalar", "sequence": "sequence"}


class VideoArguments(ReaderArguments, total=False):
    """The arguments of `fn.readers.video` but `sequence_length`, each as it is described there.

    Which videos: filenames, file_root, file_list, labels, file_list_format, file_list_rounding, file_list_frame_num,
    file_list_include_preceding_frame. Which frames: stride, step, uniform_sample, pad_mode, pad_sequences, fill_value.
    What is given: enable_frame_num, enable_timestamps, normalized. Hints: file_list_include_end, channels,
    additional_decode_surfaces, skip_vfr_check.
    """

    filenames: DataLocation[Path | Sequence[Path] | None]
    file_root: DataLocation[Path | None]
    file_list: DataLocation[Path | None]
    labels: int | Sequence[int] | None
    stride: Annotated[int, Default(1)]
    step: Annotated[int, Default(-1)]
    pad_mode: Annotated[str, Default("none")]
    pad_sequences: Annotated[bool, Default(False)]
    fill_value: Annotated[int | Sequence[int], Default(0)]
    uniform_sample: Annotated[bool, Default(False)]
    enable_frame_num: Annotated[str | bool | None, Default("none")]
    enable_timestamps: Annotated[bool, Default(False)]
    file_list_format: Annotated[str, Default("timestamps")]
    file_list_rounding: Annotated[str, Default("start_down_end_up")]
    file_list_frame_num: Annotated[bool, Default(False)]
    file_list_include_end: PerformanceHint[bool]
    file_list_include_preceding_frame: bool | None
    normalized: Annotated[bool, Default(False)]
    channels: PerformanceHint[int]
    additional_decode_surfaces: PerformanceHint[int]
    skip_vfr_check: PerformanceHint[bool]


@operator("readers.video")
def video(
    *,
    sequence_length: Length,
    filenames: DataLocation[Path | Sequence[Path] | None] = None,
    file_root: DataLocation[Path | None] = None,
    file_list: DataLocation[Path | None] = None,
    labels: int | Sequence[int] | None = None,
    stride: int = 1,
    step: int = -1,
    pad_mode: str = "none",
    pad_sequences: bool = False,
    fill_value: int | Sequence[int] = 0,
    uniform_sample: bool = False,
    enable_frame_num: str | bool | None = "none",
    enable_timestamps: bool = False,
    file_list_format: str = "timestamps",
    file_list_rounding: str = "start_down_end_up",
    file_list_frame_num: bool = False,
    file_list_include_end: PerformanceHint[bool] = True,
    file_list_include_preceding_frame: bool | None = None,
    dtype: DALIDataType | Any = UINT8,
    normalized: bool = False,
    image_type: DALIImageType = RGB,
    channels: PerformanceHint[int] = 3,
    additional_decode_surfaces: PerformanceHint[int] = 2,
    skip_vfr_check: PerformanceHint[bool] = False,
    **loader: Unpack[ReaderArguments],
) -> DataNode | list[DataNode]:
    """Read clips of videos: what FFmpeg decodes, by PyAV. Needs the extra `video`.

    Give one of three: `filenames`; `file_root`, the folder above a folder per class; or `file_list`, a text file with a
    line per video: its path, a label, and, if only a part is read, its start and end. All frames are listed when the
    reader is made, for which the files are read once; a clip is decoded from the key frame before it.

    Args:
        sequence_length: frames of a clip.
        filenames: paths.
        file_root: that folder; classes are numbered in the order of the folders' names.
        file_list: the text file; its paths are relative to the working directory.
        labels: class numbers, one per entry of `filenames`; an empty list numbers the files.
        stride: how many frames lie from one frame of a clip to the next.
        step: how many lie from the first frame of a clip to that of the next one; without it clips follow each other.
        pad_mode: what becomes of the clip at the end of a video that has too few frames: it is left out ("none"), or
            filled up with `fill_value` ("constant"), with the last frame ("edge", "repeat"), or with the frames before,
            in reverse order, without ("reflect", "reflect_101") or with the last one ("symmetric", "reflect_1001").
        pad_sequences: an older way to say `pad_mode="constant"`.
        fill_value: of padded frames, 0 to 255; one number, or one per channel.
        uniform_sample: whether a video, or its part, is one clip of frames at equal distances. Then `stride`, `step`
            and `pad_mode` have no effect.
        enable_frame_num: whether to give the number of the first frame ("scalar" or True), or of all ("sequence").
        enable_timestamps: whether to give the time of each frame.
        file_list_format: what starts and ends are: "timestamps", in seconds, or "frames", numbers of which negative
            ones count from the end. The frame at the end is not read.
        file_list_rounding: where starts and ends between two frames belong: "start_down_end_up", "start_up_end_down",
            "all_up" or "all_down".
        file_list_frame_num: an older way to say `file_list_format="frames"`.
        file_list_include_end: without effect, as in DALI.
        file_list_include_preceding_frame: an older way to say how to round: "start_down_end_up" if True,
            "start_up_end_down" if False.
        dtype: uint8, or float32.
        normalized: whether values of float32 go from 0 to 1, not to 255.
        image_type: RGB; `fn.color_space_conversion` gives others.
        channels: a hint of DALI's; there are three.
        additional_decode_surfaces: a hint of DALI's.
        skip_vfr_check: a hint of DALI's; frames may have any times.
        **loader: order and shard, as `penstock.operators.readers.reader_arguments.LoaderArguments` describes them.

    Returns:
        The clips, (frames, height, width, 3), layout FHWC, RGB. Where there are labels, int32 (1,); then, if they are
        asked for, numbers, int32 (1,) or (frames,), and times in seconds, float64 (frames,); -1 for padded frames.
        Batches have labels of shape (N, 1); ``fn.squeeze(labels, axes=[0])`` makes it (N,), as metrics and losses need.

    Raises:
        SourceNotFoundError: a path does not exist.
        SourceError: a file is no video or is damaged, a list cannot be read, or no video is long enough.
        DefinitionError: none or two of the three ways are used, or an argument has a value that is not offered.
        MissingExtraError: the package av is not installed.
        SampleError: while running, a frame that cannot be decoded, or a file that has been written to.

    Example:
        >>> import av, penstock, tempfile
        >>> import numpy as np
        >>> from penstock import fn
        >>> path = tempfile.mkdtemp() + "/short.avi"
        >>> with av.open(path, "w") as file:
        ...     stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
        ...     for number in range(7):
        ...         frame = av.VideoFrame.from_ndarray(np.full((16, 32, 3), 20 * number, np.uint8))
        ...         file.mux(stream.encode(frame))
        ...     file.mux(stream.encode())
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     frames, numbers = fn.readers.video(filenames=path, sequence_length=3, enable_frame_num="sequence")
        ...     pipeline.set_outputs(frames, numbers)
        >>> frames, numbers = pipeline.run()
        >>> frames.shape(), numbers.as_array().tolist()
        ([(3, 16, 32, 3), (3, 16, 32, 3)], [[0, 1, 2], [3, 4, 5]])
    """
    del file_list_include_end, channels, additional_decode_surfaces, skip_vfr_check
    optional_import.import_extra("av", "video", "fn.readers.video")
    element = as_dtype(dtype)
    if image_type is not RGB:
        raise DefinitionError(
            "fn.readers.video gives RGB", given=f"image_type=types.{image_type.name}",
            fix=f"fn.color_space_conversion(frames, image_type=types.RGB, output_type=types.{image_type.name})",
        )  # fmt: skip
    if element.name not in ("uint8", "float32") or (normalized and element.name == "uint8"):
        raise DefinitionError(
            "fn.readers.video gives uint8 or float32, which alone can be normalized",
            given=f"dtype {element}, normalized={normalized}", fix="dtype=types.FLOAT, and fn.cast for others",
        )  # fmt: skip
    if stride < 1 or step == 0:
        given = f"sequence_length={sequence_length}, stride={stride}, step={step}"
        raise DefinitionError("fn.readers.video: stride and step are at least 1", given=given)
    entries, labelled = _entries(filenames, file_root, file_list, labels)
    if file_list_include_preceding_frame is not None:
        file_list_rounding = "start_down_end_up" if file_list_include_preceding_frame else "start_up_end_down"
    up = _ROUNDINGS[_one_of("file_list_rounding", file_list_rounding, _ROUNDINGS)]
    form = _one_of("file_list_format", file_list_format, ("timestamps", "frames"))
    if isinstance(enable_frame_num, int):
        enable_frame_num = bool(enable_frame_num)
    try:
        fill = tuple(fill_of(fill_value).tolist())
    except (ValueError, TypeError) as error:
        raise DefinitionError(f"fn.readers.video: {error}") from error
    options = ClipOptions(
        length=sequence_length,
        stride=stride,
        step=step,
        pad_mode=_one_of("pad_mode", "constant" if pad_sequences and pad_mode == "none" else pad_mode, PAD_MODES),
        fill=fill,
        uniform=bool(uniform_sample),
        labels=labelled,
        frame_num=_FRAME_NUM[_one_of("enable_frame_num", enable_frame_num, _FRAME_NUM)],
        timestamps=bool(enable_timestamps),
        rounding=Rounding(form == "frames" or bool(file_list_frame_num), *up),
    )
    frames, *others = apply_reader(open_shared(VideoSource, entries, options, stamp=stamp_of_clips(entries)), loader)
    if element.name == "float32":
        frames = cast(frames, dtype=FLOAT)
        frames = frames * np.float32(1 / 255) if normalized else frames
    return [frames, *others] if others else frames


def _one_of(name: str, given: Any, known: Any) -> Any:
    if given not in known:
        names = [each for each in known if isinstance(each, str)]
        raise DefinitionError(
            f"fn.readers.video: no such {name}", given=short_repr(given), expected=", ".join(names),
            fix=did_you_mean(given, names),
        )  # fmt: skip
    return given


def _entries(
    filenames: Path | Sequence[Path] | None, file_root: Path | None, file_list: Path | None, labels: Any
) -> tuple[tuple[Entry, ...], bool]:
    """The videos, and whether they have labels.

    Raises:
        DefinitionError: none or two of the three ways are used, or another number of labels than of files.
    """
    ways = sum(map(bool, (filenames, file_root, file_list)))
    if ways != 1:
        raise DefinitionError("fn.readers.video: one of filenames, file_root and file_list", given=f"{ways} of them")
    if labels is not None and not filenames:
        raise DefinitionError("fn.readers.video: labels go with filenames", fix="leave labels out")
    paths = as_paths(filenames)
    if file_root:
        return videos_in(fspath(file_root)), True
    if file_list:
        return videos_of(fspath(file_list)), True
    if labels is None:
        return tuple(map(Entry, paths)), False
    numbers = [int(each) for each in np.atleast_1d(labels)] or list(range(len(paths)))
    if len(numbers) != len(paths):
        raise DefinitionError("fn.readers.video: a label per file", given=f"{len(numbers)} for {len(paths)} files")
    return tuple(map(Entry, paths, numbers)), True
