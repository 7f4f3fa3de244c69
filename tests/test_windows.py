"""What Penstock does on Windows, whose missing functions `windows_imitation` takes away."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent

DEFINITIONS = """
from penstock import data_iterator, fn
from penstock.launch import launch

@data_iterator
def photographs():
    files, labels = fn.readers.file(file_root="photographs")
    return {"x": fn.resize(fn.decoders.image(files), size=[8, 8]), "label": labels}

def square(sample):
    return [sample.idx_in_epoch**2]

@data_iterator
def numbers():
    return {"x": fn.external_source(square, parallel=True, batch=False)}
"""


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support"), *sys.path])},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def run_program(folder, program):
    (folder / "program.py").write_text(DEFINITIONS + program)
    start = "import windows_imitation, runpy; windows_imitation.imitate(); runpy.run_path('program.py')"
    return run(folder, "-c", start)


@pytest.fixture
def photographs(tmp_path):
    rng = np.random.default_rng(3)
    for name in ("a", "b"):
        (tmp_path / "photographs" / name).mkdir(parents=True)
        for number in range(4):
            # Files with the bytes that Windows changes in text.
            pixels = rng.integers(0, 256, (20, 30, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photographs" / name / f"{number}.png", compress_level=0)
    return tmp_path


def test_a_folder_of_photographs_and_a_cache(photographs):
    done = run_program(
        photographs,
        """
@data_iterator
def cached():
    files, labels = fn.readers.file(file_root="photographs")
    return {"x": fn.cache(fn.resize(fn.decoders.image(files), size=[8, 8]), path="cache"), "label": labels}

expected = list(photographs(batch_size=4))
assert len(expected) == 2
for _ in range(2):
    batches = cached(batch_size=4)
    for batch, other in zip(batches, expected, strict=True):
        assert (batch["x"] == other["x"]).all() and (batch["label"] == other["label"]).all()
# At least: the iterator also reads ahead into the next epoch.
print(batches.stats()["cache: hits"].samples >= 8)
""",
    )
    assert done.stdout == "True\n", done.stderr
    assert not done.stderr


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("next(photographs(batch_size=4, num_processes=2))", "share the memory of batches with worker processes"),
        ("next(numbers(batch_size=4))", "share the memory of batches with worker processes"),
        ("launch(['python'], 2)", "run a job of several processes"),
    ],
    ids=["processes", "parallel source", "launch"],
)
def test_what_is_refused(photographs, program, error):
    done = run_program(photographs, program)
    assert "penstock.errors.UsageError: " in done.stderr
    assert f"Windows cannot {error}" in done.stderr
    assert "WSL2" in done.stderr


@pytest.mark.slow  # with the packages that read the formats
def test_tests_of_formats_and_checkpoints():
    options = ["-p", "windows_imitation", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    folders = ["tests/sources/formats", "tests/sources/order", "tests/train/test_checkpoint.py"]
    done = run(ROOT, "-m", "pytest", "-q", *options, *folders)
    assert done.returncode == 0, done.stdout
