"""Tests that the programs of docs/training.md run on small data and have the documented lengths."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
PROGRAMS = dict(re.findall(r"<!-- program: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def lines(program):
    """Count the lines of code without comments and blank lines."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in program.splitlines())


@pytest.mark.parametrize(("name", "row"), [("flax", "Flax CNN"), ("equinox", "Equinox MLP")])
def test_program_lengths_match_documentation(name, row):
    written = int(re.search(rf"^\| {row}.* \| (\d+) \|$", PAGE, re.MULTILINE)[1])
    assert lines(PROGRAMS[name]) == written <= 40


def write_idx(path, values):
    header = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(header + values.tobytes())


@pytest.fixture
def as_a_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield tmp_path


@pytest.mark.slow
def test_flax_program_runs(as_a_program, capsys):
    import flax.linen as nn

    class Small(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.log_softmax(nn.Dense(10)(x.reshape(len(x), -1)))

    folder = as_a_program / "fashion-mnist"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 600), ("t10k", 101)):
        labels = rng.integers(0, 10, count, np.uint8)
        images = np.where(np.arange(28) // 2 == labels[:, None, None], 255, rng.integers(0, 30, (count, 28, 1)))
        write_idx(folder / f"{split}-images-idx3-ubyte", images.astype(np.uint8))
        write_idx(folder / f"{split}-labels-idx1-ubyte", labels)
    names = {"CNN": Small}
    exec(compile(PROGRAMS["flax"], "training.md", "exec"), names)
    loop = names["loop"]
    assert (loop.step, loop.epoch) == (10, 5)
    assert loop.history.epochs[-1]["test accuracy"] > 0.9
    assert (as_a_program / "learning_curves.png").read_bytes()[:4] == b"\x89PNG"
    assert "epoch 5/5: loss" in capsys.readouterr().out


def test_equinox_program_runs(as_a_program, capsys):
    import equinox as eqx

    names = {"model": eqx.nn.MLP(4, 4, 32, 1, key=jax.random.key(6789))}
    exec(compile(PROGRAMS["equinox"], "training.md", "exec"), names)
    assert names["loop"].step == 10
    assert 0.4 < float(capsys.readouterr().out) < 0.5
