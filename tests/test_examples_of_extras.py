"""The examples that need packages besides those of the group examples run, and reach what their headers promise."""

import re

import pytest

from tests.test_examples import ROOT, run, write_cifar10


@pytest.mark.slow
def test_from_a_store(tmp_path):
    pytest.importorskip("obstore", reason="obstore is not installed (extra stores)")
    out = run(ROOT / "examples" / "from_a_store.py", cwd=tmp_path)
    assert re.findall(r"^epoch \d: (.*) photographs by class$", out, re.MULTILINE) == ["[72, 24]"] * 3
    assert int(re.search(r"^the server sent (\d+) files", out, re.MULTILINE)[1]) == 96 + 2  # each once, and the lists


@pytest.mark.slow
def test_input_hosts_with_ray(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed (dependency group test-all)")
    pytest.importorskip("grpc", reason="grpcio is not installed (extra hosts)")
    # A host that begins later may find no rows left; tests/engine/input_hosts/ checks how rows are distributed. On a
    # busy machine, both begin later if they have to compile loops. The second time, these are in the cache.
    for _ in range(2):
        out = run(ROOT / "examples" / "input_hosts_with_ray.py", cwd=tmp_path)
        assert "the batches of 2 hosts are those of this process" in out
        worked = re.search(r"^2 input hosts \(.*, (?!0\.0)\d+\.\d MB", out, re.MULTILINE)
        if worked:
            break
    assert worked, "the hosts have computed rows"


def test_hugging_face(tmp_path):
    pytest.importorskip("datasets", reason="datasets is not installed (dependency group test-all)")
    out = run(ROOT / "examples" / "hugging_face.py", cwd=tmp_path)
    assert "batches of bfloat16[64, 16, 16, 1], labels [64]" in out
    assert float(re.search(r"^test accuracy ([\d.]+) after 10 epochs$", out, re.MULTILINE)[1]) >= 0.93


@pytest.mark.slow
def test_rand_augment_on_cifar10_in_small(tmp_path):
    pytest.importorskip("flax", reason="Flax is not installed (dependency group training)")
    folder = write_cifar10(tmp_path / "cifar-10-batches-bin", 256)
    out = run(
        ROOT / "examples" / "rand_augment_cifar10.py",
        folder,
        "--epochs",
        1,
        "--batch-size",
        64,
        "--devices",
        1,
        cwd=tmp_path,
    )
    for name in ("plain", "RandAugment"):
        assert float(re.search(rf"^{name}: test accuracy ([\d.]+) after 1 epochs", out, re.MULTILINE)[1]) > 0.15
