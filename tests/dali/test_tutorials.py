"""DALI's tutorials as whole programs, in our words: each is run by both libraries, and only its imports differ."""

import gc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

PROGRAMS = sorted((Path(__file__).parent / "tutorials").glob("*.py"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, jpeg):
    """Ten pictures of several sizes."""
    path, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(2)
    for number in range(10):
        coarse = draw.integers(0, 256, (3 + number % 4, 4, 3), np.uint8)
        (path / f"{number}.jpg").write_bytes(jpeg(np.kron(coarse, np.ones((8, 8, 1), np.uint8))))
    return path


def batches(path, folder, old, new):
    """What a program yields: per batch the layouts of its outputs, and all samples; or the end of an epoch."""
    program = {"__name__": path.stem}
    exec(compile(path.read_text().replace(old, new), path, "exec"), program)
    for batch in program["main"](folder):
        if isinstance(batch, str):
            yield batch, []
        else:
            yield [(output.layout(), len(output)) for output in batch], [np.array(s) for o in batch for s in o]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_a_tutorial_gives_what_it_gives_in_dali(path, folder):
    theirs = batches(path, folder, "debug=True", "debug=False")  # DALI's debug mode needs a GPU
    mine = batches(path, folder, "nvidia.dali", "penstock")
    for number, ((said, samples), (expected, others)) in enumerate(zip(mine, theirs, strict=True)):
        assert said == expected, f"batch {number}"
        for one, other in zip(samples, others, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), f"batch {number}"
            np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=f"batch {number}")
    gc.collect()  # DALI leaves sockets open
