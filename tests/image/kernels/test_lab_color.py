"""Lab in whole numbers: tables that are the same on every processor, and OpenCV's results."""

import os
import subprocess
import sys

import numpy as np
import pytest

from penstock.image.kernels import lab_color

TABLES = """
import hashlib
import numpy as np
from penstock.image.kernels import lab_color as lab
tables = [each for name, each in sorted(vars(lab).items()) if isinstance(each, np.ndarray) and each.dtype != float]
print(len(tables), hashlib.sha256(b"".join(each.tobytes() for each in tables)).hexdigest()[:16])
"""


@pytest.mark.parametrize("without", ["", "X86_V4 AVX512_ICL", "X86_V3 X86_V4 AVX512_ICL"])
def test_tables_do_not_depend_on_the_processor(without):
    environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": without, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", TABLES], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9", "365fea0099119478"]


def test_pixels_are_those_of_opencv():
    cv2 = pytest.importorskip("cv2")
    steps = np.arange(0, 256, 3, dtype=np.uint8)
    pixels = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    there = lab_color.to_lab(np, pixels)
    np.testing.assert_array_equal(there, cv2.cvtColor(pixels, cv2.COLOR_RGB2LAB))
    np.testing.assert_array_equal(lab_color.from_lab(np, there), cv2.cvtColor(there, cv2.COLOR_LAB2RGB))
