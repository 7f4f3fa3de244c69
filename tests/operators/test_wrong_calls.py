"""Wrong calls of all operators are refused by errors that name the operator and the argument.

The calls are drawn by `wrong_calls` from a seed. ``PENSTOCK_WRONG_CALLS=200000`` makes that many, with the seed
``PENSTOCK_WRONG_CALLS_SEED``; the default is a sample that takes some seconds.
"""

import os
import re
import warnings
from collections import Counter

import numpy as np
import pytest
from case_data import FILES, HWC, IMAGES
from wrong_calls import Call, calls, nodes_of

from penstock import Pipeline, fn, types
from penstock.errors import ArgumentTypeError, DefinitionError, InternalError, PenstockError
from penstock.graph.tracing.registry import lookup

COUNT = int(os.environ.get("PENSTOCK_WRONG_CALLS", "1200"))
SEED = int(os.environ.get("PENSTOCK_WRONG_CALLS_SEED", "1"))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Operators that write files do so in a folder of the test."""
    monkeypatch.chdir(tmp_path)


def refusal(call):
    """Return the error of a call, or None."""
    try:
        with Pipeline(4), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call.make(lookup(call.use.operator), nodes_of(call))
    except Exception as error:  # noqa: BLE001  # which errors are raised is what the test is about
        return error
    return None


def names_an_argument(call, error):
    return any(re.search(rf"\b{name}\b", str(error.args[0])) for name in call.changed)


@pytest.mark.slow
@pytest.mark.timeout(0 if COUNT > 10_000 else 300)
def test_refusals_name_the_operator_and_the_argument():
    refused, raw, nameless, without_argument = 0, [], [], []
    unchanged = {}  # messages of the uses that are refused as they are, for want of a file
    for call in calls(SEED, COUNT):
        error = refusal(call)
        if error is None:
            continue
        refused += 1
        if not isinstance(error, PenstockError) or isinstance(error, InternalError):
            raw.append(f"{call}: {error!r}")
            continue
        if not str(error).startswith(f"{lookup(call.use.operator).label}: "):
            nameless.append(f"{call}: {error}")
        if id(call.use) not in unchanged:
            own = refusal(Call(call.use, call.use.args, call.use.kwargs, ()))
            unchanged[id(call.use)] = None if own is None else own.args[0]
        if call.changed and error.args[0] != unchanged[id(call.use)] and not names_an_argument(call, error):
            without_argument.append(f"{call}: {error.args[0]}")
    print(f"seed {SEED}: {COUNT} calls, {refused} refused, {len(raw)} raw, {len(without_argument)} name no argument")
    assert refused > COUNT / 2
    assert not raw, "\n".join(raw)
    assert not nameless, "\n".join(nameless)
    # The rest name the other side of a conflict, such as the axes that a scalar in place of an image does not have.
    assert len(without_argument) <= 0.01 * refused, "\n".join(without_argument)


@pytest.mark.slow
def test_calls_are_repeatable():
    first, second = ([re.sub("0x[0-9a-f]*", "", str(call)) for call in calls(SEED, 200)] for _ in range(2))
    assert first == second
    changed = Counter(name for call in calls(SEED + 1, 400) for name in call.changed)
    assert len(changed) > 100


# Calls that DALI refuses, and the argument that the error must name.
BOXES, LABELS = np.zeros((4, 1, 4), np.float32), np.zeros((4, 1), np.int32)
WRONG = [
    (lambda x, _: fn.crop(x, crop=[3, 3], crop_h=0), "crop_h"),
    (lambda x, _: fn.crop(x, crop=[3, 3], crop_d=-1), "crop_d"),
    (lambda x, _: fn.crop_mirror_normalize(x, crop=[3, 3], crop_w=0), "crop_w"),
    (lambda x, _: fn.resize(x, size=[3, 3], resize_x=0), "resize_x"),
    (lambda x, _: fn.resize(x, size=[3, 3], resize_z=0), "resize_z"),
    (lambda x, _: fn.resize(x, resize_x=3, resize_shorter=0), "resize_shorter"),
    (lambda x, _: fn.resize(x, size=[]), "size"),
    (lambda x, _: fn.rotate(x, angle=10, size=[]), "size"),
    (lambda x, _: fn.rotate(x, angle=10, size=-3), "size"),
    (lambda x, _: fn.warp_affine(x), "matrix"),
    (lambda x, _: fn.warp_affine(x, matrix=[]), "matrix"),
    (lambda x, _: fn.warp_affine(x, matrix=[1, 0, 0, 0, 1, 0], size=[]), "size"),
    (lambda x, _: fn.warp_perspective(x, matrix=[1, 0, 0, 0, 1, 0, 0, 0, 1], size=[]), "size"),
    (lambda x, _: fn.nonsilent_region(x[:, 0, 0], reference_power=0), "reference_power"),
    (lambda x, _: fn.nonsilent_region(x[:, 0, 0], reference_power=-1.5), "reference_power"),
    (lambda x, _: fn.nonsilent_region(x[:, 0, 0], reset_interval=-3), "reset_interval"),
    (lambda x, _: fn.expand_dims(x, axes=-3), "axes"),
    (lambda x, _: fn.normalize(x, axes=[]), "axes"),
    (lambda x, _: fn.normalize(x, axes=-3), "axes"),
    (lambda x, _: fn.normalize(x, axes=[0, 1], mean=1, stddev=2.5), "axes"),
    (lambda x, _: fn.one_hot(fn.reshape(x, layout=""), num_classes=3, axis_name="F"), "axis_name"),
    (lambda x, _: fn.one_hot(x[0, 0, 0], num_classes=3, axis_name="FG"), "axis_name"),
    (lambda x, _: fn.crop(x, crop_h=3, crop_w=3, crop_d=fn.readers.arrays(np.ones((4, 3), np.int32))), "crop_d"),
    (lambda x, _: fn.reshape(x), "shape"),
    (lambda x, _: fn.reshape(x, rel_shape=[]), "rel_shape"),
    (lambda x, _: fn.reshape(x, shape=[5, 6, 3], src_dims=-3), "src_dims"),
    (lambda x, _: fn.reinterpret(x), "dtype"),
    (lambda x, _: fn.spectrogram(x[:, 0, 0], window_fn=-3), "window_fn"),
    (lambda _, y: fn.random_bbox_crop(y, total_num_attempts=-3), "total_num_attempts"),
    (lambda _, y: fn.random_bbox_crop(y, total_num_attempts=0), "total_num_attempts"),
    (lambda _, y: fn.box_encoder(y, LABELS[0], anchors=[0.1, 0.2]), "anchors"),
    (lambda _, y: fn.box_encoder(y, LABELS[0], anchors=[[0.1, 0.2]] * 2), "anchors"),
    (lambda x, _: fn.decoders.image_slice(FILES[0], end=-3), "end"),
    (lambda x, _: fn.cast(x, dtype=x), "dtype"),
    (lambda x, _: fn.crop_mirror_normalize(x, dtype=x), "dtype"),
    (lambda x, _: fn.cast(x, dtype=np.zeros(3)), "dtype"),
    (lambda x, _: fn.cast(x, dtype=types.INTERP_TYPE), "dtype"),
    (lambda x, _: fn.flip(x, seed="a"), "seed"),
    (lambda x, _: fn.reductions.sum(x, axes=np.uint8), "axes"),
    (lambda x, _: fn.flip([[1], 2]), "data"),
    (lambda x, _: fn.filter(x, None), "filter"),
    (lambda x, _: fn.crop(x, crop_d=2), "crop_h"),
    (lambda x, _: fn.permute_batch(x, indices=[]), "indices"),
    (lambda x, _: fn.normalize(x, axes=np.array("a")), "axes"),
    (lambda x, _: fn.normalize(x, axes=np.ndarray), "axes"),
    (lambda x, _: fn.to_decibels(x[:, 0, 0], reference=0), "reference"),
    (lambda x, _: fn.to_decibels(x[:, 0, 0], multiplier=0), "multiplier"),
    (lambda x, _: fn.nonsilent_region(x[:, 0, 0], reset_interval=0), "reset_interval"),
    (lambda x, _: fn.roi_random_crop(x, crop_shape=[-3, 2], roi_start=[0, 0], roi_end=[3, 3]), "crop_shape"),
    (lambda x, _: fn.shapes(x, dtype=types.INT32, type=types.INT32), "dtype"),
    (lambda x, _: fn.rotate(x, angle=3, dtype=types.FLOAT, output_dtype=types.FLOAT), "dtype"),
    (lambda x, _: fn.crop_mirror_normalize(x, dtype=types.FLOAT16, output_dtype=types.FLOAT), "dtype"),
    (lambda *_: fn.peek_image_shape(FILES[0], dtype=types.UINT8), "dtype"),
    (lambda *_: fn.one_hot(types.GRAY, num_classes=10), "data"),
    (lambda *_: fn.full(types.INT8, shape=[2]), "fill_value"),
    (lambda x, _: fn.reshape(x, src_dims=[0, 1, -1], rel_shape=[0.5, -1]), "rel_shape"),
    (lambda x, _: fn.reinterpret(x, dtype=types.FLOAT, src_dims=[-1, 0], rel_shape=-0.5), "rel_shape"),
    (lambda *_: fn.roi_random_crop(crop_shape=[], roi_start=[], roi_end=[]), "crop_shape"),
]


@pytest.mark.parametrize(("build", "argument"), WRONG, ids=range(len(WRONG)))
def test_calls_that_dali_refuses(build, argument):
    with Pipeline(4), pytest.raises((ArgumentTypeError, DefinitionError), match=r"^fn\.") as caught:
        build(fn.readers.arrays(IMAGES, layout=HWC[0]), fn.readers.arrays(BOXES))
    assert re.search(rf"\b{argument}\b", caught.value.args[0])
    assert "test_wrong_calls.py" in str(caught.value)


@pytest.mark.parametrize("divisor", [0, types.Constant(0), np.int32([1, 0, 2])], ids=str)
def test_integers_are_not_divided_by_a_constant_zero(divisor):
    with Pipeline(4):
        images = fn.readers.arrays(IMAGES, layout=HWC[0])
        for divide in (lambda: images // divisor, lambda: images % divisor):
            with pytest.raises(DefinitionError, match="divided by zero"):
                divide()
        images / divisor  # float32, which has an infinity: no error


@pytest.mark.parametrize("blur", [fn.gaussian_blur, fn.laplacian])
def test_filter_across_channels_is_mentioned(blur, caplog):
    """As in DALI, three axes without a layout are a volume."""
    with Pipeline(4):
        images, volumes = fn.readers.arrays(IMAGES), fn.readers.arrays(IMAGES[..., :1].repeat(6, -1))
        for data in (images, volumes, fn.reshape(images, layout="HWC")):
            blur(data, window_size=3)
    (record,) = caplog.records
    assert "layout='HWC'" in record.getMessage()
    assert "test_wrong_calls.py" in record.getMessage()
