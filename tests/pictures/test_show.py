"""Figures of batches: pixel values of the drawn images, and what is drawn on them."""

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import penstock
from penstock import Batch, data_iterator, fn, pipeline_def
from penstock.errors import ContextError, DefinitionError, MissingExtraError, UsageError
from penstock.testing import write_scenes


def drawn(figure):
    """Return the pixels of the images of a figure, without overlays."""
    return [np.asarray(axes.images[0].get_array()) for axes in figure.axes if axes.images]


def titles(figure):
    return [axes.get_title() for axes in figure.axes]


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (3, 6, 9, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    for name, level in (("a", 10), ("b", 200)):
        (tmp_path / name).mkdir()
        Image.new("RGB", (12, 8), (level, level, level)).save(tmp_path / name / f"{name}<i>$x$.png")
    return tmp_path


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray, list, Batch], ids=["numpy", "jax", "list", "Batch"])
def test_uint8_images_are_drawn_as_they_are(images, convert):
    for pixels, image in zip(drawn(penstock.show(convert(images))), images, strict=True):
        np.testing.assert_array_equal(pixels, image)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_both_layouts_are_drawn_alike(images, layout):
    data = images.transpose(0, 3, 1, 2) if layout == "CHW" else images
    for chosen in (None, layout):
        for pixels, image in zip(drawn(penstock.show(data, layout=chosen)), images, strict=True):
            np.testing.assert_array_equal(pixels, image)


def test_a_layout_settles_what_a_shape_leaves_open():
    image = np.random.default_rng(0).integers(0, 256, (3, 4, 3), np.uint8)
    np.testing.assert_array_equal(drawn(penstock.show(image, layout="CHW"))[0], image.transpose(1, 2, 0))
    np.testing.assert_array_equal(drawn(penstock.show(Batch([image], "CHW")))[0], image.transpose(1, 2, 0))


@pytest.mark.parametrize("shape", [(6, 9), (6, 9, 1), (1, 6, 9)])
def test_one_channel_is_drawn_in_gray(shape):
    image = np.arange(54, dtype=np.uint8).reshape(shape)
    (pixels,) = drawn(penstock.show(image))
    np.testing.assert_array_equal(pixels, image.reshape(6, 9))


def test_sixteen_bits_use_the_range_of_the_values():
    image = np.linspace(1000, 5000, 10000).reshape(100, 100).astype(np.uint16)
    figure = penstock.show(image)
    (pixels,) = drawn(figure)
    assert pixels.dtype == np.uint8
    assert pixels.min() == 0
    assert pixels.max() == 255
    assert figure.get_suptitle() == "black is 1020, white is 4979"


def test_floats_from_zero_to_one_need_no_scaling():
    (pixels,) = drawn(penstock.show(np.array([[0.0, 0.5], [0.25, 0.75]])))
    np.testing.assert_array_equal(pixels, [[0, 128], [64, 191]])


@pytest.mark.parametrize("value", [np.nan, 3.0])
def test_constant_and_not_finite_images_are_drawn(value):
    assert drawn(penstock.show(np.full((4, 4), value, np.float32)))[0].shape == (4, 4)


def test_bfloat16_is_drawn():
    (pixels,) = drawn(penstock.show(jnp.full((4, 4), 0.5, jnp.bfloat16)))
    np.testing.assert_array_equal(pixels, 128)


def test_the_frames_of_a_video_are_drawn_in_a_row():
    video = np.random.default_rng(0).integers(0, 256, (2, 5, 6, 9, 3), np.uint8)
    figure = penstock.show(video)
    np.testing.assert_array_equal(drawn(figure), video.reshape(10, 6, 9, 3))
    assert len({axes.get_subplotspec().rowspan.start for axes in figure.axes}) == 2


def test_sound_is_drawn_as_waveform_or_spectrogram():
    time = np.arange(4096) / 4096
    sound = np.sin(2 * np.pi * 512 * time).astype(np.float32)[None]
    (line,) = penstock.show(sound, layout="t").axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), sound[0])
    (power,) = drawn(penstock.show(sound, layout="t", audio="spectrogram"))
    # 512 Hz of 4096 are bin 32 of a window of 256 samples.
    np.testing.assert_array_equal(power.argmax(axis=0), 32)
    with pytest.raises(DefinitionError, match="too short for a spectrogram"):
        penstock.show(sound[:, :100], layout="t", audio="spectrogram")


def test_labels_become_class_names():
    batch = {"images": np.zeros((4, 2, 2, 3), np.uint8), "labels": np.array([[0], [1], [7], [0]])}
    assert titles(penstock.show(batch, class_names=["cat", "dog"])) == ["cat", "dog", "7", "cat"]
    assert titles(penstock.show(batch, class_names={7: "bird"})) == ["0", "1", "bird", "0"]
    assert titles(penstock.show(batch["images"], labels=[3, 2, 1, 0]))[0] == "3"
    assert titles(penstock.show({**batch, "labels": np.eye(4)[[2, 0, 1, 3]]}, n=2)) == ["2", "0"]
    assert titles(penstock.show(batch["images"], labels=[np.nan, np.inf, 2.5, 1.0])) == ["nan", "inf", "2.5", "1"]
    boxes = np.float32([[[0, 0, 2, 2], [0, 0, 1, 1]]])
    figure = penstock.show(batch["images"][:1], boxes=boxes, labels=np.float32([[np.nan, 1]]))
    assert [text.get_text() for text in figure.axes[0].texts] == ["nan", "1"]


@pytest.mark.parametrize("box_layout", ["ltrb", "xywh"])
@pytest.mark.parametrize("relative", [False, True])
def test_boxes_are_drawn_in_pixels(box_layout, relative):
    boxes = np.array([[[2.0, 3.0, 10.0, 8.0], [0, 0, 0, 0]]], np.float32)
    if box_layout == "xywh":
        boxes[..., 2:] -= boxes[..., :2]
    if relative:
        boxes /= np.array([20, 10, 20, 10])
    batch = {"images": np.zeros((1, 10, 20, 3), np.uint8), "boxes": boxes, "labels": np.array([[1, 0]])}
    (axes,) = penstock.show(batch, box_layout=box_layout, class_names=["none", "cat"]).axes
    (patch,) = axes.patches
    np.testing.assert_allclose([*patch.get_xy(), patch.get_width(), patch.get_height()], [1.5, 2.5, 8, 5], atol=1e-5)
    assert [text.get_text() for text in axes.texts] == ["cat"]


def test_masks_and_points_are_drawn():
    mask = np.zeros((1, 4, 6), np.int32)
    mask[0, 1, 2] = 3
    batch = {"images": np.zeros((1, 4, 6, 3), np.uint8), "masks": mask, "points": np.array([[[2.0, 3.0]]])}
    (axes,) = penstock.show(batch).axes
    overlay = np.asarray(axes.images[1].get_array())
    assert np.argwhere(overlay[..., 3]).tolist() == [[1, 2]]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1.5, 2.5]])


def test_tensor_lists_are_drawn(images):
    @pipeline_def(batch_size=3, device_id=None, num_threads=1)
    def plain():
        return fn.readers.arrays(images, layout="HWC"), fn.constant(4)

    outputs = plain().run()
    np.testing.assert_array_equal(drawn(penstock.show(outputs[0])), images)
    np.testing.assert_array_equal(drawn(penstock.show(outputs)), images)


def normalized_photographs(**options):
    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def photographs(folder):
        encoded, labels = fn.readers.file(file_root=str(folder), random_shuffle=True, name="reader")
        images = fn.resize(fn.decoders.image(encoded), size=[6, 6])
        mean, std = [120.0, 110.0, 100.0], [50.0, 60.0, 70.0]
        return fn.crop_mirror_normalize(images, mean=mean, std=std, scale=2.0, shift=1.0), labels

    return photographs(**options)


def test_iterators_undo_the_normalization_and_name_the_files(folder):
    iterator = normalized_photographs(folder=folder, batch_size=2, seed=3)
    figure = iterator.show(class_names=["a", "b"])
    assert figure.get_suptitle() == "images: mean and std undone"
    levels = {"a": 10, "b": 200}
    for pixels, title in zip(drawn(figure), titles(figure), strict=True):
        name, index, path = title.split("\n")
        np.testing.assert_array_equal(pixels, np.full((6, 6, 3), levels[name], np.uint8))
        assert index == f"sample {list(levels).index(name)}"
        assert path.endswith(f"{name}<i>$x$.png")
    # File names are data: `$x$` is not mathematics.
    assert len(figure._repr_png_()) > 1000


def test_class_names_are_those_of_the_folders(folder):
    figure = normalized_photographs(folder=folder, batch_size=2, seed=3).show()
    for title in titles(figure):
        name, index, _ = title.split("\n")
        assert (name, index) in (("a", "sample 0"), ("b", "sample 1"))
    given = normalized_photographs(folder=folder, batch_size=2, seed=3).show(class_names=["first", "second"])
    assert {title.split("\n")[0] for title in titles(given)} == {"first", "second"}


def test_labels_that_are_given_have_the_class_names_of_the_data_set(folder):
    figure = normalized_photographs(folder=folder, batch_size=2, seed=3).show(labels=[1, 1])
    assert [title.split("\n")[0] for title in titles(figure)] == ["b", "b"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda labels: fn.one_hot(labels, num_classes=4), "dog"),
        (lambda labels: fn.cast(fn.squeeze(labels, axes=0), dtype=np.int64), "dog"),
        (lambda labels: labels + 1, "2"),
        (lambda labels: fn.constant(1), "1"),
    ],
    ids=["one_hot", "cast", "other numbers", "constant"],
)
def test_class_names_apply_to_the_labels_of_the_reader(tmp_path, change, expected):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (12, 8)).save(tmp_path / name / "1.png")

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def photographs():
        encoded, labels = fn.readers.file(file_root=str(tmp_path), name="reader")
        return fn.resize(fn.decoders.image(encoded), size=[6, 6]), change(labels)

    title = titles(photographs(batch_size=2).show())[-1]
    assert title.split("\n")[0] == expected


def test_class_names_follow_boxes(tmp_path):
    write_scenes(tmp_path, num_images=2)

    @data_iterator
    def scenes():
        files, boxes, labels = fn.readers.coco(
            file_root=tmp_path / "images", annotations_file=tmp_path / "annotations.json", ltrb=True
        )
        images = fn.resize(fn.decoders.image(files), size=(64, 64))
        boxes, _, labels = fn.follow.boxes(boxes, images, labels, ltrb=True, max_boxes=4)
        return {"images": images, "boxes": boxes, "labels": labels}

    iterator = scenes(batch_size=2)
    written = [[text.get_text() for text in axes.texts] for axes in iterator.show().axes]
    labels = next(iterator)["labels"]
    names = {1: "circle", 2: "square", 3: "triangle"}
    assert written == [[names[int(label)] for label in row if label] for row in np.asarray(labels)]


class Labeled:
    """A data set of torchvision: items, and the names of their classes."""

    classes = ("cat", "dog")

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return np.zeros((8, 8, 3), np.uint8), index


def test_class_names_of_libraries():
    import datasets

    features = datasets.Features(
        {"image": datasets.Sequence(datasets.Value("uint8")), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    table = datasets.Dataset.from_dict({"image": [[0] * 64, [1] * 64], "label": [0, 1]}, features=features)

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def torch():
        return tuple(fn.readers.items(Labeled(), layout={0: "HWC"}, name="reader"))

    @data_iterator(output_map=["images", "labels"], reader_name="reader")
    def hugging_face():
        columns = fn.readers.items(table, name="reader")
        return fn.reshape(columns["image"], shape=[8, 8], layout="HW"), columns["label"]

    for make in (torch, hugging_face):
        assert [title.split("\n")[0] for title in titles(make(batch_size=2).show())] == ["cat", "dog"]


def test_a_concatenation_has_the_names_that_its_parts_agree_on(tmp_path):
    from penstock.sources.combine.concatenation import ConcatMember, ConcatSource
    from penstock.sources.combine.flat_labels import FlatLabelSource
    from penstock.sources.combine.subset import make_subset
    from penstock.sources.files.class_folders import list_class_folders

    sources = []
    for place, names in (("one", "ab"), ("two", "ab"), ("three", "bc")):
        for name in names:
            (tmp_path / place / name).mkdir(parents=True)
            (tmp_path / place / name / "1.png").write_bytes(b"")
        sources.append(list_class_folders(str(tmp_path / place), (), (), True))
    one, two, three = (ConcatMember(make_subset(FlatLabelSource(source, 1), [0]), (1, 0), "part") for source in sources)
    assert ConcatSource([one, two]).class_names(0) == {0: "a", 1: "b"}
    assert ConcatSource([one, two]).class_names(1) == {}
    assert ConcatSource([one, three]).class_names(0) == {}


def test_show_does_not_move_an_iterator(folder):
    options = {"folder": folder, "batch_size": 1, "seed": 3}
    shown, other = normalized_photographs(**options), normalized_photographs(**options)
    for _ in range(2):
        assert shown.get_state() == other.get_state()
        first, second = shown.show(), shown.show()
        np.testing.assert_array_equal(drawn(first), drawn(second))
        assert shown.get_state() == other.get_state()
        taken, expected = next(shown), next(other)
        for name in ("images", "labels"):
            np.testing.assert_array_equal(taken[name], expected[name])
    with pytest.raises(ContextError, match=r"the epoch has ended.*\n.*reset\(\)"):
        shown.show()
    shown.reset()
    assert len(shown.show().axes) == 1


def test_the_drawn_images_have_titles_of_their_own_reader(images):
    classes = np.array([5, 6, 7])

    @data_iterator(reader_name="labeled")
    def training(others, order):
        shown, labels = fn.readers.arrays((images, classes), layout=["HWC", ""], name="labeled")
        return {
            "images": shown,
            "labels": labels,
            "masks": fn.readers.arrays(images[..., 0], layout="HW"),
            "others": fn.readers.arrays(others, layout="HWC", **order),
        }

    for others, order in ((np.concatenate([images, images]), {}), (images, {"random_shuffle": True, "seed": 1})):
        iterator = training(others=others, order=order, batch_size=3, seed=1)
        # A reader of the same length and order reads the other half of pairs.
        figure = iterator.show()
        assert titles(figure) == ["5\nsample 0", "6\nsample 1", "7\nsample 2"]
        assert all(len(axes.images) == 2 for axes in figure.axes)
        # The labels and masks are those of other samples.
        figure = iterator.show(image="others")
        for pixels, title in zip(drawn(figure), titles(figure), strict=True):
            np.testing.assert_array_equal(pixels, others[int(title.removeprefix("sample "))])
        assert all(len(axes.images) == 1 for axes in figure.axes)
        assert titles(iterator.show(image="others", labels="labels"))[1].startswith("6\n")


@pytest.mark.parametrize(
    ("extra", "options", "title"),
    [
        ({"labels": jnp.int32(4)}, {}, "4"),
        ({"labels": jnp.float32([0, 1])}, {}, "1"),
        ({}, {}, ""),
        ({}, {"layout": "HWC"}, ""),
        ({"other": jnp.zeros((6, 9, 3))}, {}, ""),
    ],
    ids=["label", "one-hot label", "image", "layout", "two images"],
)
def test_a_sample_of_an_iterator_is_one_picture(images, extra, options, title):
    figure = penstock.show({"images": jnp.asarray(images[0]), **extra}, **options)
    np.testing.assert_array_equal(drawn(figure), images[:1])
    assert titles(figure) == [title]


def test_dicts_of_batches_are_not_samples(images):
    gray = images[..., 0]
    for batch in ({"images": gray, "labels": np.arange(3)}, {"sound": gray[:, 0]}, {"images": images, "step": 3}):
        assert len(penstock.show(batch).axes) == 3
    assert len(penstock.show({"images": gray}, layout="HW").axes) == 3


def test_names_that_are_not_text_are_drawn_with_escapes(images):
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    batch = {name: images[:1], "labels": [0], "boxes": np.float32([[[0, 0, 4, 4]]])}
    assert len(penstock.show(batch, class_names=[name])._repr_png_()) > 1000
    figure = penstock.show({name: images[:1], "labels": [0]}, class_names=[name])
    assert titles(figure) == ["caf\\udce9"]
    assert len(figure._repr_png_()) > 1000


def test_padded_channels_are_not_drawn(images):
    @data_iterator
    def padded():
        data = fn.readers.arrays(images, layout="HWC")
        return {"images": fn.crop_mirror_normalize(data, mean=128.0, std=64.0, pad_output=True)}

    np.testing.assert_array_equal(drawn(padded(batch_size=3).show()), images)


def test_the_end_of_a_stream_is_named(images):
    @data_iterator(output_map=["images"], size=-1)
    def once():
        return fn.external_source(iter([images]), layout="HWC")

    iterator = once(batch_size=3)
    np.testing.assert_array_equal(drawn(iterator.show()), images)
    np.testing.assert_array_equal(next(iterator)["images"], images)
    with pytest.raises(ContextError, match="the epoch has ended"):
        iterator.show()


def test_the_devices_of_pmap_are_drawn_one_after_another(images):
    @data_iterator(output_map=["images"], reader_name="reader", pmap_compatible=True)
    def stacked():
        return fn.readers.arrays(images, layout="HWC", name="reader")

    iterator = stacked(batch_size=3)
    assert next(iterator)["images"].ndim == 5
    iterator.next_epoch()
    np.testing.assert_array_equal(drawn(iterator.show()), images)


def test_operators_that_keep_values_keep_the_normalization(images):
    @data_iterator(output_map=["images"], reader_name="reader")
    def flipped(layout):
        data = fn.readers.arrays(images, layout="HWC", name="reader")
        data = fn.crop_mirror_normalize(data, mean=128.0, std=64.0, output_layout=layout)
        return fn.flip(data, horizontal=1)

    for layout in ("CHW", "HWC"):
        figure = flipped(layout=layout, batch_size=3).show()
        assert figure.get_suptitle() == "images: mean and std undone"
        np.testing.assert_array_equal(drawn(figure), images[:, :, ::-1])


def test_mistakes_are_explained(images):
    with pytest.raises(UsageError, match="no value of this name"):
        penstock.show({"images": images}, image="image")
    with pytest.raises(UsageError, match="labels needs an entry for each sample"):
        penstock.show(images, labels=[1, 2])
    with pytest.raises(UsageError, match="the batch has no images"):
        penstock.show({"labels": np.arange(3)})
    for empty in (images[:0], [], {"images": images[:0], "labels": []}, {"images": []}):
        with pytest.raises(UsageError, match="the batch has no samples"):
            penstock.show(empty)
    with pytest.raises(UsageError, match="a sample is empty"):
        penstock.show(images[:, :0])
    with pytest.raises(DefinitionError, match="an image has the axes H and W"):
        penstock.show(images, layout="HW")
    with pytest.raises(DefinitionError, match="neither an image nor sound"):
        penstock.show(images, layout="abc")
    with pytest.raises(DefinitionError, match="a mask has the size of its image"):
        penstock.show(images, masks=np.zeros((3, 2, 2), np.int32))
    with pytest.raises(DefinitionError, match="boxes need 4 numbers"):
        penstock.show(images, boxes=np.zeros((3, 2, 5)))


def test_a_missing_matplotlib_is_named(images, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r'pip install "penstock\[pictures\]"'):
        penstock.show(images)
