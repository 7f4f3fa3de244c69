"""Tests of the small data sets: files of the promised format, and the same ones each time."""

import json

import numpy as np
import pytest
from PIL import Image

from penstock.testing import write_photographs, write_scenes, write_sounds, write_videos


def pixels_of(path):
    with Image.open(path) as image:
        return np.asarray(image)


WRITERS = (write_photographs, write_scenes, write_sounds, write_videos)


@pytest.mark.parametrize("write", [pytest.param(write, id=write.__name__) for write in WRITERS])
def test_two_calls_write_the_same_files(write, tmp_path):
    if write is write_videos:
        pytest.importorskip("av", reason="the extra video is not installed")
    first, second = write(tmp_path / "first"), write(tmp_path / "second")
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def test_photographs_have_the_sizes_that_are_asked_for(tmp_path):
    photos = write_photographs(tmp_path, classes=("yes", "no"), samples_per_class=5, sizes=(30, 40))
    extents = [extent for path in photos.rglob("*.jpg") for extent in pixels_of(path).shape[:2]]
    assert len(extents) == 20
    assert min(extents) >= 30
    assert max(extents) <= 40
    with pytest.raises(ValueError, match="at most 3"):
        write_photographs(tmp_path, classes="abcd")


def test_boxes_and_areas_of_scenes_are_those_of_the_masks(tmp_path):
    scenes = write_scenes(tmp_path, num_images=12)
    described = json.loads((scenes / "annotations.json").read_text())
    assert len(described["images"]) == 12
    alone = 0
    for image in described["images"]:
        mask = pixels_of(scenes / "masks" / image["file_name"].replace("jpg", "png"))
        assert mask.shape == (image["height"], image["width"])
        shapes = [each for each in described["annotations"] if each["image_id"] == image["id"]]
        assert {*np.unique(mask)} <= {0, *(each["category_id"] for each in shapes)}
        if len(shapes) == 1:  # nothing covers it
            rows, columns = np.nonzero(mask)
            left, top, width, height = shapes[0]["bbox"]
            assert (left, top) == (columns.min(), rows.min())
            assert (left + width, top + height) == (columns.max() + 1, rows.max() + 1)
            assert shapes[0]["area"] == rows.size
            alone += 1
    assert alone
