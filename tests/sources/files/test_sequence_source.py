"""Sequences of images in folders; DALI reads the same ones in tests/dali/test_readers.py."""

import numpy as np
import pytest
from PIL import Image

from penstock import Pipeline, fn, ops, types
from penstock.errors import DefinitionError, PenstockError, SourceError, SourceNotFoundError
from penstock.sources.files.sequence_source import SequenceSource
from penstock.testing import check_bad_samples, check_source


@pytest.fixture
def folders(tmp_path):
    """Images in two folders; what else lies there does not count."""
    for number, name in enumerate(("b/1.png", "b/10.png", "b/2.PNG", "a/x.png", "a/y.png", ".c/z.png", "b/.h.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 6 + (name[0] == "a"), 3), number, np.uint8)).save(tmp_path / name)
    (tmp_path / "b" / "x.txt").write_text("no image")
    (tmp_path / "empty").mkdir()
    return tmp_path


def frames(root, rows, **options):
    with Pipeline(batch_size=rows) as pipeline:
        pipeline.set_outputs(fn.readers.sequence(file_root=root, **options))
    return [sample[:, 0, 0, 0].tolist() for sample in pipeline.run()[0]]


def source(root, length, step=1, stride=1):
    return SequenceSource(str(root), ("[!.]*.png",), length, step, stride)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sequence_length": 1}, [[3], [4], [0], [1], [2]]),
        ({"sequence_length": 2}, [[3, 4], [0, 1], [1, 2]]),
        ({"sequence_length": 2, "step": 2}, [[3, 4], [0, 1]]),
        ({"sequence_length": 2, "stride": 2}, [[0, 2]]),
        ({"sequence_length": 3, "image_type": types.GRAY}, [[0, 1, 2]]),
    ],
    ids=str,
)
def test_sequences(folders, options, expected):
    assert frames(folders, len(expected), **options) == expected


def test_the_source(folders):
    found = source(folders, 2)
    check_source(found)
    assert found.describe(1) == f"{folders}/b/1.png to {folders}/b/10.png"
    assert source(folders, 1).describe(0) == f"{folders}/a/x.png"
    assert found.reads_same_samples(source(folders, 2))
    others = [source(folders, *each) for each in ((1,), (2, 2), (2, 1, 2))]
    assert not any(map(found.reads_same_samples, others))
    assert len({each.fingerprint() for each in (found, *others)}) == 4
    (folders / "b" / "10.png").unlink()
    check_bad_samples(found, [1, 2])


def test_frames_that_cannot_be_decoded(folders):
    Image.new("RGB", (5, 5)).save(folders / "b" / "10.png")
    with pytest.raises(PenstockError, match=r"sample 1 .*frame 1 of the sequence: uint8\[5, 5, 3\], but \[4, 6, 3\]"):
        frames(folders, 3, sequence_length=2)
    (folders / "b" / "10.png").write_bytes(b"no image")
    with pytest.raises(PenstockError, match=r"(?s)sample 1 .*frame 1 of the sequence"):
        frames(folders, 3, sequence_length=2)


def test_definitions(folders):
    for options in ({"sequence_length": 0}, {"sequence_length": 1, "step": 0}, {"sequence_length": 1, "stride": -1}):
        with Pipeline(batch_size=1), pytest.raises(DefinitionError, match="is out of range"):
            fn.readers.sequence(file_root=folders, **options)
    with pytest.raises(SourceError, match="has the 4 files of a sequence"):
        source(folders, 4)
    with pytest.raises(SourceNotFoundError, match="is no folder"):
        source(folders / "none", 1)
    with Pipeline(batch_size=1) as pipeline:
        older = ops.SequenceReader(file_root=str(folders), sequence_length=2)()
        pipeline.set_outputs(older, ops.readers.Sequence(file_root=str(folders), sequence_length=2, stride=2)())
    assert [output.at(0)[:, 0, 0, 0].tolist() for output in pipeline.run()] == [[3, 4], [0, 2]]
