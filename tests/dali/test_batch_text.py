"""`str` of batches equals DALI's."""

import numpy as np
import pytest

from penstock.tensors import TensorListCPU

theirs = pytest.importorskip("nvidia.dali.tensors", reason="DALI is not installed (dependency group dali)")

RNG = np.random.default_rng(1)
BATCHES = {
    "numbers": ([np.int16(n) for n in range(3)], ""),
    "vectors": ([RNG.random(20).astype(np.float32) for _ in range(2)], "X"),
    "vectors of different lengths": ([np.float32([1.5, 2]), np.float32([3])], ""),
    "matrices of different shapes": ([np.arange(4).reshape(2, 2), np.arange(2).reshape(1, 2)], "HW"),
    "cubes": ([np.zeros((2, 2, 2), np.uint8)] * 2, ""),
    "empty samples": ([np.zeros(0, np.uint8)] * 2, ""),
    "flags": ([np.array([True, False])] * 2, ""),
    "large images": ([np.zeros((50, 60, 3), np.uint8)] * 3, "HWC"),
    "many large images": ([np.zeros((50, 60, 3), np.uint8)] * 12, "HWC"),
    "many shapes": ([np.zeros(n, np.float64) for n in range(1, 18)], ""),
    "shapes of several lines": ([np.zeros((n, 40), np.uint8) for n in range(1, 12)], "AB"),
    "sixteen samples": ([np.zeros(3, np.float16)] * 16, ""),
}


@pytest.mark.parametrize("name", BATCHES)
def test_text_equals_dali(name):
    samples, layout = BATCHES[name]
    assert str(TensorListCPU(samples, layout)) == str(
        theirs.TensorListCPU([theirs.TensorCPU(sample) for sample in samples], layout)
    )
