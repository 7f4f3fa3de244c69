"""CIFAR-10 in small: 66 records in two files, each with its number in its pixels."""

from __future__ import annotations

import numpy as np
import pytest

COUNT = 66


def record(number):
    """A record whose pixels tell its number, and its channels apart."""
    pixels = np.stack([np.full((32, 32), number), np.full((32, 32), 2 * number), np.arange(1024).reshape(32, 32)])
    return bytes([number % 10]) + pixels.astype(np.uint8).tobytes()


@pytest.fixture(scope="session")
def cifar(tmp_path_factory):
    """The folder."""
    folder = tmp_path_factory.mktemp("cifar-10-batches-bin")
    for name, numbers in (("data_batch_1.bin", range(40)), ("data_batch_2.bin", range(40, COUNT))):
        (folder / name).write_bytes(b"".join(map(record, numbers)))
    (folder / "test_batch.bin").write_bytes(b"".join(map(record, range(10))))
    (folder / "batches.meta.txt").write_text("airplane\n")
    return folder
