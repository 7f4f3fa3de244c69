"""readers.video_resize: clips of videos, resized."""

from typing import Annotated, Any, Unpack

from penstock.graph import DataNode, Default, DType, operator, select_arguments
from penstock.operators.argument_limits import Length
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.readers.video import VideoArguments, video
from penstock.operators.resizing.filter_arguments import FilterArguments
from penstock.operators.resizing.resize import resize
from penstock.operators.resizing.target_size import SizeArguments
from penstock.types import RGB, UINT8, DALIImageType


class VideoResizeArguments(VideoArguments, SizeArguments, FilterArguments, total=False):
    """Arguments of `fn.readers.video`, and size and filters of `fn.resize`.

    Args:
        image_type: Color space; only RGB.
    """

    image_type: Annotated[DALIImageType, Default(RGB)]


@operator("readers.video_resize")
@rounds_to_bfloat16
def video_resize(
    *, sequence_length: Length, dtype: DType = UINT8, **arguments: Unpack[VideoResizeArguments]
) -> DataNode | list[DataNode]:
    """Read clips of videos and resize them: `fn.readers.video`, then `fn.resize`. Requires the extra `video`.

    Args:
        sequence_length: Frames per clip.
        dtype: Element type of the frames: uint8 or float32.
        **arguments: See `VideoResizeArguments`.

    Returns:
        The outputs of `fn.readers.video`, with clips of the new size.

    Raises:
        PenstockError: Any error of the two operators.

    Example:
        >>> import av, penstock, tempfile
        >>> import numpy as np
        >>> from penstock import fn
        >>> path = tempfile.mkdtemp() + "/short.avi"
        >>> with av.open(path, "w") as file:
        ...     stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
        ...     file.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((16, 32, 3), np.uint8))))
        ...     file.mux(stream.encode())
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.video_resize(filenames=path, sequence_length=1, resize_shorter=8))
        >>> pipeline.run()[0].as_array().shape
        (1, 1, 8, 16, 3)
    """
    sizes: Any = {**select_arguments(SizeArguments, arguments), **select_arguments(FilterArguments, arguments)}
    # `resize` takes only its own arguments; all others belong to the reader.
    video_arguments: Any = {name: value for name, value in arguments.items() if name not in sizes}
    # `forward` passes name, device, preserve and the like of this call on.
    read = video.forward(sequence_length=sequence_length, dtype=dtype, **video_arguments)
    frames, *others = read if isinstance(read, list) else (read,)
    resized: DataNode = resize(frames, **sizes)
    return [resized, *others] if others else resized
