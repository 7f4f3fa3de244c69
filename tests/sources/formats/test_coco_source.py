"""COCO data sets, against COCO's own library; what is damaged is named."""

import json
import random

import numpy as np
import pytest
from mutations import MUTATIONS, mutated
from pycocotools import mask
from pycocotools.coco import COCO

from penstock import Pipeline, fn
from penstock.errors import PenstockError, SampleError, SourceError, SourceNotFoundError
from penstock.sources.formats.coco.coco_annotations import CocoOptions
from penstock.sources.formats.coco.coco_source import CocoSource
from penstock.testing import check_source


@pytest.fixture
def content(tmp_path):
    rng = np.random.default_rng(4)
    images = [{"id": 7 * n + 2, "file_name": f"{n}.jpg", "width": 90 + n, "height": 40} for n in range(6)]
    for image in images:
        (tmp_path / image["file_name"]).write_bytes(image["file_name"].encode())
    return {
        "images": images[::-1],
        "annotations": [
            {
                "id": n,
                "image_id": int(images[n % 5]["id"]),
                "category_id": int(rng.choice([3, 50])),
                "bbox": [float(value) for value in rng.integers(1, 30, 4)],
                "area": 1,
                "iscrowd": 0,
                "segmentation": [[float(value) for value in rng.integers(1, 30, 2 * (3 + k))] for k in range(n % 3)],
            }
            for n in range(14)
        ],
        "categories": [{"id": 3, "name": "x"}, {"id": 50, "name": "y"}],
    }


def source(folder, content, names=None, **options):
    path = folder / "annotations.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return CocoSource(str(folder), str(path), names, CocoOptions(**options))


def test_objects_are_those_of_cocos_own_library(tmp_path, content, capsys):
    own = {"avoid_class_remapping": True, "polygon_masks": True, "image_ids": True}
    found = source(tmp_path, content, **own)
    check_source(found)
    oracle = COCO(str(tmp_path / "annotations.json"))
    capsys.readouterr()
    columns = found.read(np.arange(len(found)), [None] * 6)
    assert columns[5].ravel().tolist() == sorted(oracle.getImgIds())
    for data, boxes, classes, polygons, points, (number,) in zip(*columns, strict=True):
        assert bytes(data).decode() == oracle.loadImgs(int(number))[0]["file_name"]
        expected = oracle.loadAnns(oracle.getAnnIds(int(number)))
        assert boxes.tolist() == [each["bbox"] for each in expected]
        assert classes.tolist() == [each["category_id"] for each in expected]
        outlines = [[] for _ in expected]
        for row, start, stop in polygons.tolist():
            outlines[row].append(points[start:stop].ravel().tolist())
        assert outlines == [each["segmentation"] for each in expected]


def test_class_names_have_the_numbers_of_the_classes(tmp_path, content):
    assert source(tmp_path, content).class_names(2) == {1: "x", 2: "y"}
    assert source(tmp_path, content, avoid_class_remapping=True).class_names(2) == {3: "x", 50: "y"}
    assert source(tmp_path, content).class_names(1) == {}
    del content["categories"][0]["name"]
    assert source(tmp_path, content).class_names(2) == {2: "y"}


@pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning:pycocotools")
def test_pixels_are_those_of_cocos_own_library(tmp_path, content, capsys):
    """Of the classes that a pixel belongs to, the largest: outlines as polygons, run lengths, and compressed ones."""
    for number, each in enumerate(content["annotations"][3:9]):
        box = np.zeros((40, 90 + number % 5), np.uint8, order="F")
        each["image_id"] = 7 * (number % 5) + 2
        box[number : 9 + 3 * number, 5:40] = 1
        compressed = mask.encode(box)
        turns = np.flatnonzero(np.diff(box.ravel("F"))) + 1  # outside at first
        runs = {"counts": np.diff([0, *turns, box.size]).tolist(), "size": list(box.shape)}
        text = {**compressed, "counts": compressed["counts"].decode()}
        each["segmentation"] = runs if number % 2 else text
    found = source(tmp_path, content, avoid_class_remapping=True, pixelwise_masks=True, image_ids=True)
    check_source(found)
    oracle = COCO(str(tmp_path / "annotations.json"))
    capsys.readouterr()
    *_, masks, numbers = found.read(np.arange(len(found)), [None] * 5)
    for pixels, (number,) in zip(masks, numbers.tolist(), strict=True):
        image, expected = oracle.loadImgs(number)[0], np.zeros(pixels.shape[:2], np.int32)
        for each in oracle.loadAnns(oracle.getAnnIds(number)):
            if each["segmentation"]:
                expected = np.maximum(expected, oracle.annToMask(each) * np.int32(each["category_id"]))
        assert pixels.shape == (image["height"], image["width"], 1)
        assert np.array_equal(pixels[..., 0], expected)
    assert sum(len(np.unique(pixels)) for pixels in masks) > 12


@pytest.mark.parametrize(
    "counts",
    [
        *([5, 10], [5, 10_000], [-5, 3605], ["x"], "0h3", "~~~~", "PPPPPPPPPP", "é"),
        # Their sums overflow to 3600, the number of pixels: NumPy would write beyond the mask, or raise a TypeError.
        *([1 << 62] * 4 + [3600], [1 << 63, (1 << 63) + 3600]),
    ],
)
def test_damaged_run_lengths_fail_their_image(tmp_path, content, counts):
    bad = change(content, "annotations", 0, segmentation={"counts": counts, "size": [40, 90]})
    found = source(tmp_path, bad, pixelwise_masks=True)
    found.read(np.array([1]), [None] * 4)
    with pytest.raises(SampleError, match="run lengths") as caught:
        found.read(np.array([1, 0]), [None] * 4)
    assert caught.value.index == 0
    assert found.fingerprint() != source(tmp_path, content, pixelwise_masks=True).fingerprint()


def test_images_and_options(tmp_path, content):
    everything = source(tmp_path, content)
    check_source(everything)
    assert everything.reads_same_samples(source(tmp_path, content))
    assert everything.describe(1) == str(tmp_path / "1.jpg")
    assert len(source(tmp_path, content, skip_empty=True)) == 5
    named = source(tmp_path, content, ("4.jpg", "0.jpg"))
    assert [bytes(data) for data in named.read(np.arange(2), [None] * 3)[0]] == [b"4.jpg", b"0.jpg"]
    for other in (named, source(tmp_path, content, ltrb=True)):
        assert not everything.reads_same_samples(other)
        assert everything.fingerprint() != other.fingerprint()
    (tmp_path / "3.jpg").unlink()
    with pytest.raises(SampleError, match=r"sample 3 .*3\.jpg"):
        everything.read(np.array([0, 3]), [None] * 3)


def change(content, kind, place, **values):
    changed = json.loads(json.dumps(content))
    changed[kind][place] = {k: v for k, v in {**changed[kind][place], **values}.items() if v != "gone"}
    return changed


def test_bad_annotations_are_named(tmp_path, content):
    for bad, message in (
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("[]", "does not contain COCO annotations"),
        ('{"images": []}', "does not contain COCO annotations"),
        ('{"images": [], "annotations": [], "categories": []}', "no images are left"),
        (change(content, "images", 2, id="gone"), "entry 2 of 'images': missing 'id'"),
        (change(content, "images", 2, id=content["images"][1]["id"]), "duplicate image id"),
        (change(content, "images", 2, width="9"), "'9' is not a number"),
        (change(content, "annotations", 3, bbox=[1, 2, 3]), "entry 3 of 'annotations': a box has 3 numbers"),
        (change(content, "annotations", 3, bbox=[1, 2, 3, None]), "None is not a number"),
        (
            change(content, "annotations", 3, bbox=[1, 2, 3, 10**400]),
            "entry 3 of 'annotations': 1000.* is not a number",
        ),
        (change(content, "annotations", 3, segmentation=[[1, 2, 3, 4, 5, 10**400]]), "is not a number"),
        (change(content, "images", 2, width=1e30), r"entry 2 of 'images': 1e\+30 is not a number"),
        (change(content, "images", 2, file_name="\ud800.jpg"), "entry 2 of 'images': .*can't encode"),
        (change(content, "annotations", 3, bbox=7), "entry 3 of 'annotations'"),
        (change(content, "annotations", 3, category_id=4), "unknown category 4"),
        (change(content, "annotations", 3, image_id=2**40), "not a 32-bit integer"),
        (change(content, "annotations", 3, segmentation=[[1, 2, 3]]), "odd number of coordinates"),
        (change(content, "images", 5, width=0), "divides by it"),
        (change(content, "annotations", 3, segmentation={"size": [1, 1]}), "missing 'counts'"),
        (change(content, "annotations", 3, segmentation={"counts": None}), "run lengths None"),
        (
            change(content, "annotations", 3, segmentation={"counts": [0, 40 * 93], "size": [93, 40]}),
            r"entry 3 of 'annotations': a mask has the size \[93, 40\] \(height, width\), and its image \[40, 93\]",
        ),
        (change(content, "annotations", 3, segmentation=[[0, 0, 1e9, 0, 1, 1]]), "within 65,536 pixels"),
    ):
        with pytest.raises(SourceError, match=message):
            source(tmp_path, bad, polygon_masks=True, pixelwise_masks=True, ratio=True)
    with pytest.raises(SourceError, match=r"'x\.jpg' is not in"):
        source(tmp_path, content, ("x.jpg",))
    with pytest.raises(SourceNotFoundError, match="annotations_file"):
        CocoSource(str(tmp_path), str(tmp_path / "none.json"), None, CocoOptions())
    with pytest.raises(SourceNotFoundError, match="file_root"):
        CocoSource(str(tmp_path / "none"), str(tmp_path / "none.json"), None, CocoOptions())


def test_mutated_annotations_are_errors_or_read(tmp_path, content):
    rng, good = random.Random(2), json.dumps(content).encode()
    path, outcomes = tmp_path / "annotations.json", {"read": 0, "refused": 0}
    for turn in range(MUTATIONS // 2):
        path.write_bytes(mutated(good, rng))
        try:
            options = CocoOptions(polygon_masks=turn % 2 == 0, pixelwise_masks=turn % 2 == 1, ratio=True)
            found = CocoSource(str(tmp_path), str(path), None, options)
            found.read(np.arange(len(found)), [None] * len(found.specs))
            outcomes["read"] += 1
        except PenstockError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > MUTATIONS // 100


def test_saved_annotations_are_of_one_data_set(tmp_path, content, monkeypatch):
    """What other annotations have left in the folder goes; what is the same stays; what is not finished is not read."""
    place = tmp_path / "kept"
    place.mkdir()

    def files():
        return {path.name: path.stat().st_mtime_ns for path in place.iterdir()}

    def read(**options):
        return CocoSource(str(tmp_path), str(place), None, CocoOptions(preprocessed=True, **options))

    everything = {"polygon_masks": True, "image_ids": True}
    source(tmp_path, content, **everything, save_to=str(place))
    first = files()
    assert read(**everything).reads_same_samples(source(tmp_path, content, **everything))
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {place.stat().st_mode & 0o666}
    assert read(polygon_masks=True, count_coordinates=True).fingerprint() != read(polygon_masks=True).fingerprint()
    source(tmp_path, content, **everything, save_to=str(place))
    assert files() == first

    source(tmp_path, content, save_to=str(place))
    assert set(files()) == {f"{name}.dat" for name in ("boxes", "counts", "filenames", "labels", "offsets")}
    assert len(read()) == 6
    with pytest.raises(SourceNotFoundError, match=r"does not contain original_ids\.dat"):
        read(**everything)

    def full(path, parts):
        if path.name == "labels.dat":
            raise OSError(28, "No space left on device")
        path.write_bytes(b"".join(parts))

    monkeypatch.setattr("penstock.sources.formats.coco.preprocessed_annotations.write_atomically", full)
    with pytest.raises(SourceError, match="cannot be written: No space left"):
        source(tmp_path, content, ltrb=True, save_to=str(place))
    with pytest.raises(SourceNotFoundError, match=r"does not contain filenames\.dat"):
        read()
    image = content["images"][0]
    (tmp_path / image["file_name"]).rename(tmp_path / "a\nb.jpg")
    with pytest.raises(SourceError, match="line break"):
        source(tmp_path, change(content, "images", 0, file_name="a\nb.jpg"), save_to=str(place))


def test_annotations_are_given_once_and_options_with_them(tmp_path, content):
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(content))
    folder = {"preprocessed_annotations": tmp_path}
    saved = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": tmp_path}
    for options, message in (
        ({}, "given:    neither"),
        ({"annotations_file": path, **folder}, "given:    both"),
        ({**folder, "ratio": True}, "cannot be changed after"),
        ({**folder, "images": ["0.jpg"]}, "cannot be changed after"),
        (
            {"annotations_file": path, "polygon_masks": True, "pixelwise_masks": True},
            "polygon_masks and pixelwise_masks cannot be combined",
        ),
        (folder, "does not contain filenames.dat"),
        (
            {"annotations_file": path, "masks": True, "pixelwise_masks": True},
            "polygon_masks and pixelwise_masks cannot be combined",
        ),
        ({"annotations_file": path, "save_preprocessed_annotations": True}, "must be set together"),
        ({"annotations_file": path, "save_preprocessed_annotations_dir": tmp_path}, "must be set together"),
        ({"annotations_file": path, **saved, "pixelwise_masks": True, "ratio": True}, "leave one out"),
        ({"annotations_file": path, **saved, "save_preprocessed_annotations_dir": tmp_path / "no"}, "is not a folder"),
        ({**folder, **saved}, "cannot be changed after"),
        ({"meta_files_path": tmp_path}, "does not contain filenames.dat"),
        ({**folder, "meta_files_path": tmp_path}, "meta_files_path is an older name of preprocessed_annotations"),
        ({"annotations_file": path, **saved, "dump_meta_files": False}, "is an older name of save_preprocessed"),
    ):
        with Pipeline(1), pytest.raises(PenstockError, match=message):
            fn.readers.coco(file_root=tmp_path, **options)
