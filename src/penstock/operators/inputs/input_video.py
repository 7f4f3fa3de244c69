"""inputs.video: frame sequences of videos that the program feeds."""

from typing import Literal

from penstock.core import optional_import
from penstock.graph import DataNode, PerformanceHint, StreamInput, apply, common_arguments, current_trace, operator
from penstock.operators.argument_limits import Length
from penstock.sources.formats.video.video_feed_queue import VideoFeedQueue

_KIND = "inputs.video"


@operator(_KIND)
def video(
    *,
    sequence_length: Length,
    last_sequence_policy: Literal["partial", "pad"] = "partial",
    affine: PerformanceHint[bool] = True,
    blocking: PerformanceHint[bool] = False,
    no_copy: PerformanceHint[bool] = False,
) -> DataNode:
    """Cut videos that you feed into batches of frame sequences. Requires the extra `video`.

    `Pipeline.feed_input` takes one encoded video at a time, as a batch of one sample. The pipeline then returns batches
    of `batch_size` sequences until the video ends; the last batch may have fewer. Frames are decoded when their
    batch is requested.

    Args:
        sequence_length: Frames per sequence.
        last_sequence_policy: "partial" leaves the last sequence of a video shorter; "pad" fills it with black frames.
        affine: DALI's hint; it has no effect.
        blocking: DALI's hint; it has no effect.
        no_copy: DALI's hint; it has no effect.

    Returns:
        Frames, uint8 (frames, height, width, 3), layout FHWC, RGB.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.inputs.video(name="video", sequence_length=5))
        >>> pipeline.run()
        Traceback (most recent call last):
        penstock.sources.stream.NothingFedError: nothing was fed to video
          fix:      call pipeline.feed_input('video', ...) before each run
          at:       ...
    """
    del affine, blocking, no_copy
    optional_import.import_extra("av", "video", "decoding a video")
    trace = current_trace()
    input_name = common_arguments().get("name") or f"input {trace.num_nodes}"
    # Tracing may repeat, for example when a definition waits for its first data. The key, with the position of the
    # operator in the definition, gives the repetition the same queue with what was already fed.
    key = (_KIND, sequence_length, last_sequence_policy, trace.num_nodes)
    stream = trace.shared.setdefault(
        key,
        VideoFeedQueue(name=input_name, rows=trace.batch, length=sequence_length, pads=last_sequence_policy == "pad"),
    )
    trace.fed[input_name] = stream
    # In debug mode the first batch is needed now, because operators compute while they are defined.
    if trace.eager is not None:
        trace.eager.fill(input_name, stream)
    trace.journal.register_assumed(stream)
    stream.infer_specs()
    return apply(StreamInput(stream))
