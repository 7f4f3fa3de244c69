"""Programs in dynamic mode give what DALI gives."""

import dynamic_programs
import numpy as np
import penstock.experimental.dynamic as ours
import pytest

theirs = pytest.importorskip("nvidia.dali.experimental.dynamic", reason="DALI is not installed (dependency group dali)")


def summarize(result):
    """The layout and the samples."""
    tensors = result.tensors if hasattr(result, "batch_size") else [result]
    layout = (result.layout or "").rstrip("*")  # DALI also names axes that have no name
    return layout, str(result.dtype), [np.array(tensor) for tensor in tensors]


@pytest.mark.parametrize("program", dynamic_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_what_dali_gives(program):
    with theirs.EvalMode.sync_cpu:
        expected = [summarize(result) for result in program(theirs)]
    actual = [summarize(result) for result in program(ours)]
    assert len(actual) == len(expected)
    for (layout, kind, samples), (its_layout, its_kind, its_samples) in zip(actual, expected, strict=True):
        assert (layout, kind) == (its_layout, its_kind)
        for sample, other in zip(samples, its_samples, strict=True):
            assert (sample.dtype, sample.shape) == (other.dtype, other.shape)
            wide, off = (np.float64, 1e-5) if sample.dtype.kind == "f" else (np.int64, 0)
            off = 1 if sample.dtype == np.uint8 else off  # images: within 1, as in pipelines
            np.testing.assert_allclose(sample.astype(wide), other.astype(wide), rtol=1e-4, atol=off)


def test_there_are_25_programs():
    assert len(dynamic_programs.PROGRAMS) >= 25
