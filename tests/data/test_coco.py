"""COCO data sets, against COCO's own library; what is damaged is named."""

import json
import random

import numpy as np
import pytest
from mutations import MUTATIONS, mutated
from pycocotools.coco import COCO

from penstock.data.coco import CocoOptions, CocoSource
from penstock.errors import PenstockError, SampleError, SourceError, SourceNotFoundError
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


def test_images_and_options(tmp_path, content):
    everything = source(tmp_path, content)
    check_source(everything)
    assert everything.same_data(source(tmp_path, content))
    assert everything.describe(1) == str(tmp_path / "1.jpg")
    assert len(source(tmp_path, content, skip_empty=True)) == 5
    named = source(tmp_path, content, ("4.jpg", "0.jpg"))
    assert [bytes(data) for data in named.read(np.arange(2), [None] * 3)[0]] == [b"4.jpg", b"0.jpg"]
    for other in (named, source(tmp_path, content, ltrb=True)):
        assert not everything.same_data(other)
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
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "has no COCO annotations"),
        ('{"images": []}', "has no COCO annotations"),
        ('{"images": [], "annotations": [], "categories": []}', "no images are left"),
        (change(content, "images", 2, id="gone"), "entry 2 of 'images': it has no 'id'"),
        (change(content, "images", 2, id=content["images"][1]["id"]), "is there twice"),
        (change(content, "images", 2, width="9"), "'9' is no number"),
        (change(content, "annotations", 3, bbox=[1, 2, 3]), "entry 3 of 'annotations': a box of 3 numbers"),
        (change(content, "annotations", 3, bbox=[1, 2, 3, None]), "None is no number"),
        (change(content, "annotations", 3, bbox=7), "entry 3 of 'annotations'"),
        (change(content, "annotations", 3, category_id=4), "there is no category 4"),
        (change(content, "annotations", 3, image_id=2**40), "no number of 32 bits"),
        (change(content, "annotations", 3, segmentation=[[1, 2, 3]]), "half a point"),
        (change(content, "images", 5, width=0), "divides by it"),
    ):
        with pytest.raises(SourceError, match=message):
            source(tmp_path, bad, polygon_masks=True, ratio=True)
    with pytest.raises(SourceError, match=r"'x\.jpg' is not in"):
        source(tmp_path, content, ("x.jpg",))
    with pytest.raises(SourceNotFoundError, match="annotations_file"):
        CocoSource(str(tmp_path), str(tmp_path / "none.json"), None, CocoOptions())
    with pytest.raises(SourceNotFoundError, match="file_root"):
        CocoSource(str(tmp_path / "none"), str(tmp_path / "none.json"), None, CocoOptions())


def test_mutated_annotations_are_errors_or_read(tmp_path, content):
    rng, good = random.Random(2), json.dumps(content).encode()
    path, outcomes = tmp_path / "annotations.json", {"read": 0, "refused": 0}
    for _ in range(MUTATIONS // 2):
        path.write_bytes(mutated(good, rng))
        try:
            found = CocoSource(str(tmp_path), str(path), None, CocoOptions(polygon_masks=True, ratio=True))
            found.read(np.arange(len(found)), [None] * 5)
            outcomes["read"] += 1
        except PenstockError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > MUTATIONS // 100
