"""Programs in dynamic mode give what DALI gives."""

import dynamic_programs
import numpy as np
import penstock.experimental.dynamic as ours
import pytest
import reader_programs

theirs = pytest.importorskip("nvidia.dali.experimental.dynamic", reason="DALI is not installed (dependency group dali)")


def summarize(result):
    """The layout and the samples."""
    tensors = result.tensors if hasattr(result, "batch_size") else [result]
    layout = (result.layout or "").rstrip("*")  # DALI also names axes that have no name
    return layout, str(result.dtype), [np.array(tensor) for tensor in tensors]


def check_equal(actual, expected):
    """Both programs return the same layouts, dtypes and samples."""
    assert len(actual) == len(expected) > 0
    for (layout, kind, samples), (its_layout, its_kind, its_samples) in zip(actual, expected, strict=True):
        assert (layout, kind) == (its_layout, its_kind)
        for sample, other in zip(samples, its_samples, strict=True):
            assert (sample.dtype, sample.shape) == (other.dtype, other.shape)
            wide, off = (np.float64, 1e-5) if sample.dtype.kind == "f" else (np.int64, 0)
            off = 1 if sample.dtype == np.uint8 else off  # images: within 1, as in pipelines
            np.testing.assert_allclose(sample.astype(wide), other.astype(wide), rtol=1e-4, atol=off)


@pytest.mark.parametrize("program", dynamic_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_what_dali_gives(program):
    with theirs.EvalMode.sync_cpu:
        expected = [summarize(result) for result in program(theirs)]
    check_equal([summarize(result) for result in program(ours)], expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images in class folders, and arrays."""
    return reader_programs.write_data(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("program", reader_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_with_readers_gives_what_dali_gives(program, folder):
    expected = [summarize(result) for result in program(theirs, folder)]
    check_equal([summarize(result) for result in program(ours, folder)], expected)


def test_texts_are_those_of_dali():
    texts = []
    for ndd in (theirs, ours):
        values = [ndd.tensor(3), ndd.tensor(dynamic_programs.IMAGE, layout="HWC"), ndd.batch([[1], [2, 3]], layout="W")]
        texts.append([str(value) for value in values] + [repr(value) for value in values])
    assert texts[0] == texts[1]


def test_there_are_25_programs():
    assert len(dynamic_programs.PROGRAMS) >= 25
    assert len(reader_programs.PROGRAMS) >= 15
