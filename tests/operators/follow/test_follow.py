"""What follows an image goes where its pixels go: boxes and points that are drawn as pixels and sent the same way."""

import io

import numpy as np
import pytest
from PIL import Image
from pipeline_runs import run

from penstock import Pipeline, fn, types
from penstock.auto_aug import rand_augment
from penstock.errors import DefinitionError, SampleError
from penstock.image.describe.custom_pass import CustomPass
from penstock.image.describe.steps import CustomStep
from penstock.operators.follow.pixel_mapping import begin, mapped, moved

RNG = np.random.default_rng(3)
ROWS = 6
SIZES = [(40, 60), (64, 48), (50, 50), (33, 71), (60, 44), (41, 90)]
NEAREST = {"interp_type": types.INTERP_NN}


def box_in(number, height, width):
    """A box of whole pixels, left, top, right, bottom, some way from the border."""
    rng = np.random.default_rng(number)
    left, top = rng.integers(4, width // 2), rng.integers(4, height // 2)
    return left, top, rng.integers(left + 6, width - 3), rng.integers(top + 6, height - 3)


def drawn(number, height, width):
    """An image of zeros with the box in ones."""
    left, top, right, bottom = box_in(number, height, width)
    image = np.zeros((height, width, 1), np.uint8)
    image[top:bottom, left:right] = 1
    return image


def ends(mask):
    """Left, top, right, bottom of what is not zero; None where nothing is."""
    rows, columns = np.flatnonzero(mask.any(axis=(1, 2))), np.flatnonzero(mask.any(axis=(0, 2)))
    return (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1) if len(rows) else None


def uniform(low, high):
    return fn.random.uniform(range=[low, high])


def flips(x):
    return fn.flip(x, horizontal=fn.random.coin_flip(), vertical=fn.random.coin_flip())


CHAINS = {
    "crop": lambda x: fn.crop(x, crop=(30, 40), crop_pos_x=uniform(0, 1), crop_pos_y=uniform(0, 1)),
    "flip": flips,
    "pad": lambda x: fn.pad(x, axis_names="HW", shape=[80, 100]),
    "paste": lambda x: fn.paste(x, ratio=1.6, fill_value=0, paste_x=uniform(0, 1), paste_y=uniform(0, 1)),
    "slice": lambda x: fn.slice(x, uniform(0, 0.4), 0.5, axes=[0]),
    "normalise": lambda x: fn.crop_mirror_normalize(
        x, crop=(32, 24), mirror=fn.random.coin_flip(), crop_pos_x=uniform(0, 1), output_layout="HWC"
    ),
    "twice": lambda x: flips(fn.crop(flips(fn.crop(x, crop=(32, 40))), crop=(30, 20), crop_pos_x=uniform(0, 1))),
    "turn": lambda x: fn.rotate(x, angle=90 * fn.random.uniform(values=[0, 1, 2, 3]), fill_value=0, **NEAREST),
    "diagonal": lambda x: flips(fn.transpose(flips(x), perm=[1, 0, 2], transpose_layout=False)),
    "blur": lambda x: flips(fn.cast(fn.gaussian_blur(x, sigma=0.1), dtype=types.UINT8)),
}
"""Chains that pick pixels: the box around what is drawn is exact."""

RESIZING = {
    "resize": lambda x: fn.resize(x, size=(90, 77), **NEAREST),
    "shorter": lambda x: flips(fn.resize(x, resize_shorter=uniform(70, 120), **NEAREST)),
    "region": lambda x: fn.resize(
        x, size=(60, 80), roi_start=[0.1, 0.9], roi_end=[0.8, 0.2], roi_relative=True, **NEAREST
    ),
    "random": lambda x: fn.random_resized_crop(x, size=(64, 64), random_area=[0.4, 0.9], **NEAREST),
    "mirror": lambda x: fn.resize_crop_mirror(x, size=(90, 90), crop=(64, 64), mirror=1, **NEAREST),
    "rotate": lambda x: fn.rotate(x, angle=uniform(-40, 40), fill_value=0, **NEAREST),
    "perspective": lambda x: fn.warp_perspective(
        x, matrix=[0.9, 0.1, 2, 0.05, 0.8, 3, 0.001, 0.0005, 1], fill_value=0, size=(60, 70), **NEAREST
    ),
    "warp": lambda x: fn.warp_affine(x, matrix=[0.8, 0.1, 3, -0.2, 1.1, -4], size=(70, 60), fill_value=0, **NEAREST),
    "all": lambda x: fn.crop(
        fn.rotate(fn.resize(flips(x), size=(120, 120), **NEAREST), angle=uniform(-20, 20), fill_value=0, **NEAREST),
        crop=(100, 100),
    ),
}
"""Chains that resample: what is drawn may end a pixel away."""


def source(images):
    """Images of one size as they are, others encoded."""
    if isinstance(images, np.ndarray):
        return fn.readers.arrays(images, layout="HWC")
    return fn.decoders.image(fn.readers.arrays(encoded(images)), output_type=types.GRAY)


def encoded(images):
    files = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image.squeeze()).save(file, "PNG")
        files.append(np.frombuffer(file.getvalue(), np.uint8))
    most = max(map(len, files))
    return np.stack([np.pad(each, (0, most - len(each))) for each in files])


def images_of(sizes, *, dense):
    """Images and the boxes in them; of one size, where they are dense."""
    sizes = [sizes[0]] * len(sizes) if dense else sizes
    images = [drawn(n, *size) for n, size in enumerate(sizes)]
    return np.stack(images) if dense else images, np.float32([[box_in(n, *size)] for n, size in enumerate(sizes)])


def test_masks_follow_where_each_pixel_goes_its_own_way():
    images, _ = images_of(SIZES, dense=True)

    def define():
        made = fn.water(flips(source(images)), fill_value=0, **NEAREST)
        return made, fn.follow.masks(source(images), made)

    for image, mask in zip(*run(define, batch_size=ROWS, seed=5, placement="host"), strict=True):
        np.testing.assert_array_equal(mask, image)


def check(chains, dense, tolerance, placement="host"):
    images, boxes = images_of(SIZES, dense=dense)

    def define():
        made = [chain(source(images)) for chain in chains.values()]
        there = fn.readers.arrays(boxes)
        followed = [(x, *fn.follow.boxes(there, x, ltrb=True), fn.follow.masks(source(images), x)) for x in made]
        return tuple(value for each in followed for value in each)

    columns = run(define, batch_size=ROWS, seed=5, placement=placement)
    for number, name in enumerate(chains):
        kept = 0
        for image, box, valid, mask in zip(*columns[4 * number : 4 * number + 4], strict=True):
            seen = ends(image)
            np.testing.assert_array_equal(mask, image, err_msg=name)
            assert bool(valid[0]) == (seen is not None), name
            if seen is not None:
                kept += 1
                assert np.abs(box[0] - seen).max() <= tolerance + 1e-3, name
        assert kept >= ROWS // 2, name


@pytest.mark.parametrize("dense", [True, False])
def test_boxes_and_masks_go_where_pixels_go(dense):
    check(CHAINS, dense, 0)


@pytest.mark.parametrize("dense", [True, False])
def test_boxes_go_where_resampled_pixels_go(dense):
    check(RESIZING, dense, 2)


def test_they_follow_on_the_device():
    chains = {name: (CHAINS | RESIZING)[name] for name in ("normalise", "random", "rotate", "diagonal")}
    check(chains, True, 2, "device")


def test_a_perspective_is_followed():
    """A matrix of nine numbers, whose third row divides."""
    matrix = np.float32([[1.1, 0.2, -3, 0.1, 0.9, 2, 0.002, 0.001, 1]])
    images = np.array([[50, 60, 3]])
    steps = [CustomStep(Perspective(), list(images.T), (matrix,), np.dtype(np.uint8))]
    geometry = moved(begin(images, "HWC"), "HWC", steps)
    x, y = np.float32([[3, 20, 40]]), np.float32([[5, 30, 20]])
    forward = np.linalg.inv(matrix.reshape(3, 3).astype(np.float64)) @ np.stack([x[0], y[0], np.ones(3)])
    u, v, there = mapped(np, geometry[:, :15], x, y)
    np.testing.assert_allclose([u[0], v[0]], forward[:2] / forward[2], rtol=1e-6)
    assert there.all()
    g = geometry[0, 6:9]  # a point beyond the horizon: where what divides is negative
    assert not mapped(np, geometry[:, :15], np.float32([[-2 * g[2] / g[0]]]), np.float32([[0]]))[2].any()


class Perspective(CustomPass):
    """Says where its pixels come from; none are computed."""

    def source_map(self, terms):
        return terms[0]

    def run_host(self, *_):
        raise NotImplementedError

    trace_xla = run_host


def test_a_random_crop_while_decoding_is_not_drawn_again():
    images, boxes = images_of(SIZES, dense=False)
    points = np.stack([boxes[:, :, :2], boxes[:, :, 2:]], axis=2).reshape(ROWS, 2, 2)

    def define():
        files = fn.readers.arrays(encoded(images))
        made = fn.decoders.image_random_crop(files, output_type=types.GRAY, random_area=[0.5, 1.0])
        masks = fn.decoders.image(files, output_type=types.GRAY)
        placed = fn.follow.boxes(fn.readers.arrays(boxes), made, ltrb=True)
        return made, *placed, fn.follow.masks(masks, made), *fn.follow.points(fn.readers.arrays(points), made)

    for made, box, valid, mask, corners, inside in zip(
        *run(define, batch_size=ROWS, seed=5, placement="host"), strict=True
    ):
        seen = ends(made)
        np.testing.assert_array_equal(made, mask)
        assert valid[0] == (seen is not None)
        height, width = made.shape[:2]
        low, high = np.clip(corners, 0, [width, height])
        np.testing.assert_allclose(np.clip(np.concatenate([low, high]), 0, None), box[0] if valid[0] else [*low, *high])
        assert inside.tolist() == [bool((np.clip(p, 0, [width, height]) == p).all()) for p in corners]
        if valid[0]:
            np.testing.assert_array_equal(box[0], seen)


def test_each_sample_follows_its_own_branches():
    """As the pixels do, through conditions and through automatic augmentation, whose colours move nothing."""
    images, boxes = images_of(SIZES, dense=True)

    def define():
        x = source(images)
        x = fn.flip(x) if fn.random.coin_flip(dtype=types.BOOL) else fn.crop(x, crop=(38, 50))
        x = fn.resize(x, size=(96, 96), **NEAREST)
        coloured = fn.cast(fn.cat(x, x, x, axis=2) * 200, dtype=types.UINT8)
        made = rand_augment.rand_augment(coloured, n=2, m=12, fill_value=0, shape=(96, 96))
        there, _ = fn.follow.boxes(fn.readers.arrays(boxes), x, ltrb=True)
        masks = fn.follow.masks(source(images), x)
        followed = fn.follow.boxes(there, made, ltrb=True, since=coloured)
        return x, masks, there, *followed, fn.follow.masks(masks, made, since=coloured)

    for image, mask, before, box, valid, moved_mask in zip(
        *run(define, batch_size=ROWS, seed=5, placement="host", enable_conditionals=True), strict=True
    ):
        np.testing.assert_array_equal(image, mask)
        assert np.abs(before[0] - ends(image)).max() <= 1
        assert valid[0] == (ends(moved_mask) is not None)
        if valid[0]:
            assert np.abs(box[0] - ends(moved_mask)).max() <= 5  # what a shear leaves is no rectangle


SQUARES = np.float32([[[10, 10, 20, 20], [-5, 30, 3, 40], [30, 30, 50, 50], [5, 5, 5, 9]]])


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({}, [0, 1, 2]),
        ({"min_visible": 0.5}, [0]),
        ({"min_visible": 0.2}, [0, 1, 2]),
        ({"min_size": 4}, [0, 2]),
        ({"max_boxes": 2}, [0, 1]),
        ({"max_boxes": 6}, [0, 1, 2]),
    ],
)
def test_boxes_are_clipped_sorted_out_and_padded(arguments, kept):
    def define():
        images = fn.crop(fn.readers.arrays(np.zeros((ROWS, 60, 60, 1), np.uint8), layout="HWC"), crop=(40, 40))
        labels = fn.readers.arrays(np.int32([[1, 2, 3, 4]] * ROWS))
        boxes = fn.readers.arrays(np.repeat(SQUARES + 10, ROWS, axis=0))
        return fn.follow.boxes(boxes, images, labels, ltrb=True, **arguments)

    boxes, valid, labels = (output[0] for output in run(define, batch_size=ROWS, seed=5, placement="host"))
    most = arguments.get("max_boxes", 4)
    assert (boxes.shape, valid.tolist()) == ((most, 4), [n < len(kept) for n in range(most)])
    assert labels.tolist() == [n + 1 for n in kept] + [0] * (most - len(kept))
    np.testing.assert_array_equal(boxes[: len(kept)], np.clip(SQUARES[0, kept], 0, 40))
    assert not boxes[len(kept) :].any()


def test_relative_boxes_of_a_ragged_number():
    """Left, top, width and height as parts of the image, as albumentations and COCO have them, after a mirror."""
    boxes = [np.float32([[0.1, 0.2, 0.3, 0.4]] * n).reshape(n, 4) for n in (0, 1, 2, 3, 4, 5)]

    def define():
        images = fn.flip(
            fn.resize(fn.readers.arrays(np.zeros((ROWS, 60, 60, 1), np.uint8), layout="HWC"), size=(30, 40))
        )
        given = fn.external_source(source=lambda: boxes, ndim=2, dtype=types.FLOAT)
        return fn.follow.boxes(given, images, ratio=True, max_boxes=3)

    placed, valid = run(define, batch_size=ROWS, seed=5, placement="host")
    assert [each.sum() for each in valid] == [0, 1, 2, 3, 3, 3]
    np.testing.assert_allclose(placed[1][0], [0.6, 0.2, 0.3, 0.4], atol=1e-6)


def moves(x):
    return fn.python_function(x, function=lambda image: image[::2])


REFUSED = {
    "python_function": (lambda x: fn.follow.boxes(SQUARES[0], fn.flip(moves(x))), "through fn.python_function"),
    "reshape": (lambda x: fn.follow.points(SQUARES, fn.reshape(x, shape=[60, 30, 2], layout="HWC")), "fn.reshape"),
    "letters": (
        lambda x: fn.follow.boxes(SQUARES[0], fn.transpose(x, perm=[0, 2, 1], output_layout="HWC")),
        "letters of the layout do not stay with their axes",
    ),
    "water": (lambda x: fn.follow.points(SQUARES, fn.water(x)), "moves each pixel differently"),
    "mixed": (lambda x: fn.follow.masks(x, x * 0.5 + fn.flip(x) * 0.5), "mixes images"),
    "since": (
        lambda x: fn.follow.boxes(SQUARES[0], fn.flip(x), since=fn.flip(x)),
        "not derived from the images in since=",
    ),
    "vectors": (
        lambda x: fn.follow.boxes(SQUARES[0], fn.readers.arrays(np.zeros((1, 7)))),
        "images must have the axes H and W",
    ),
    "size": (lambda x: fn.follow.masks(fn.crop(x, crop=(9, 9)), fn.flip(x)), "must have the size of their images"),
    "dtype": (lambda x: fn.follow.masks(fn.cast(x, dtype=types.INT64), x), "data has an unsupported dtype"),
    "points": (lambda x: fn.follow.points(np.float32([[1], [2]]), x), "at least two numbers"),
    "ragged": (
        lambda x: fn.follow.boxes(
            fn.slice(fn.constant(SQUARES[0]), 0, fn.random.uniform(range=[1, 4]), axes=[0], normalized_shape=False), x
        ),
        "max_boxes=100",
    ),
    "part": (lambda x: fn.follow.boxes(SQUARES[0], x, min_visible=2), "min_visible is out of range"),
    "labels": (lambda x: fn.follow.boxes(SQUARES[0], x, 3), "one entry per box"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_at_the_users_line(name):
    build, said = REFUSED[name]
    with Pipeline(batch_size=1):
        images = fn.readers.arrays(np.zeros((1, 60, 60, 1), np.uint8), layout="HWC")
        with pytest.raises(DefinitionError) as caught:
            build(images)
    # Without the line of the call, which contains the expected text.
    assert said in caught.value.args[0]
    assert "test_follow.py" in str(caught.value.where)


def test_a_function_may_make_the_images_that_boxes_belong_to():
    images, boxes = images_of(SIZES, dense=True)

    def define():
        half = fn.python_function(source(images), function=lambda image: image[:, :40])
        made = fn.flip(fn.reshape(half, layout="HWC"))
        return made, *fn.follow.boxes(fn.readers.arrays(boxes), made, ltrb=True, since=made)

    for _, placed, valid in zip(*run(define, batch_size=ROWS, seed=5, placement="host"), strict=True):
        assert valid.size == 1
        assert placed.max() <= 40


def test_a_mask_of_another_size_is_named():
    images, _ = images_of(SIZES, dense=False)
    others = images[:2] + images[3:] + images[:1]

    def define():
        return fn.follow.masks(source(others), fn.flip(source(images)))

    with pytest.raises(SampleError, match="the mask is 33 x 71, and its image 50 x 50"):
        run(define, batch_size=ROWS, seed=5, placement="host")


@pytest.mark.parametrize(
    "names", [("turn", "paste", "slice", "flip", "pad"), ("slice", "turn", "blur", "turn", "slice", "paste")]
)
def test_chains_of_picking_operators_are_followed(names):
    images, boxes = images_of(SIZES, dense=False)

    def define():
        made = source(images)
        for name in names:
            made = CHAINS[name](made)
        return made, *fn.follow.boxes(fn.readers.arrays(boxes), made, ltrb=True), fn.follow.masks(source(images), made)

    for image, box, valid, mask in zip(*run(define, batch_size=ROWS, seed=5, placement="host"), strict=True):
        np.testing.assert_array_equal(mask, image)
        assert valid[0] == (ends(image) is not None)
        if valid[0]:
            assert np.abs(box[0] - ends(image)).max() < 1e-3


def affine(x):
    matrix = fn.transforms.scale(fn.transforms.translation(offset=[-40.0, -30.0]), scale=[1.2, 1.2])
    matrix = fn.transforms.translation(fn.transforms.rotation(matrix, angle=-10.0), offset=[44.0, 27.0])
    return fn.warp_affine(x, matrix=matrix, inverse_map=False, fill_value=0)


# What albumentations 2.0.8 made of two boxes and points of an image of 60 x 80. Its key points count from centres of
# pixels, ours from their corners: they went in less 0.5, which was added to its results; as they are into its Resize,
# which multiplies by the scale whatever it is given.
ALBUMENTATIONS = {
    "A.HorizontalFlip()": (
        lambda x: fn.flip(x),
        [[40, 5, 70, 30], [2, 20, 30, 55]],
        [[67.5, 7.25], [20, 40]],
    ),
    "A.VerticalFlip()": (
        lambda x: fn.flip(x, horizontal=0, vertical=1),
        [[10, 30, 40, 55], [50, 5, 78, 40]],
        [[12.5, 52.75], [60, 20]],
    ),
    "A.Crop(5, 4, 65, 50)": (
        lambda x: fn.slice(x, [4, 5], [46, 60], axis_names="HW"),
        [[5, 1, 35, 26], [45, 16, 60, 46]],
        [[7.5, 3.25], [55, 36]],
    ),
    "A.Resize(30, 120)": (
        lambda x: fn.resize(x, size=[30, 120]),
        [[15, 2.5, 60, 15], [75, 10, 117, 27.5]],
        [[18.75, 3.625], [90, 20]],
    ),
    "A.Rotate((20, 20))": (
        lambda x: fn.rotate(x, angle=20.0, keep_size=True, fill_value=0),
        [[3.259, 6.508, 40.0, 40.261], [45.977, 7.606, 80.0, 50.072]],
        [[6.377, 18.028], [62.214, 32.557]],
    ),
    "A.Affine(scale=1.2, rotate=10, translate_px={'x': 4, 'y': -3})": (
        affine,
        [[3.337, 0.0, 44.0, 33.251], [53.734, 7.264, 80.0, 54.46]],
        [[6.761, 5.845], [69.719, 34.65]],
    ),
}


@pytest.mark.parametrize(("chain", "boxes", "points"), ALBUMENTATIONS.values(), ids=ALBUMENTATIONS)
def test_boxes_and_points_go_where_albumentations_sends_them(chain, boxes, points):
    def define(images, boxes, points):
        images = chain(images)
        return fn.follow.boxes(boxes, images, ltrb=True)[0], fn.follow.points(points, images)[0]

    inputs = np.float32([[[10, 5, 40, 30], [50, 20, 78, 55]]]), np.float32([[[12.5, 7.25], [60, 40]]])
    outputs = run(define, np.zeros((1, 60, 80, 3), np.uint8), *inputs, layout=("HWC", "", ""))
    for output, expected in zip(outputs, (boxes, points), strict=True):
        np.testing.assert_allclose(output[0], expected, atol=2e-3)


MEANS = {"mean": [1.0, 2.0, 3.0], "std": [1.0, 2.0, 3.0]}

# Operators that check the number of channels, which is unknown while tracing.
OF_CHANNELS = {
    "normalize": lambda x: fn.crop_mirror_normalize(x, crop=(20, 24), mirror=1, output_layout="HWC", **MEANS),
    "planes": lambda x: fn.transpose(fn.crop_mirror_normalize(x, crop=(20, 24), **MEANS), perm=[1, 2, 0]),
    "slice": lambda x: fn.slice(flips(x), start=[3, 1], shape=[20, 2], axes=[0, 2]),
    "fill values": lambda x: fn.crop(x, crop=(80, 100), fill_values=[0.0, 0.0, 0.0], out_of_bounds_policy="pad"),
    "twice": lambda x: fn.crop_mirror_normalize(
        fn.crop(fn.resize(x, size=(50, 60), **NEAREST), crop=(40, 40)), **MEANS
    ),
    "warped": lambda x: fn.crop_mirror_normalize(
        fn.water(flips(x), fill_value=0, **NEAREST), crop=(20, 24), output_layout="HWC", **MEANS
    ),
}


@pytest.mark.parametrize("name", OF_CHANNELS)
@pytest.mark.parametrize("placement", ["host", "device"])
def test_masks_follow_images_whose_channels_are_unknown(name, placement):
    images = [np.repeat(drawn(n, *size), 3, axis=2) for n, size in enumerate(SIZES)]
    pairs = [(image, image[:, :, 0]) for image in images]

    def define():
        image, mask = fn.readers.items(pairs)
        made = OF_CHANNELS[name](image)
        return made, fn.follow.masks(mask, made)

    for image, mask in zip(*run(define, batch_size=ROWS, seed=5, placement=placement), strict=True):
        plane = image[..., 0] if image.shape[-1] <= 3 else image[0]
        # The first channel has a mean of 1 and a deviation of 1 if the image is normalized.
        np.testing.assert_array_equal(mask, plane - plane.min())


@pytest.mark.parametrize("value", [-1, 256, 2.6])
def test_a_fill_value_that_masks_cannot_have_is_refused(value):
    with Pipeline(batch_size=1):
        images, masks = fn.readers.items([(np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint8))])
        with pytest.raises(DefinitionError, match=r"(?s)fill_value must be a value of the masks.*from 0 to 255.*uint8"):
            fn.follow.masks(masks, fn.rotate(images, angle=20.0), fill_value=value)
        fn.follow.masks(masks, fn.rotate(images, angle=20.0), fill_value=255)
        fn.follow.masks(fn.cast(masks, dtype=types.FLOAT), fn.rotate(images, angle=20.0), fill_value=-0.5)


def test_refusals_of_padding_and_borders_name_a_way():
    with Pipeline(batch_size=1):
        images, masks = fn.readers.items([(np.zeros((4, 4, 3), np.uint8), np.zeros((4, 4), np.uint8))])
        with pytest.raises(DefinitionError, match=r"(?s)fn.pad: it may move pixels.*shape=1"):
            fn.follow.masks(masks, fn.pad(images, axis_names="HW", align=16))
        fn.follow.masks(masks, fn.pad(images, axis_names="HW", align=16, shape=1))
        with pytest.raises(DefinitionError, match=r"(?s)fn.crop: it may move pixels.*policy=\"pad\""):
            fn.follow.masks(masks, fn.crop(images, crop=(6, 6), out_of_bounds_policy="reflect"))
