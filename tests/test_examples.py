"""The examples run, and reach what their headers promise on a part of the data.

`make test` runs them once, in the environment that has what the group examples installs, and no more.
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]


def run(*arguments, cwd):
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_train_mnist_on_the_digits(tmp_path):
    out = run(ROOT / "examples" / "train_mnist.py", "--epochs", 4, cwd=tmp_path)
    for half in ("sharding", "pmap"):
        assert float(re.search(rf"^{half}: test accuracy ([\d.]+) after", out, re.MULTILINE)[1]) >= 0.93
    assert "plan of training_pipeline" in out
    for picture in ("learning_curves.png", "batch_by_device.png"):
        assert (tmp_path / "out" / "train_mnist" / picture).read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_imagenet_input_on_photographs(tmp_path):
    script = ROOT / "examples" / "imagenet_input.py"
    out = run(script, "--epochs", 2, "--batch-size", 40, cwd=tmp_path)
    assert "resize                      host   in crop_mirror_normalize" in out
    assert "training: 2 epochs of 3 batches, 240 images" in out
    assert "evaluation: 2 epochs of 3 batches, 192 images" in out
    assert (tmp_path / "out" / "imagenet_input" / "batch_by_device.png").read_bytes()[:4] == b"\x89PNG"


def test_two_views(tmp_path):
    out = run(ROOT / "examples" / "two_views.py", cwd=tmp_path)
    assert "6 batches of (16, 96, 96, 3)" in out
    same, other = (float(value) for value in re.findall(r"photographs?: (-?[\d.]+)$", out, re.MULTILINE))
    assert same > other + 0.1
    with Image.open(tmp_path / "out" / "two_views" / "views.png") as picture:
        assert picture.size == (4 * 96, 8 * 96)


@pytest.mark.slow
def test_detection(tmp_path):
    out = run(ROOT / "examples" / "detection.py", cwd=tmp_path)
    assert int(re.search(r"^48 images with (\d+) boxes$", out, re.MULTILINE)[1]) > 60
    assert float(re.search(r"the part inside: ([\d.]+)$", out, re.MULTILINE)[1]) > 0.9
    with Image.open(tmp_path / "out" / "detection" / "boxes.png") as picture:
        assert picture.size == (4 * 160, 3 * 160)


@pytest.mark.slow
def test_segmentation(tmp_path):
    out = run(ROOT / "examples" / "segmentation.py", cwd=tmp_path)
    assert "masks (48, 160, 160, 1), classes [0, 1, 2, 3, 255]" in out
    assert float(re.search(r"have their colour: ([\d.]+)$", out, re.MULTILINE)[1]) > 0.88
    with Image.open(tmp_path / "out" / "segmentation" / "masks.png") as picture:
        assert picture.size == (4 * 160, 4 * 160)


@pytest.mark.slow
def test_a_source_in_worker_processes(tmp_path):
    out = run(ROOT / "examples" / "python_source.py", cwd=tmp_path)
    assert "2 processes drew 6 batches; this one drew none" in out
    assert "the other half is the same: True" in out


def test_damaged_photographs(tmp_path):
    out = run(ROOT / "examples" / "damaged_photographs.py", cwd=tmp_path)
    assert "5 of 96 photographs are damaged" in out
    assert out.count("12 steps, loss") == 2
    assert "quarantine: 5 files, such as " in out


def test_a_program_in_the_older_spelling(tmp_path):
    out = run(ROOT / "examples" / "older_dali.py", "--epochs", 1, "--batch-size", 40, cwd=tmp_path)
    assert "epoch 0: 3 batches of (40, 3, 224, 224)" in out


def test_plan_prints_the_plans_of_a_program(tmp_path):
    script = ROOT / "examples" / "train_mnist.py"
    out = run("-m", "penstock.cli", "plan", "--placement", "device", script, "--devices", 2, cwd=tmp_path)
    assert out.count("plan of training_pipeline") == 2
    assert "plan of validation_pipeline" in out
    assert "crosses to the device: decoders.image uint8[28, 28, 1] HWC" in out
    assert not list(tmp_path.rglob("*.png"))


def test_conditions_choose_row_by_row(tmp_path):
    out = run(ROOT / "examples" / "conditions.py", cwd=tmp_path)
    flipped, dark = map(int, re.search(r"^64 images: (\d+) flipped, (\d+) brightened", out).groups())
    assert 20 < flipped < 44
    assert 15 < dark < 45
    assert "conditional.select" in out


def write_cifar10(folder, count):
    """Records whose class shows in their colour."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for name in ("data_batch_1.bin", "test_batch.bin"):
        labels = np.arange(count) % 10
        colours = np.stack([25 * labels, 250 - 25 * labels, 90 * (labels % 3)], axis=1)[:, :, None]
        pixels = np.clip(colours + rng.normal(0, 20, (count, 3, 1024)), 0, 255).astype(np.uint8)
        (folder / name).write_bytes(b"".join(bytes([n]) + p.tobytes() for n, p in zip(labels, pixels, strict=True)))
    return folder


@pytest.mark.slow
def test_rocals_notebook_in_small(tmp_path):
    folder = write_cifar10(tmp_path / "cifar-10-batches-bin", 640)
    script = ROOT / "examples" / "rocal_cifar10.py"
    out = run(script, folder, "--epochs", 2, "--rate", 0.01, "--devices", 4, cwd=tmp_path)
    assert "10 training and 40 test batches on 4 cpu devices" in out
    for half in ("sharding", "pmap"):
        assert float(re.search(rf"^{half}: epoch 2, test accuracy ([\d.]+)", out, re.MULTILINE)[1]) >= 0.8


@pytest.mark.slow
def test_rocals_sample_in_small(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(8):
        (tmp_path / f"class{number // 4}").mkdir(exist_ok=True)
        pixels = rng.integers(0, 256, (300, 250 + 10 * number, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"class{number // 4}" / f"{number}.JPEG")
    out = run(
        ROOT / "examples" / "rocal_classification.py",
        tmp_path,
        "--epochs",
        1,
        "--batch",
        2,
        "--devices",
        2,
        cwd=tmp_path,
    )
    assert "2 batches: images float16(4, 224, 224, 3), labels int32(4,)" in out
    assert "2 classes, 2 devices" in out
