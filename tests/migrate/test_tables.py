"""The right column of the tables in docs/how-to/migrate: each name exists, and each expression of nodes runs."""

import numpy as np
import pytest
from migration_tables import MEAN, OURS, PAGES, STD, correspondences, differences, unknown_names

from penstock import fn, pipeline_def, types
from penstock.testing import write_photographs, write_videos

TABLES = [page for page in ("albumentations.md", "grain.md", "pytorch.md", "tf-data.md") if (PAGES / page).exists()]
LIBRARIES = {
    "PyTorch": "pytorch.md",
    "albumentations": "albumentations.md",
    "tf.data": "tf-data.md",
    "tf.image": "tf-data.md",
    "torchvision": "pytorch.md",
}


def ours(pages):
    return sorted(
        {
            code
            for page in pages
            for codes in (*(row.ours for row in correspondences(page)), *([row[1]] for row in differences(page)))
            for code in codes
        }
    )


class Dataset:
    """An object with a length and items by index."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return {"image": np.full((48, 64, 3), index, np.uint8), "label": np.int32(index)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the snippets of the pages name."""
    folder = tmp_path_factory.mktemp("pages")
    write_photographs(folder / "photos", samples_per_class=2)
    videos = write_videos(folder / "videos", samples_per_class=1, num_frames=40, size=(32, 32))
    return {
        **OURS,
        "MEAN": MEAN,
        "STD": STD,
        "dataset": Dataset(),
        "f": lambda image: image,
        "folder": folder,
        "indices": np.arange(10),
        "source": lambda info: np.full((4, 4), info.idx_in_epoch, np.int32),
        "videos": sorted(map(str, videos.rglob("*.mp4"))),
        "weights": np.ones(20),
        "x": np.zeros((20, 3), np.float32),
        "y": np.zeros(20, np.int32),
    }


@pytest.mark.parametrize("code", ours(TABLES))
def test_every_name_of_penstock_exists(code):
    assert unknown_names(code, OURS) == []


@pytest.mark.parametrize("code", [code for code in ours(TABLES) if "fn." in code or "images" in code])
def test_every_expression_runs(code, data, monkeypatch):
    monkeypatch.chdir(data["folder"])

    @pipeline_def(batch_size=2, num_threads=1, seed=1)
    def run():
        files, labels = fn.readers.file(file_root="photos", flat_labels=True)
        nodes = {
            "boxes": fn.constant(np.float32([[0.1, 0.2, 0.8, 0.9]])),
            "classes": fn.constant(np.int32([2])),
            "files": files,
            "images": fn.resize(fn.decoders.image(files), size=(48, 64)),
            "labels": labels,
            "masks": fn.decoders.image(files, output_type=types.GRAY),
            "pixel_boxes": fn.constant(np.float32([[10, 20, 80, 90]])),
            "points": fn.constant(np.float32([[10, 20], [80, 90]])),
        }
        result = eval(code, {**data, **nodes})
        result = tuple(result.values()) if isinstance(result, dict) else result
        return tuple(result) if isinstance(result, list | tuple) else result

    assert all(len(output) == 2 for output in run().run())
