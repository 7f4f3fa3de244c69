"""readers.video: clips of videos."""

from collections.abc import Sequence
from os import fspath
from typing import Annotated, Any, Literal, Unpack

import numpy as np

from penstock.core import optional_import
from penstock.errors import DefinitionError
from penstock.graph import (
    DataLocation,
    DataNode,
    Default,
    DType,
    PerformanceHint,
    Range,
    operator,
    select_arguments,
    with_defaults,
)
from penstock.operators.argument_limits import Length, supported_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.elementwise.cast import cast
from penstock.operators.readers.paths import check_one_per_file
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.video.video_decoder import PadMode, fill_of
from penstock.sources.formats.video.video_list import Entry, Rounding, videos_in, videos_of
from penstock.sources.formats.video.video_source import ClipOptions, VideoSource, stamp_of_clips
from penstock.sources.open_sources import open_shared
from penstock.types import FLOAT, RGB, UINT8, DALIImageType

# Rounding of start and end: True for up.
_ROUNDINGS = {
    "start_down_end_up": (False, True),
    "start_up_end_down": (True, False),
    "all_up": (True, True),
    "all_down": (False, False),
}
# Spellings of `enable_frame_num`, which may also be a boolean.
_FRAME_NUM = {False: "none", True: "scalar", None: "none", "none": "none", "scalar": "scalar", "sequence": "sequence"}


class VideoArguments(LabeledReaderArguments, total=False):
    """Arguments of readers of videos.

    Args:
        filenames: Paths of the videos.
        file_root: Folder with one folder of videos per class; classes are numbered in the order of their names. Files
            with other extensions are left out: mp4, m4v, mov, qt, mkv, webm, avi, divx, mpg, mpeg, mpe, m1v, m2v, vob,
            ts, mts, m2ts, wmv, asf, flv, f4v, ogv, 3gp, 3g2, mxf and gif are read, in upper and lower case.
        file_list: Text file with a line per video; its paths are relative to the working directory.
        labels: Class numbers, one per entry of `filenames`; an empty list numbers the files.
        stride: Distance between frames of a clip, in frames. As in DALI, a clip needs `sequence_length` times `stride`
            frames, also after its last one.
        step: Distance between the first frames of consecutive clips; -1 for the length of a clip.
        pad_mode: Padding of the first clip that is too short, which is the last one: "none" drops the clip; "constant"
            repeats `fill_value`; "edge" or "repeat" the last frame; "reflect" or "reflect_101" mirrors the frames
            before it; "symmetric" or "reflect_1001" also repeats the last frame.
        pad_sequences: Older spelling of pad_mode="constant".
        fill_value: Value of padded frames, 0 to 255; one number, or one per channel.
        uniform_sample: If True, a video or its part is one clip of frames at equal distances, without padding.
        enable_frame_num: "scalar" or True returns the number of the first frame, "sequence" those of all frames.
        enable_timestamps: If True, the time of each frame since the first one of the video is returned.
        file_list_format: Unit of starts and ends in `file_list`: "timestamps" in seconds, or "frames", where negative
            ones count from the end. The frame at the end is excluded.
        file_list_rounding: Rounding of starts and ends between two frames.
        file_list_frame_num: Older spelling of file_list_format="frames".
        file_list_include_end: It has no effect, as in DALI.
        file_list_include_preceding_frame: Older spelling of `file_list_rounding`: "start_down_end_up" if True,
            "start_up_end_down" if False.
        normalized: If True, values of FLOAT are from 0 to 1 instead of 255.
        image_type: Color space; only RGB. `fn.color_space_conversion` converts it.
        channels: DALI's hint; there are three.
        additional_decode_surfaces: DALI's hint; it has no effect.
        skip_vfr_check: DALI's hint; frames may have any times.
    """

    filenames: DataLocation[Path | Sequence[Path] | None]
    file_root: DataLocation[Path | None]
    file_list: DataLocation[Path | None]
    labels: Annotated[int | Sequence[int] | None, Default(None)]
    stride: Annotated[int, Range(1), Default(1)]
    step: Annotated[int, Default(-1)]
    pad_mode: Annotated[PadMode, Default("none")]
    pad_sequences: Annotated[bool, Default(False)]
    fill_value: Annotated[int | Sequence[int], Range(0, 255), Default(0)]
    uniform_sample: Annotated[bool, Default(False)]
    enable_frame_num: Annotated[Literal["none", "scalar", "sequence"] | bool | None, Default("none")]
    enable_timestamps: Annotated[bool, Default(False)]
    file_list_format: Annotated[Literal["timestamps", "frames"], Default("timestamps")]
    file_list_rounding: Annotated[
        Literal["start_down_end_up", "start_up_end_down", "all_up", "all_down"], Default("start_down_end_up")
    ]
    file_list_frame_num: Annotated[bool, Default(False)]
    file_list_include_end: PerformanceHint[Annotated[bool, Default(True)]]
    file_list_include_preceding_frame: Annotated[bool | None, Default(None)]
    normalized: Annotated[bool, Default(False)]
    image_type: Annotated[DALIImageType, Default(RGB)]
    channels: PerformanceHint[Annotated[int, Default(3)]]
    additional_decode_surfaces: PerformanceHint[Annotated[int, Default(2)]]
    skip_vfr_check: PerformanceHint[Annotated[bool, Default(False)]]


@operator("readers.video")
@rounds_to_bfloat16
def video(
    *, sequence_length: Length, dtype: DType = UINT8, **arguments: Unpack[VideoArguments]
) -> DataNode | list[DataNode]:
    """Read clips of videos on the host, with FFmpeg through PyAV. Requires the extra `video`.

    Use one of three arguments: `filenames`; `file_root`, a folder with a folder of videos per class; or `file_list`, a
    text file with a line per video: its path, a label and, for a part of it, start and end. The reader indexes all
    frames when it is created, for which it reads the files once. Clips are decoded from the keyframe before them. The
    defaults and the rules for clips are those of DALI's newer reader, `fn.experimental.readers.video`.

    Args:
        sequence_length: Frames per clip.
        dtype: Element type of the frames: uint8 or float32.
        **arguments: See `VideoArguments`.

    Returns:
        The clips, (frames, height, width, 3), layout FHWC, RGB. Then labels, if there are any, int32 (1,); and as
        selected, frame numbers, int32 (1,) or (frames,), and times in seconds, float64 (frames,); -1 for padded frames.

    Raises:
        SourceNotFoundError: A path does not exist.
        SourceError: A file is not a video or is damaged, a list cannot be read, or no video is long enough.
        DefinitionError: Not exactly one of the three arguments is used, or an argument has an unsupported value.
        MissingExtraError: The package av is not installed.
        SampleError: While running, a frame cannot be decoded, or a file was changed.

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
    options = with_defaults(VideoArguments, arguments)
    optional_import.import_extra("av", "video", "decoding a video")
    element, normalized = supported_dtype(dtype, ("uint8", "float32")), options["normalized"]
    # FFmpeg converts every pixel format to RGB. Other color spaces are a separate operator.
    if options["image_type"] != RGB:
        name = DALIImageType(options["image_type"]).name
        raise DefinitionError(
            "image_type must be RGB",
            given=f"types.{name}",
            fix=f"fn.color_space_conversion(frames, image_type=types.RGB, output_type=types.{name})",
        )
    if normalized and element.name == "uint8":
        raise DefinitionError("normalized=True needs dtype=types.FLOAT", given=f"dtype={element}")
    if options["step"] == 0:
        raise DefinitionError("step must not be 0", expected="a positive number, or -1 for the length of a clip")
    entries, has_labels = _entries(*(options[name] for name in ("filenames", "file_root", "file_list", "labels")))
    rounding, include_preceding = options["file_list_rounding"], options["file_list_include_preceding_frame"]
    if include_preceding is not None:
        rounding = "start_down_end_up" if include_preceding else "start_up_end_down"
    pad_mode = options["pad_mode"]
    # An explicit pad_mode overrides the older pad_sequences.
    if options["pad_sequences"] and pad_mode == "none":
        pad_mode = "constant"
    clips = ClipOptions(
        length=sequence_length,
        stride=options["stride"],
        step=options["step"],
        pad_mode=pad_mode,
        fill=tuple(fill_of(options["fill_value"]).tolist()),
        uniform=options["uniform_sample"],
        labels=has_labels,
        frame_num=_FRAME_NUM[options["enable_frame_num"]],
        timestamps=options["enable_timestamps"],
        rounding=Rounding(
            options["file_list_format"] == "frames" or options["file_list_frame_num"], *_ROUNDINGS[rounding]
        ),
    )
    source = open_shared(VideoSource, entries, clips, stamp=stamp_of_clips(entries))
    frames, *others = apply_labeled_reader(
        source, select_arguments(LabeledReaderArguments, arguments), label=1 if has_labels else None
    )
    if element.name == "float32":
        # Cast after the reader, so that a clip is a quarter of the size on its way to the device.
        frames = cast(frames, dtype=FLOAT)
        frames = frames * np.float32(1 / 255) if normalized else frames
    return [frames, *others] if others else frames


def _entries(
    filenames: Path | Sequence[Path] | None, file_root: Path | None, file_list: Path | None, labels: Any
) -> tuple[tuple[Entry, ...], bool]:
    """Return the videos, and True if they have labels.

    Raises:
        DefinitionError: Not exactly one of the three arguments is used, or the number of labels is not that of files.
    """
    count = sum(map(bool, (filenames, file_root, file_list)))
    if count != 1:
        raise DefinitionError("set one of filenames, file_root and file_list", given=f"{count} of them")
    if labels is not None and not filenames:
        raise DefinitionError("labels can only be combined with filenames", fix="leave labels out")
    paths = as_paths(filenames)
    if file_root:
        return videos_in(fspath(file_root)), True
    if file_list:
        return videos_of(fspath(file_list)), True
    if labels is None:
        return tuple(map(Entry, paths)), False
    # As in DALI, an empty list of labels numbers the files.
    numbers = [int(label) for label in np.atleast_1d(labels)] or list(range(len(paths)))
    check_one_per_file("labels", numbers, paths)
    return tuple(map(Entry, paths, numbers)), True
