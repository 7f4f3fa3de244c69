"""Damaged files of every format: the errors that are promised, never another one, a crash or a hang.

PENSTOCK_MUTATIONS sets the number of damaged files per format and seed, PENSTOCK_ATTACK_SEEDS=3-9 the seeds.
A test ID names the format and the seed; the number of the damaged file is in the message.
"""

import contextlib
import random

import numpy as np
import pytest
from attack_seeds import SEEDS
from damaged_formats import CONTAINERS, ENCODED
from mutations import MUTATIONS, mutated

from penstock import data_iterator, fn
from penstock.errors import SampleError, SourceError

COUNT = MUTATIONS // 10
"""Damaged files per format and seed; 100 in continuous integration."""


def damaged(kind, original, name):
    """Return a damaged file, half of them with valid checksums, or one that is empty, of zeros or of another kind."""
    rng = random.Random(name)
    chance = rng.random()
    if chance < 0.02:
        return rng.choice((b"", bytes(len(original)), b"<html>", original * 2, original[::-1]))
    if chance < 0.1 and len(original) > 64:  # a block that was never written
        start = rng.randrange(len(original))
        data = bytearray(original)
        data[start : start + 512] = bytes(len(data[start : start + 512]))
        return bytes(data)
    data = mutated(original, rng)
    return kind.repair(data) if rng.random() < 0.5 else data


class DamagedSamples:
    """Data set of damaged files and their numbers."""

    def __init__(self, name, seed):
        self.kind, self.name = ENCODED[name], f"{name} {seed}"

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        originals = self.kind.originals
        data = damaged(self.kind, originals[index % len(originals)], f"{self.name} {index}")
        return np.frombuffer(data, np.uint8), np.int64(index)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ENCODED)
def test_damaged_samples(name, seed, capfd):
    data = DamagedSamples(name, seed)

    @data_iterator(output_map=["value", "number", "valid"], reader_name="r", on_error="skip", max_bad_rate=(1.0, 1000))
    def definition():
        encoded, number = fn.readers.items(data, name="r")
        return data.kind.decode(encoded), number

    read = set()
    for batch in definition(batch_size=32, num_threads=2):
        valid, numbers = np.asarray(batch["valid"]), np.asarray(batch["number"])
        read |= set(numbers[valid].tolist())
    refused = set(range(COUNT)) - read
    assert min(len(read), len(refused)) >= COUNT // 50, "the damage is neither always nor never harmless"
    for number in range(0, COUNT, 8):  # what "skip" leaves out is what "raise" raises
        try:
            data.kind.decode(data[number][0])
        except SampleError:
            assert number in refused, number
        else:
            assert number in read, number
    assert capfd.readouterr().err == "", "libraries print what belongs into the error"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CONTAINERS)
def test_damaged_containers(name, seed, tmp_path):
    kind = CONTAINERS[name]
    kind.write(tmp_path)
    file = tmp_path / kind.file
    original = file.read_bytes()
    assert outcome(kind, tmp_path) == "read"
    outcomes = dict.fromkeys(("refused", "some bad", "read"), 0)
    for number in range(COUNT):
        file.write_bytes(damaged(kind, original, f"{name} {seed} {number}"))
        try:
            outcomes[outcome(kind, tmp_path)] += 1
        except Exception as error:
            error.add_note(f"{name}, seed {seed}, number {number}")
            raise
    assert outcomes["refused"] + outcomes["some bad"] >= COUNT // 50


def outcome(kind, folder):
    """Read a damaged data set in both ways, and compare them."""
    try:
        source = kind.read(folder)
    except (SourceError, SampleError):
        return "refused"
    rows, none = np.arange(min(len(source), 200)), [None] * len(source.specs)
    columns, errors = source.read_tolerant(rows, none)
    for column, spec in zip(columns, source.specs, strict=True):
        assert all(spec.accepts(np.asarray(sample)) for row, sample in enumerate(column) if row not in errors)
    again = None
    with contextlib.suppress(SampleError):
        again = source.read(rows, none)
    assert (again is None) == bool(errors), "`read` and `read_tolerant` find the same samples bad"
    if again is None:
        return "some bad"
    for left, right in zip(columns, again, strict=True):
        assert all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(left, right, strict=True))
    return "read"
