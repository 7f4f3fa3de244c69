"""Tests that arguments that scale memory or time have limits.

The arguments come from the signatures of the functions. The timeout of the tests ends a use that takes minutes.
"""

import inspect
import io
import os
import re
import types as python
import typing
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from right_uses import USES, boxes, each, files, folder, images, labels, signal
from test_iterator_options import OPERATORS, check, names_of, pipeline, used

from penstock import fn, types
from penstock.errors import DefinitionError, SampleError
from penstock.graph import Range, lookup
from penstock.graph.arguments.argument_checks import type_hints
from penstock.graph.arguments.argument_groups import CommonArguments, group_hints
from penstock.operators.audio.sinc_resampling import resample

# The folder that the programs read also has a database, which is no class.
pytestmark = pytest.mark.filterwarnings("ignore:.*class folder:penstock.errors.PenstockWarning")

HUGE = 10**9

LIMITED = {
    "decoders.numpy: ndim": lambda: fn.decoders.numpy(files(), dtype=types.FLOAT, ndim=HUGE),
    "dl_tensor_python_function: ndim": lambda: fn.dl_tensor_python_function(
        images(), function=lambda x: x, dtype=types.UINT8, ndim=HUGE
    ),
    "external_source: ndim": lambda: fn.external_source(lambda: [IMAGE] * 2, dtype=types.UINT8, ndim=HUGE),
    "numba_function: ins_ndim": lambda: loop(ins_ndim=[HUGE]),
    "numba_function: outs_ndim": lambda: loop(outs_ndim=[HUGE]),
    "python_function: ndim": lambda: fn.python_function(images(), function=lambda x: x, dtype=types.UINT8, ndim=HUGE),
    "transforms.scale: ndim": lambda: fn.transforms.scale(scale=2.0, ndim=HUGE),
    "power_spectrum: nfft": lambda: fn.power_spectrum(signal(), nfft=HUGE),
    "spectrogram: nfft": lambda: fn.spectrogram(signal(), nfft=HUGE),
    "spectrogram: window_length": lambda: fn.spectrogram(signal(), window_length=HUGE),
    "mel_filter_bank: nfilter": lambda: fn.mel_filter_bank(fn.spectrogram(signal()), nfilter=HUGE),
    "mfcc: n_mfcc": lambda: fn.mfcc(fn.spectrogram(signal()), n_mfcc=HUGE),
    "decoders.audio: sample_rate": lambda: fn.decoders.audio(files(), sample_rate=HUGE)[0],
    "decoders.audio: quality": lambda: fn.decoders.audio(files(), quality=HUGE)[0],
    "readers.nemo_asr: sample_rate": lambda: USES["readers.nemo_asr"](sample_rate=HUGE)[0],
    "readers.nemo_asr: quality": lambda: USES["readers.nemo_asr"](quality=HUGE)[0],
    "random_bbox_crop: num_attempts": lambda: fn.random_bbox_crop(boxes(), num_attempts=HUGE)[0],
    "random_bbox_crop: total_num_attempts": lambda: fn.random_bbox_crop(boxes(), total_num_attempts=HUGE)[0],
    "ssd_random_crop: num_attempts": lambda: fn.ssd_random_crop(images(), boxes(), labels(), num_attempts=HUGE)[0],
    "clahe: tiles_x": lambda: fn.clahe(images(), tiles_x=HUGE, tiles_y=1, clip_limit=1.0),
    "clahe: tiles_y": lambda: fn.clahe(images(), tiles_x=1, tiles_y=HUGE, clip_limit=1.0),
    "clahe: tiles": lambda: fn.clahe(images(), tiles_x=4096, tiles_y=4096, clip_limit=1.0),
    "readers.caffe2: num_labels": lambda: USES["readers.caffe2"](label_type=2, num_labels=HUGE)[0],
    "readers.sequence: sequence_length": lambda: USES["readers.sequence"](sequence_length=HUGE),
    "inputs.video: sequence_length": lambda: fn.inputs.video(sequence_length=HUGE, name="v"),
}
"""Uses that are right but for one argument."""

IMAGE = np.zeros((4, 5, 3), np.uint8)


def loop(**arguments):
    """Return a Numba loop with specific ranks."""

    def copy(out, data):
        out[:] = data

    kinds = {"in_types": [types.UINT8], "out_types": [types.UINT8], "ins_ndim": [3], "outs_ndim": [3]}
    return fn.numba_function(images(), run_fn=copy, **{**kinds, **arguments})


@pytest.fixture(autouse=True, scope="module")
def elsewhere(tmp_path_factory):
    """Run in a temporary folder, because some operators write files."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("written"))
    folder()
    yield
    os.chdir(before)


@pytest.mark.parametrize("name", LIMITED)
def test_sizes_are_limited_while_tracing(name):
    with pytest.raises(DefinitionError, match=r"out of range|too many tiles") as caught:
        pipeline(LIMITED[name])
    assert re.search(r"(test_limits|right_uses)\.py:\d", str(caught.value))


def counts(hint, limited=False):
    """Return True if an annotation has integers without a limit, or with one."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return counts(inside[0], limited or any(isinstance(mark, Range) and mark.high < HUGE for mark in inside[1:]))
    if origin in (typing.Required, typing.NotRequired):
        return counts(inside[0], limited)
    if origin in (typing.Union, python.UnionType, Sequence, tuple, list):
        return any(counts(part, limited) for part in inside)
    return hint is int and not limited


REASONS = {
    "a hint, without effect": {
        "additional_decode_surfaces", "bytes_per_sample_hint", "cache_size", "cache_threshold",
        "device_memory_padding", "device_memory_padding_jpeg2k", "host_memory_padding", "host_memory_padding_jpeg2k",
        "hybrid_huffman_threshold", "initial_fill", "minibatch_size", "preallocate_height_hint",
        "preallocate_width_hint", "prefetch_queue_depth", "temp_buffer_hint", "tensor_init_bytes", "reset_interval",
    },
    "a seed, or a place among what there is": {
        "seed", "shuffle_after_epoch_seed", "shard_id", "num_shards", "axes", "axis", "roi_axes", "src_dims", "perm",
        "new_order", "indices", "in_ids", "element_map", "hdu_indices", "frames", "start_frame", "end_frame", "stride",
        "anchor", "blue_position", "ddof", "epoch_size", "roi_start", "roi_end", "in_anchors", "out_anchors",
    },
    "a value, a flag or one of a few": {
        "background", "classes", "foreground", "idata", "value", "threshold", "keys", "depthwise",
        "flip_x", "flip_y", "flip_z", "horizontal", "vertical", "mirror", "mask", "channels", "labels",
        "image_type", "interp", "interp_type", "n_channels",
        "quality", "k_largest", "additional_inputs",
    },
    "bounded by the memory of the machine, or by the most pixels of an image": {
        "align", "crop_shape", "in_shape", "input_shape", "max_boxes", "num_classes", "out_length", "output_size",
        "roi_shape", "sequence_length", "shape", "shapes", "size",
    },
    "a limit on bytes": {"limit", "memory"},
    "bounded by the data": {"max_size", "tile", "window_length"},
    "bounded by the operator's schema": {"mask_size", "smoothing_size", "window_size"},
}  # fmt: skip
"""Why a whole number needs no limit in the signature."""


def hints_of(name):
    return {**group_hints(CommonArguments), **type_hints(inspect.unwrap(lookup(name)))}


def test_every_integer_argument_has_limit_or_reason():
    unlimited = {
        argument
        for name in OPERATORS
        for argument, hint in hints_of(name).items()
        if argument in names_of(lookup(name)) and counts(hint)
    }
    assert unlimited == set().union(*REASONS.values())


def numeric(hint):
    """Return True if an annotation contains a number."""
    return hint is int or hint is float or any(map(numeric, typing.get_args(hint)))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_huge_number_is_refused_or_harmless(name):
    hints = hints_of(name)
    for argument in names_of(lookup(name)):
        if numeric(hints[argument]):
            for value in (HUGE, [HUGE], [HUGE, HUGE]):
                check(lambda argument=argument, value=value: used(name, {argument: value}).run())


def test_too_long_resampled_audio_is_refused():
    """The sample rate of a file comes from its header, which may be wrong."""
    with pytest.raises(ValueError, match="samples, more than the"):
        resample(np.zeros(100, np.float32), 1e-8, 10**10, 50.0)
    soundfile = pytest.importorskip("soundfile", reason="it writes the sound file (extra audio)")
    file = io.BytesIO()
    soundfile.write(file, np.zeros(1000), 1, format="WAV")
    one = pipeline(lambda: fn.decoders.audio(each(np.frombuffer(file.getvalue(), np.uint8)), sample_rate=1e7)[0])
    with pytest.raises(SampleError, match="samples, more than the"):
        one.run()


@pytest.mark.parametrize("arguments", [{"ratio": 1e9}, {"ratio": 1.0, "min_canvas_size": 1e9}])
def test_canvas_size_is_limited(arguments):
    one = pipeline(lambda: fn.paste(images(), fill_value=0, **arguments))
    with pytest.raises(SampleError, match="the canvas has more than"):
        one.run()
