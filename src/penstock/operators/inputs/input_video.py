"""inputs.video: sequences of frames of videos that are fed by hand."""

from __future__ import annotations

from typing import Literal

from penstock.core import optional_import
from penstock.graph.arguments.argument_marks import PerformanceHint
from penstock.graph.ir.operator import StreamInput
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import common_arguments, operator
from penstock.graph.tracing.trace import DataNode, current_trace
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
    """Cut videos that are fed by hand into batches of sequences of frames. Needs the extra `video`.

    `Pipeline.feed_input` gives one encoded video at a time, as a batch of one sample. The pipeline then gives batches
    of `batch_size` sequences until the video ends, with fewer sequences in the last of them. Frames are decoded when
    their batch is asked for.

    Args:
        sequence_length: how many frames a sequence has.
        last_sequence_policy: whether the last sequence of a video is shorter, or filled up with black frames.
        affine: a hint of DALI's.
        blocking: likewise.
        no_copy: likewise.

    Returns:
        uint8 (frames, height, width, 3), layout FHWC, RGB.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=3)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.inputs.video(name="video", sequence_length=5))
        >>> pipeline.run()
        Traceback (most recent call last):
        penstock.sources.stream.NothingFedError: nothing was fed to video
          fix:      pipeline.feed_input('video', ...) before each run
          at:       ...
    """
    del affine, blocking, no_copy
    optional_import.import_extra("av", "video", f"fn.{_KIND}")
    trace = current_trace()
    called = common_arguments().get("name") or f"input {trace.num_nodes}"
    key = (_KIND, sequence_length, last_sequence_policy, trace.num_nodes)
    stream = trace.shared.setdefault(
        key, VideoFeedQueue(name=called, rows=trace.batch, length=sequence_length, pads=last_sequence_policy == "pad")
    )
    trace.fed[called] = stream
    if trace.eager is not None:
        trace.eager.fill(called, stream)
    trace.journal.register_assumed(stream)
    stream.infer_specs()
    return apply(StreamInput(stream))
