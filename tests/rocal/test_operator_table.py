"""The names: everything that rocAL has is mapped, or refused by name, and the table agrees with the operators."""

from enum import Enum

import pytest

import penstock.rocal.types as rocal_types
from penstock import types
from penstock.errors import ArgumentTypeError, UnknownNameError
from penstock.graph.tracing import registry
from penstock.graph.tracing.registry import registered
from penstock.rocal import fn, pipeline
from penstock.rocal.operator_table import OPERATORS, call
from penstock.rocal.types import data_type_function

# what rocAL has, by its own indices (July 2025)
NAMES = {
    "readers": "coco file tfrecord caffe caffe2 video video_resize sequence_reader mxnet webdataset numpy cifar10",
    "decoders": "image image_raw image_random_crop image_slice audio",
    "random": "coin_flip uniform normal",
    "": "blend snow exposure fish_eye fog brightness brightness_fixed lens_correction blur contrast flip"
    " gamma_correction hue jitter pixelate rain resize resize_crop_mirror resize_crop roi_resize"
    " resize_mirror_normalize random_crop rotate saturation ssd_random_crop warp_affine vignette"
    " crop_mirror_normalize center_crop crop color_twist uniform random_bbox_crop one_hot box_encoder"
    " color_temp nop copy snp_noise box_iou_matcher external_source preemphasis_filter spectrogram to_decibels"
    " resample tensor_add_tensor_float tensor_mul_scalar_float nonsilent_region slice normalize"
    " mel_filter_bank transpose log1p python_function",
}
TYPES = """OK CONTEXT_INVALID RUNTIME_ERROR UPDATE_PARAMETER_FAILED INVALID_PARAMETER_TYPE GPU CPU FLOAT FLOAT16 UINT8
INT16 HOST_MEMORY DEVICE_MEMORY PINNED_MEMORY MAX_SIZE USER_GIVEN_SIZE MOST_FREQUENT_SIZE MAX_SIZE_ORIG
USER_GIVEN_SIZE_ORIG RGB BGR GRAY RGB_PLANAR NONE NHWC NCHW NFHWC NFCHW NHW NDHWC NCDHW NFT NTF HARDWARE_DECODE
SOFTWARE_DECODE DECODER_TJPEG DECODER_OPENCV DECODER_VIDEO_FFMPEG_SW DECODER_AUDIO_GENERIC DECODER_VIDEO_ROCDECODE
DECODER_ROCJPEG SCALING_MODE_DEFAULT SCALING_MODE_STRETCH SCALING_MODE_NOT_SMALLER SCALING_MODE_NOT_LARGER
SCALING_MODE_MIN_MAX NEAREST_NEIGHBOR_INTERPOLATION LINEAR_INTERPOLATION CUBIC_INTERPOLATION LANCZOS_INTERPOLATION
GAUSSIAN_INTERPOLATION TRIANGULAR_INTERPOLATION EXTSOURCE_FNAME EXTSOURCE_RAW_COMPRESSED EXTSOURCE_RAW_UNCOMPRESSED
ZERO CLAMP REFLECT PAD TRIMTOSHAPE ERROR MELSCALE_SLANEY MELSCALE_HTK LAST_BATCH_FILL LAST_BATCH_DROP
LAST_BATCH_PARTIAL MISSING_COMPONENT_ERROR MISSING_COMPONENT_SKIP MISSING_COMPONENT_EMPTY"""
METHODS = """build run rocal_run set_outputs get_output_tensors get_handle set_seed create_int_param create_float_param
update_int_param update_float_param get_int_value get_float_value get_one_hot_encoded_labels get_image_labels
get_image_name get_image_name_length get_image_id get_bounding_box_count get_bounding_box_labels get_bounding_box_cords
get_ascii_datas get_mask_count get_mask_coordinates get_encoded_boxes_and_lables copy_encoded_boxes_and_lables
get_matched_indices get_img_sizes get_roi_img_sizes get_remaining_images get_last_batch_padded_size is_empty timing_info
rocal_reset_loaders rocal_release copyToExternalTensor serialize deserialize checkpoint"""


def full(part, name):
    return f"{part}.{name}" if part else name


ALL = {full(part, name) for part, names in NAMES.items() for name in names.split()}


def accepted(core):
    """The names of the arguments of one of penstock's operators."""
    return registry.lookup(core).argument_names


def test_every_operator_of_rocal_has_a_row():
    assert set(OPERATORS) == ALL


def complaints(name):
    """What is wrong with a row, now that penstock has the operators that it has."""
    row = OPERATORS[name]
    if name in registered() and not row.steps and not row.differs:
        yield f"penstock has fn.{name} now: give rocAL's fn.{name} its steps in penstock/rocal/operator_table.py"
    for step in row.steps:
        used = {argument.core for argument in step.arguments.values() if argument.core} | set(step.preset)
        if step.core not in registered():
            yield f"the row of rocAL's fn.{name} names fn.{step.core}, which penstock lacks"
        elif used - accepted(step.core):
            yield f"the row of rocAL's fn.{name}: fn.{step.core} has no {', '.join(used - accepted(step.core))}"


def test_the_rows_agree_with_the_operators():
    wrong = [complaint for name in OPERATORS for complaint in complaints(name)]
    assert not wrong, "\n".join(wrong)


def test_a_new_operator_asks_for_its_row(monkeypatch):
    monkeypatch.setattr("penstock.graph.tracing.registry._operators", {"fog": lambda x: x, "rain": lambda x: x})
    monkeypatch.setattr("penstock.graph.tracing.registry._homes", {})
    for name in ("fog", "rain"):
        assert list(complaints(name)) == [
            f"penstock has fn.{name} now: give rocAL's fn.{name} its steps in penstock/rocal/operator_table.py"
        ]
    assert "which penstock lacks" in next(complaints("resize"))


def test_every_name_is_there_or_refused_with_a_sentence():
    for name, row in OPERATORS.items():
        part, _, last = name.rpartition(".")
        module = getattr(fn, part) if part else fn
        assert row.offered == (last in dir(module))
        if row.offered:
            function = getattr(module, last)
            assert function.__name__ == last
            assert function.__doc__
        else:
            with pytest.raises(UnknownNameError, match=rf"fn\.{name} has no counterpart") as caught:
                getattr(module, last)
            assert "docs/how-to/extend/operators.md" in str(caught.value)


def test_what_rocal_has_not_is_proposed():
    with pytest.raises(AttributeError, match="'resize'"):
        fn.resizee  # noqa: B018  # it must raise
    with pytest.raises(AttributeError, match=r"readers\.cifar10"):
        fn.readers.cifar_10  # noqa: B018  # it must raise
    with pytest.raises(ArgumentTypeError, match="'resize_width'"):
        call("resize", None, resize_widht=3)


def test_the_types():
    members = {name for name, value in vars(rocal_types).items() if isinstance(value, Enum)}
    assert members == set(TYPES.split())
    assert all(data_type_function(getattr(rocal_types, name)) == name for name in TYPES.split())
    with pytest.raises(RuntimeError, match="no type"):
        data_type_function(types.FLOAT)


def test_the_methods_of_a_pipeline():
    made = pipeline.Pipeline(batch_size=2)
    for name in METHODS.split():
        if name in pipeline.REFUSED:
            with pytest.raises(UnknownNameError, match=name):
                getattr(made, name)
        else:
            assert callable(getattr(made, name))
    assert set(pipeline.REFUSED) <= set(METHODS.split())
    with pytest.raises(AttributeError, match="'nothing'"):
        made.nothing  # noqa: B018  # it must raise
