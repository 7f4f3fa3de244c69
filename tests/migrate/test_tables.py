"""The right column of the tables in docs/how-to/migrate: each name exists, and each expression of nodes runs."""

import ast
import re

import jax
import numpy as np
import pytest
from migration_tables import MEAN, OURS, PAGES, STD, correspondences, differences, unknown_names

from penstock import fn, pipeline_def, types
from penstock.core.foreign_names import FOREIGN
from penstock.testing import write_photographs, write_videos

TABLES = ("albumentations.md", "grain.md", "pytorch.md", "tf-data.md")
PAGE_OF_LIBRARY = {
    "Grain": "grain.md",
    "PyTorch": "pytorch.md",
    "albumentations": "albumentations.md",
    "tf.data": "tf-data.md",
    "tf.image": "tf-data.md",
    "torchvision": "pytorch.md",
}
# Their files are tested with the readers; here, their names and arguments are.
OTHER_FILES = ("fn.readers.array_record(", "fn.readers.parquet(", "fn.readers.tfrecord(")


def ours(page):
    """Return the snippets of Penstock in the tables of a page, each once."""
    codes = [code for row in correspondences(page) for code in row.ours] + [row[1] for row in differences(page)]
    return list(dict.fromkeys(codes))


class Dataset:
    """An object with a length and items by index."""

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return {"image": np.full((48, 64, 3), index, np.uint8), "label": np.int32(index)}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """What the snippets of the pages name, and the folder in which they run."""
    folder = tmp_path_factory.mktemp("pages")
    photos = write_photographs(folder / "photos", samples_per_class=2)
    videos = write_videos(folder / "videos", samples_per_class=1, num_frames=40, size=(32, 32))
    return folder, {
        **OURS,
        "MEAN": MEAN,
        "STD": STD,
        "dataset": Dataset(),
        "f": lambda image, *_: image,
        "generate": lambda: (yield from np.zeros((2, 3), np.float32)),
        "indices": np.arange(10),
        "items": Dataset(),
        "paths": sorted(photos.rglob("*.jpg")),
        "source": lambda info: np.full((4, 4), info.idx_in_epoch, np.int32),
        "targets": [0, 0, 1, 1, 2, 2],
        "videos": sorted(map(str, videos.rglob("*.mp4"))),
        "weights": np.ones(20),
        "x": np.zeros((20, 3), np.float32),
        "y": np.zeros(20, np.int32),
    }


@pytest.mark.parametrize("page", TABLES)
def test_every_name_of_penstock_exists(page):
    assert {code: wrong for code in ours(page) if (wrong := unknown_names(code, OURS))} == {}


def errors_of(codes, data, monkeypatch):
    """Run expressions of nodes in definitions, and return the error of each that fails."""
    folder, names = data
    monkeypatch.chdir(folder)

    @pipeline_def(batch_size=2, num_threads=1, seed=1)
    def run(code):
        files, labels = fn.readers.file(file_root="photos", flat_labels=True)
        nodes = {
            "boxes": fn.constant(np.float32([[0.1, 0.2, 0.8, 0.9]])),
            "classes": fn.constant(np.int32([2])),
            "data": files,
            "files": files,
            "images": fn.resize(fn.decoders.image(files), size=(48, 64)),
            "labels": labels,
            "masks": fn.decoders.image(files, output_type=types.GRAY),
            "pixel_boxes": fn.constant(np.float32([[10, 20, 80, 90]])),
            "points": fn.constant(np.float32([[10, 20], [80, 90]])),
        }
        result = eval(code, {**names, **nodes})
        result = tuple(result.values()) if isinstance(result, dict) else result
        return tuple(result) if isinstance(result, list | tuple) else result

    errors = {}
    for code in codes:
        try:
            assert all(len(output) == 2 for output in run(code=code).run())
        except Exception as error:  # noqa: BLE001  # the errors of all snippets are reported together
            errors[code] = error
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("page", TABLES)
def test_every_expression_of_nodes_runs(page, data, monkeypatch):
    codes = [code for code in ours(page) if re.search(r"\bfn\.|\bimages\b", code) and not code.startswith(OTHER_FILES)]
    assert len(codes) >= 9
    assert errors_of(codes, data, monkeypatch) == {}


def test_other_snippets_run(data):
    _, names = data
    sharding = jax.NamedSharding(jax.make_mesh((jax.device_count(),), ("batch",)), jax.P("batch"))
    for page in TABLES:
        for code in ours(page):
            if code.startswith(("@", "train.", "len(", "iterator")):
                eval(code.removeprefix("@"), {**names, "sharding": sharding})


def test_every_foreign_name_is_on_the_page_of_its_library():
    """The table of `penstock.core.foreign_names` is what errors say; the pages say more."""
    missing = [
        (library, name)
        for name, (library, _) in FOREIGN.items()
        if not any(
            re.search(rf"\b{name}\b", code) for row in correspondences(PAGE_OF_LIBRARY[library]) for code in row.theirs
        )
    ]
    assert missing == []


def is_expression(code):
    """Return whether a text is a complete expression, without dots for what the user fills in."""
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return "..." not in code


def test_the_code_that_errors_suggest_runs(data, monkeypatch):
    wrong = {}
    for name, (_, fix) in FOREIGN.items():
        for call in re.findall(r"(?:penstock|fn|types|train)(?:\.\w+)+", fix):
            if unknown := unknown_names(call, OURS):
                wrong[name] = unknown
    assert wrong == {}
    # 224 x 224 is too large for the images of this test.
    complete = [fix.replace("224", "32") for _, fix in FOREIGN.values() if is_expression(fix) and "fn." in fix]
    assert len(complete) >= 35
    folder, names = data
    assert errors_of(complete, (folder, {**names, "folder": "photos"}), monkeypatch) == {}


def test_every_page_has_both_programs():
    for page in TABLES:
        text = (PAGES / page).read_text()
        assert "## A program in both" in text
        assert "## What differs in numbers" in text
