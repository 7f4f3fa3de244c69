"""Photographs: decoders, crops, resizing, and the window arithmetic, as DALI on the CPU does them."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import penstock
from penstock import fn, types

RNG = np.random.default_rng(7)
NOISE = RNG.integers(0, 256, (2, 24, 31, 3), np.uint8)
SMOOTH = [
    np.asarray(Image.fromarray(RNG.integers(0, 256, (6, 8, 3), np.uint8)).resize(size, Image.Resampling.BICUBIC))
    for size in ((96, 64), (61, 83))
]
FLOATS = [image.astype(np.float32) / 16 - 3 for image in SMOOTH]
HWC = ("HWC",)
SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "imagenet400"


def encoded(image, kind, mode="RGB", **options):
    file = io.BytesIO()
    Image.fromarray(image).convert(mode).save(file, kind, **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def turned(orientation, kind="JPEG"):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(SMOOTH[0], kind, exif=exif)


JPEGS = {
    "baseline": encoded(SMOOTH[0], "JPEG"),
    "progressive": encoded(SMOOTH[1], "JPEG", progressive=True),
    "4:4:4": encoded(SMOOTH[1], "JPEG", subsampling=0, quality=95),
    "4:2:2": encoded(SMOOTH[1], "JPEG", subsampling=1),
    "grey": encoded(SMOOTH[1], "JPEG", "L"),
    "restarts": encoded(SMOOTH[0], "JPEG", restart_marker_rows=1),
} | {f"orientation {number}": turned(number) for number in range(2, 9)}
SIXTEEN = (RNG.integers(0, 65536, (20, 30))).astype(np.uint16)
SIXTEEN_FILE = io.BytesIO()
Image.fromarray(SIXTEEN).save(SIXTEEN_FILE, "PNG")
OTHERS = {
    "PNG": encoded(SMOOTH[0], "PNG"),
    "PNG, grey": encoded(SMOOTH[0], "PNG", "L"),
    "PNG, palette": encoded(SMOOTH[0], "PNG", "P"),
    "PNG, alpha": encoded(np.dstack([SMOOTH[0], SMOOTH[0][..., :1]]), "PNG", "RGBA"),
    "PNG, one bit": encoded(SMOOTH[0], "PNG", "1"),
    "PNG, 16 bits": np.frombuffer(SIXTEEN_FILE.getvalue(), np.uint8),
    "PNG, turned": turned(6, "PNG"),
    "BMP": encoded(SMOOTH[0], "BMP"),
    "TIFF": encoded(SMOOTH[0], "TIFF", compression="tiff_lzw"),
    "WebP": encoded(SMOOTH[0], "WEBP", quality=80),
    "WebP, lossless": encoded(SMOOTH[0], "WEBP", lossless=True),
    "PPM": encoded(SMOOTH[0], "PPM"),
    "JPEG 2000": encoded(SMOOTH[0], "JPEG2000"),
    "CMYK": encoded(SMOOTH[0], "JPEG", "CMYK"),
}


@pytest.mark.parametrize("kind", ["RGB", "BGR", "GRAY", "ANY_DATA"])
@pytest.mark.parametrize("name", JPEGS)
def test_jpegs_are_decoded_to_the_bit(agree, name, kind):
    if (name, kind) == ("grey", "ANY_DATA"):
        pytest.skip("DALI 2.4 ends with a segmentation fault here")
    agree(lambda d, x: d.fn.decoders.image(x, output_type=getattr(d.types, kind)), [JPEGS[name]])


@pytest.mark.parametrize("kind", ["RGB", "BGR", "GRAY", "ANY_DATA", "YCbCr"])
@pytest.mark.parametrize("name", OTHERS)
def test_other_formats_are_decoded_alike(agree, name, kind):
    if (name, kind) == ("CMYK", "ANY_DATA"):
        pytest.skip("DALI 2.4 cannot")
    off = 2 if name == "CMYK" and kind != "RGB" else 1
    agree(lambda d, x: d.fn.decoders.image(x, output_type=getattr(d.types, kind)), [OTHERS[name]], off=off)


@pytest.mark.parametrize("dtype", ["FLOAT", "UINT16", "INT16", "INT8", "UINT8"])
@pytest.mark.parametrize("data", [JPEGS["baseline"], OTHERS["PNG, 16 bits"]], ids=["8 bits", "16 bits"])
def test_decoded_dtypes(agree, data, dtype):
    agree(
        lambda d, x: d.fn.decoders.image(x, dtype=getattr(d.types, dtype), output_type=d.types.GRAY),
        [data],
        off=1,
        atol=1e-5,
    )


@pytest.mark.skipif(not SAMPLE.is_dir(), reason="the ImageNet sample is missing")
def test_imagenet_is_decoded_to_the_bit(agree):
    files = [np.fromfile(path, np.uint8) for path in sorted(SAMPLE.glob("*.JPEG"))[::8]]
    agree(lambda d, x: d.fn.decoders.image(x), files)


def test_cropped_decoding(agree):
    data = [JPEGS["baseline"], JPEGS["orientation 6"], OTHERS["PNG"]]
    agree(lambda d, x: d.fn.decoders.image_crop(x, crop=(40, 50), crop_pos_x=0.3, crop_pos_y=0.9), data)
    agree(lambda d, x: d.fn.decoders.image_crop(x, crop_h=33, crop_w=17, rounding="truncate"), data)
    agree(lambda d, x: d.fn.decoders.image_crop(x), data)


def test_sliced_decoding(agree):
    data = [JPEGS["baseline"], JPEGS["orientation 6"], OTHERS["PNG"]]
    places = np.array([[0.1, 0.2], [0.0, 0.5], [0.33, 0.25]], np.float32)
    agree(lambda d, x, a: d.fn.decoders.image_slice(x, a, 1 - a), data, places)
    agree(lambda d, x: d.fn.decoders.image_slice(x, start=[3, 5], end=[20, 31]), data)
    agree(lambda d, x: d.fn.decoders.image_slice(x, rel_start=[0.5], shape=[7], axes=[0]), data)


@pytest.mark.parametrize("adjust", [True, False])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_every_orientation_in_every_format(agree, kind, adjust):
    data = [turned(orientation, kind) for orientation in range(1, 9)]
    agree(lambda d, x: d.fn.decoders.image(x, adjust_orientation=adjust), data, off=1)
    agree(lambda d, x: d.fn.peek_image_shape(x, adjust_orientation=adjust), data)


def test_shapes_are_peeked(agree):
    data = [JPEGS["baseline"], JPEGS["orientation 6"], OTHERS["PNG, alpha"], JPEGS["grey"], OTHERS["PNG"]]
    agree(lambda d, x: d.fn.peek_image_shape(x), data)
    agree(lambda d, x: d.fn.peek_image_shape(x, adjust_orientation=False, dtype=d.types.INT32), data)


SIZES = [
    dict(size=40),
    dict(size=[40, 0]),
    dict(size=[100, 200]),
    dict(size=[0, 0]),
    dict(size=[-40, 50]),
    dict(size=[0.3, 50]),
    dict(size=[40, 50], mode="not_larger"),
    dict(size=[40, 50], mode="not_smaller"),
    dict(size=[40, 50], mode="not_smaller", max_size=50),
    dict(size=[40, 0], mode="not_larger", max_size=30),
    dict(size=[40, 0], max_size=30),
    dict(size=[100, 200], max_size=[80, 300]),
    dict(size=[100, 200], max_size=[80, 300], mode="stretch"),
    dict(resize_shorter=30),
    dict(resize_shorter=100, max_size=120),
    dict(resize_shorter=33.3),
    dict(resize_longer=50),
    dict(resize_longer=200),
    dict(resize_x=50),
    dict(resize_x=50, mode="stretch"),
    dict(resize_x=-50.5),
    dict(resize_y=20, resize_x=50),
    dict(resize_y=20, mode="not_larger"),
    dict(resize_shorter=31, subpixel_scale=False),
    dict(size=[40, 50], roi_start=[10, 5], roi_end=[50, 30]),
    dict(size=[40, 50], roi_start=[50, 5], roi_end=[10.5, 30]),
    dict(resize_shorter=20, roi_start=[0.1, 0.2], roi_end=[0.9, 1.1], roi_relative=True),
    dict(size=1e-10),
    dict(size=0.11, mode="not_larger"),
    dict(resize_x=-0.02, resize_y=3),
]
FILTERS = ["INTERP_NN", "INTERP_LINEAR", "INTERP_CUBIC", "INTERP_LANCZOS3", "INTERP_TRIANGULAR", "INTERP_GAUSSIAN"]


@pytest.mark.parametrize("arguments", SIZES, ids=str)
def test_every_way_of_giving_a_size(agree, arguments):
    agree(lambda d, x: d.fn.resize(x, **arguments), SMOOTH, layouts=HWC, off=1)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("size", [(17, 22), (128, 192), (64, 192)], ids=str)  # no pixel exactly between two others
def test_every_filter(agree, kind, antialias, size):
    def define(d, x):
        return d.fn.resize(x, size=size, interp_type=getattr(d.types, kind), antialias=antialias)

    agree(define, SMOOTH, layouts=HWC, off=1)
    if kind != "INTERP_NN":
        agree(define, NOISE, layouts=HWC, off=1)
        agree(define, FLOATS, layouts=HWC, rtol=1e-5, atol=1e-5 * 13)
    agree(lambda d, x: d.fn.cast(define(d, x), dtype=d.types.INT16), NOISE.astype(np.int16), layouts=HWC, off=1)


def test_filters_for_shrinking_and_growing(agree):
    agree(
        lambda d, x: d.fn.resize(
            x, size=[30, 200], min_filter=d.types.INTERP_CUBIC, mag_filter=d.types.INTERP_NN, dtype=d.types.FLOAT
        ),
        SMOOTH,
        layouts=HWC,
        rtol=1e-5,
        atol=1e-3,
    )


def test_resized_layouts(agree):
    planar = [np.ascontiguousarray(image.transpose(2, 0, 1)) for image in SMOOTH]
    agree(lambda d, x: d.fn.resize(x, size=[20, 30]), planar, layouts=("CHW",), off=1)
    agree(lambda d, x: d.fn.resize(x, resize_longer=30), [NOISE, NOISE[:1]], layouts=("FHWC",), off=1)
    agree(lambda d, x: d.fn.resize(x, size=[3, 20, 30]), [NOISE, NOISE[:1]], layouts=("DHWC",), off=1)


def test_sizes_per_sample(agree):
    sizes = np.array([[20, 30], [90, 0]], np.float32)
    agree(lambda d, x, s: d.fn.resize(x, size=s), SMOOTH, sizes, layouts=("HWC", ""), off=1)
    agree(lambda d, x, s: d.fn.resize(x, resize_shorter=s), SMOOTH, sizes[:, 0], layouts=("HWC", ""), off=1)
    agree(lambda d, x: d.fn.resize(x, size=[9, 8], save_attrs=True)[1], SMOOTH, layouts=HWC)


WINDOWS = [
    ((56, 69), (47, 56), (47, 46), 3),
    ((84, 48), (44, 81), (26, 21), 1),
    ((6, 52), (49, 119), (10, 113), 0),
    ((21, 17), (41, 33), (9, 30), 2),
    ((77, 86), (83, 104), (20, 70), 3),
]


@pytest.mark.parametrize(("size", "wanted", "crop", "mirror"), WINDOWS)
@pytest.mark.parametrize("name", ["INTERP_NN", "INTERP_GAUSSIAN"])
def test_places_between_pixels_of_windows_that_are_resized(agree, name, size, wanted, crop, mirror):
    def define(d, x):
        filters = [{"interp_type": getattr(d.types, name), "antialias": antialias} for antialias in (True, False)]
        windows = [{"size": wanted, "crop": crop, "mirror": mirror, **each} for each in filters]
        region = {"size": crop, "roi_start": [0.3, 0.9], "roi_end": [0.8, 0.1], "roi_relative": True}
        return tuple(d.fn.resize_crop_mirror(x, **each) for each in windows) + tuple(
            d.fn.resize(x, **region, **each) for each in filters
        )

    agree(define, [np.random.default_rng(3).integers(0, 256, (*size, 3), np.uint8)], layouts=("HWC",), off=1)


@pytest.mark.parametrize("mirror", [0, 1, 2, 3])
def test_resize_crop_mirror(agree, mirror):
    def define(d, x):
        return d.fn.resize_crop_mirror(x, resize_shorter=41, crop=(30, 40), mirror=mirror, crop_pos_x=0.3)

    agree(define, SMOOTH, layouts=HWC, off=1)


def test_evaluation_pipeline(agree):
    def define(d, x):
        images = d.fn.resize(d.fn.decoders.image(x), resize_shorter=50)
        return d.fn.crop_mirror_normalize(
            images, crop=(44, 44), mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4], mirror=1
        )

    data = [JPEGS["baseline"], JPEGS["progressive"], OTHERS["PNG"]]
    agree(define, data, rtol=2e-3, atol=1.01 / 57.1)  # the resized bytes may be off by one


def test_windows_cut_from_images(agree):
    agree(lambda d, x: d.fn.crop(x, crop=(20, 30)), SMOOTH, layouts=HWC)
    agree(lambda d, x: d.fn.crop(x, crop_h=20, crop_w=30, crop_pos_y=0.77, dtype=d.types.FLOAT), SMOOTH, layouts=HWC)
    agree(lambda d, x: d.fn.crop(x, crop=(99, 9), out_of_bounds_policy="trim_to_shape"), SMOOTH, layouts=HWC)
    agree(
        lambda d, x: d.fn.crop(x, crop=(99, 9), out_of_bounds_policy="pad", fill_values=[1, 2, 3]), SMOOTH, layouts=HWC
    )


SLICES = [
    dict(start=[1, 2], end=[13, 14], axes=[0, 1]),
    dict(start=[1, 2], shape=[12, 13], axis_names="HW"),
    dict(rel_start=[0.53, 0.27], rel_shape=[0.31, 0.49]),
    dict(rel_start=[0.5, 0.25], rel_end=[1.0, 0.55], axis_names="HW"),
    dict(end=[2], axes=[-1]),
    dict(start=[1, 1], rel_shape=[0.33, 0.57], axis_names="HW"),
    dict(start=[2], end=[99], axes=[0], out_of_bounds_policy="pad", fill_values=7),
    dict(start=[-5, -3], shape=[99, 9], axis_names="HW", out_of_bounds_policy="pad", fill_values=[1, 2, 3]),
    dict(start=[2], end=[99], axes=[0], out_of_bounds_policy="trim_to_shape"),
    dict(start=[1], axes=[0], dtype=types.FLOAT),
]


@pytest.mark.parametrize("arguments", SLICES, ids=str)
def test_slices(agree, arguments):
    agree(lambda d, x: d.fn.slice(x, **{**arguments, **_dtype(d, arguments)}), SMOOTH, layouts=HWC)


def _dtype(library, arguments):
    return {"dtype": library.types.FLOAT} if "dtype" in arguments else {}


def test_slices_by_position(agree):
    places, sizes = np.float32([[0.27, 0.53], [0.1, 0.2]]), np.float32([[0.49, 0.31], [0.55, 0.77]])
    layouts = ("HWC", "", "")
    agree(lambda d, x, a, s: d.fn.slice(x, a, s), SMOOTH, places, sizes, layouts=layouts)
    agree(lambda d, x, a, s: d.fn.slice(x, a, s, axis_names="HW"), SMOOTH, places, sizes, layouts=layouts)
    whole = (np.int32([[2, 1], [5, 6]]), np.int32([[3, 9], [8, 7]]))
    agree(lambda d, x, a, s: d.fn.slice(x, a, s), SMOOTH, *whole, layouts=layouts)
    floats = [bounds.astype(np.float32) for bounds in whole]
    agree(
        lambda d, x, a, s: d.fn.slice(x, a, s, normalized_anchor=False, normalized_shape=False),
        SMOOTH,
        *floats,
        layouts=layouts,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        dict(axes=[0], fill_value=7),
        dict(fill_value=2.7),
        dict(shape=[100, 100, 3]),
        dict(shape=[-1, 100, -1]),
        dict(align=4),
        dict(axes=[0, 1], align=[16, 5], shape=[3, 3]),
        dict(axis_names="W", align=[7]),
        dict(axes=[-1], shape=[5]),
    ],
    ids=str,
)
def test_padding(agree, arguments):
    agree(lambda d, x: d.fn.pad(x, **arguments), SMOOTH, layouts=HWC)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        dict(axes=[0, 1]),
        dict(axis_names="C", ddof=1),
        dict(epsilon=0.5, scale=3, shift=1),
        dict(mean=100.0),
        dict(stddev=2.0, epsilon=1.0),
        dict(mean=100.0, stddev=2.0),
        dict(mean=np.float32([[[100, 101, 102]]])),
        dict(dtype=types.UINT8, scale=40, shift=128),
        dict(batch=True),
        dict(batch=True, axes=[0, 1], ddof=1),
    ],
    ids=str,
)
def test_normalize(agree, arguments):
    def define(d, x):
        return d.fn.normalize(x, **(arguments | ({"dtype": d.types.UINT8} if "dtype" in arguments else {})))

    agree(define, SMOOTH, layouts=HWC, off=1, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
@pytest.mark.parametrize(
    "define",
    [
        lambda d, x: d.fn.rotate(x, angle=20, fill_value=3),
        lambda d, x: d.fn.resize_crop_mirror(x, size=[30, 40], crop=(20, 10), mirror=1),
        lambda d, x: d.fn.crop_mirror_normalize(x, crop=(20, 10), mean=[10.0, 20.0, 30.0], std=[2.0], mirror=1),
        lambda d, x: d.fn.normalize(x, axes=[0, 1]),
        lambda d, x: d.fn.normalize(x, axes=[0, 1], mean=np.float32([[[100, 101, 102]]]), scale=3.0),
        lambda d, x: d.fn.multi_paste(
            x, in_ids=np.int32([1, 0]), shapes=np.int32([[9, 8]] * 2), out_anchors=np.int32([[0, 0], [4, 5]])
        ),
        lambda d, x: d.fn.pad(x, axes=[0, 1], align=[50, 40]),
    ],
    ids=["rotate", "resize_crop_mirror", "crop_mirror_normalize", "normalize", "mean", "multi_paste", "pad"],
)
def test_other_dtypes(agree, define, dtype):
    images = [image[:40, :50].astype(dtype) for image in NOISE]
    agree(define, images, layouts=HWC, off=1, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    "arguments",
    [dict(perm=[2, 0, 1]), {}, dict(output_layout="ABC"), dict(perm=[1, 0, 2], transpose_layout=False)],
    ids=str,
)
def test_transpose(agree, arguments):
    agree(lambda d, x: d.fn.transpose(x, **arguments), SMOOTH, layouts=HWC)


def _moments(values):
    values = np.asarray(values, np.float64)
    return values.mean(0), values.std(0) / np.sqrt(len(values))


@pytest.mark.parametrize(
    "arguments",
    [{}, dict(random_area=[0.3, 0.6], random_aspect_ratio=[0.5, 3.0]), dict(random_aspect_ratio=[3.0, 4.0])],
    ids=str,
)
def test_random_windows_have_the_same_distribution(both, arguments):
    """An image whose pixels tell where they were, so that a window shows its place and size."""
    rows, columns = np.mgrid[0:120, 0:90].astype(np.uint8)
    file = encoded(np.dstack([rows, columns, rows * 0]), "PNG")
    count = 2000

    def define(d, x):
        return d.fn.decoders.image_random_crop(x, seed=11, **arguments)

    windows = [
        [(x[0, 0, 0], x[0, 0, 1], x.shape[0], x.shape[1]) for x in side]
        for (side,) in both(define, [file] * count, rows=count)
    ]
    (ours, our_error), (theirs, their_error) = map(_moments, windows)
    assert (abs(ours - theirs) < 4.5 * np.hypot(our_error, their_error)).all()
    for quantile in (0.1, 0.5, 0.9):  # not only the means
        a, b = (np.quantile(np.asarray(side, np.float64), quantile, axis=0) for side in windows)
        assert (abs(a - b) <= 6).all()


def test_random_resized_crop_has_the_same_distribution(both):
    ramp = np.broadcast_to(np.linspace(0, 100, 90, dtype=np.float32)[None, :, None], (120, 90, 1)).copy()
    count = 2000
    sides = both(lambda d, x: d.fn.random_resized_crop(x, size=[4, 4], seed=5), [ramp] * count, layouts=HWC)
    (ours, our_error), (theirs, their_error) = (_moments([x[0, [0, -1], 0] for x in side]) for (side,) in sides)
    assert (abs(ours - theirs) < 4.5 * np.hypot(our_error, their_error)).all()


def test_normal_draws_have_the_same_distribution(both):
    count = 4000
    sides = both(lambda d, x: d.fn.random.normal(mean=3.0, stddev=2.0, seed=5) + x * 0, np.zeros(count, np.float32))
    for (side,) in sides:
        values = np.asarray(side)
        assert abs(values.mean() - 3) < 0.15
        assert abs(values.std() - 2) < 0.1


def test_a_crop_larger_than_the_resized_image_is_an_error():
    """DALI resamples what lies beyond the edge."""
    with penstock.Pipeline(1):
        images = fn.readers.arrays(NOISE[:1], layout="HWC")
        with pytest.raises(penstock.errors.DefinitionError, match="larger than the image"):
            fn.resize_crop_mirror(images, size=[4, 4], crop=[5, 5])


def test_statistics_from_nodes_tell_the_axes(agree):
    means = np.float32([[[[100, 101, 102]]], [[[90, 80, 70]]]])
    agree(lambda d, x, m: d.fn.normalize(x, mean=m), SMOOTH, means, layouts=("HWC", ""), rtol=2e-3, atol=1e-4)
    agree(lambda d, x, m: d.fn.normalize(x, stddev=m), SMOOTH, means, layouts=("HWC", ""), rtol=2e-3, atol=1e-4)


def test_four_axes_without_names(agree):
    """Frames to some operators, depth to others, as in DALI."""
    clips = [NOISE, NOISE[:1]]
    agree(lambda d, x: d.fn.resize(x, resize_shorter=20), clips, off=1)
    agree(lambda d, x: d.fn.flip(x, horizontal=0, vertical=1), clips)
    agree(lambda d, x: d.fn.resize_crop_mirror(x, size=[20, 30], crop=[10, 9]), clips, off=1)
    agree(lambda d, x: d.fn.crop(x, crop=(1, 20, 20)), clips)
    agree(lambda d, x: d.fn.crop(x, crop=(20, 20)), clips, layouts=("DHWC",))
    agree(lambda d, x: d.fn.crop(x, crop=(0, 20)), SMOOTH, layouts=HWC)


def test_windows_per_sample(agree):
    places, sizes = np.float32([[0.2], [0.9]]), np.float32([[20], [31]])
    layouts = ("HWC", "")
    agree(lambda d, x, p: d.fn.crop(x, crop=(20, 20), crop_pos_x=p), SMOOTH, places, layouts=layouts)
    agree(lambda d, x, p: d.fn.crop(x, crop_h=p, crop_w=p), SMOOTH, sizes, layouts=layouts)
    data = [JPEGS["baseline"], JPEGS["progressive"]]
    agree(lambda d, x, p: d.fn.decoders.image_crop(x, crop=(20, 20), crop_pos_x=p), data, places)
    agree(
        lambda d, x, p: d.fn.crop_mirror_normalize(
            d.fn.resize(d.fn.decoders.image(x), resize_shorter=40), crop=(21, 22), crop_pos_x=p, std=255.0
        ),
        data,
        places,
        rtol=2e-3,
        atol=1.01 / 255,
    )


def test_padding_per_sample(agree):
    steps = np.int32([[16, 32], [8, 4]])
    agree(lambda d, x, a: d.fn.pad(x, align=a, axes=[0, 1]), SMOOTH, steps, layouts=("HWC", ""))
    agree(lambda d, x: d.fn.pad(x, axes=[]), SMOOTH, layouts=HWC)
    agree(lambda d, x: d.fn.pad(x, axis_names="", align=[], shape=[]), SMOOTH, layouts=HWC)


def test_fill_per_channel_of_planes(agree):
    planes = [np.ascontiguousarray(image.transpose(2, 0, 1)) for image in SMOOTH]
    agree(
        lambda d, x: d.fn.slice(
            x, start=[-3, -3], shape=[20, 20], axis_names="HW", out_of_bounds_policy="pad", fill_values=[1, 2, 3]
        ),
        planes,
        layouts=("CHW",),
    )
    agree(lambda d, x: d.fn.slice(x, start=[1, 2], shape=[5, 5]), SMOOTH)


def test_a_size_of_zero_leaves_the_image(agree):
    agree(lambda d, x: d.fn.resize(x, size=0), SMOOTH, layouts=HWC)
    agree(lambda d, x: d.fn.resize(x, resize_shorter=0.0), SMOOTH, layouts=HWC)
