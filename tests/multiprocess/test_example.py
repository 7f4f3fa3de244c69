"""Tests of the example that mixes images across devices and processes."""

from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "global_mixup.py"


def test_global_mixup(tmp_path, monkeypatch, execute, launched):
    devices = 4
    monkeypatch.chdir(tmp_path)
    done = execute(launched(2, devices, EXAMPLE))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(f"({16 * devices}, 122, 122, 3) on {2 * devices} devices of 2 processes") == 2
    for process in (0, 1):
        picture = tmp_path / "out" / "global_mixup" / f"process_{process}.png"
        assert picture.read_bytes()[:4] == b"\x89PNG"
