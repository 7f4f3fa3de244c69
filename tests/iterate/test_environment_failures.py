"""Tests that failures of the environment end the run with their cause, regardless of `on_error`."""

import errno
import io
import os

import numpy as np
import pytest
from PIL import Image

from penstock import data_iterator, fn
from penstock.errors import MissingExtraError, ResourceError, resource_error
from penstock.operators.decoders.image import DecodeImage
from penstock.operators.elementwise.one_hot import OneHot
from penstock.sources.files import file_source

CAUSES = {
    "no module": (ModuleNotFoundError("No module named 'nvidia'"), "No module named 'nvidia'"),
    "an extra": (MissingExtraError("lz4", "lz4", "a decoder"), r"a decoder needs(.|\n)*pip install"),
    "memory": (MemoryError("Unable to allocate 8 TiB"), "Unable to allocate 8 TiB"),
    "files": (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), "Too many open files"),
    "disk": (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
}


def png():
    file = io.BytesIO()
    Image.fromarray(np.full((4, 5, 3), 9, np.uint8)).save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


class Failing:
    """Function that fails after a number of successful calls."""

    def __init__(self, error, good=1 << 30):
        self.error, self.good = error, good

    def __call__(self, *_, **__):
        if self.good <= 0:
            raise self.error
        self.good -= 1
        return np.int32(1)


def by_sample(failing, monkeypatch, tmp_path):
    del monkeypatch, tmp_path
    return fn.python_function(
        fn.readers.arrays(np.arange(8), name="r"), function=lambda number: failing(number), dtype=np.int32, ndim=0
    )


def by_batch(failing, monkeypatch, tmp_path):
    del tmp_path
    batch = OneHot.batch

    def kernel(self, context, *inputs, **arguments):
        failing()
        return batch(self, context, *inputs, **arguments)

    monkeypatch.setattr(OneHot, "batch", kernel)
    return fn.one_hot(fn.readers.arrays(np.arange(8), name="r"), num_classes=8)


def by_image(failing, monkeypatch, tmp_path):
    del tmp_path
    decode_region = DecodeImage.decode_region

    def kernel(self, *arguments):
        failing()
        return decode_region(self, *arguments)

    monkeypatch.setattr(DecodeImage, "decode_region", kernel)
    return fn.resize(fn.decoders.image(fn.readers.arrays(np.stack([png()] * 8), name="r")), size=(3, 3))


def by_reader(failing, monkeypatch, tmp_path):
    content = file_source.read_file

    def kernel(path, **options):
        failing()
        return content(path, **options)

    paths = [tmp_path / f"{number}.bin" for number in range(8)]
    for path in paths:
        path.write_bytes(bytes(4))
    monkeypatch.setattr(file_source, "read_file", kernel)
    return fn.reshape(fn.readers.file(files=paths, name="r")[0], shape=[4])


def by_items(failing, monkeypatch, tmp_path):
    del monkeypatch, tmp_path

    class Items:
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index > 1 and index < 7:
                failing()
            return np.array(index)

    return fn.readers.items(Items(), name="r")


def started(where, on_error, failing, *places):
    """Return an iterator after its first batch."""
    names = ["x", "valid"] if on_error == "skip" else ["x"]
    limits = {} if on_error == "raise" else {"max_bad_rate": (1.0, 1000)}
    make = data_iterator(lambda: where(failing, *places), names, reader_name="r", on_error=on_error, **limits)
    iterator = make(batch_size=2, exec_async=False)
    next(iterator)
    return iterator


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("where", [by_sample, by_batch, by_image, by_reader, by_items])
def test_environment_failure_ends_run(where, on_error, cause, monkeypatch, tmp_path):
    error, said = CAUSES[cause]
    failing = Failing(error)
    iterator = started(where, on_error, failing, monkeypatch, tmp_path)
    failing.good = 0
    with pytest.raises((ResourceError, type(error)), match=said) as raised:
        next(iterator)
    causes = [raised.value]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    assert error in causes
    assert not any(iterator.stats().get("bad samples", {}).values())


@pytest.mark.parametrize("on_error", ["skip", "replace"])
@pytest.mark.parametrize("where", [by_batch, by_image])
def test_failure_in_retried_batch_counts(where, on_error, monkeypatch, tmp_path):
    failing = Failing(ValueError("something else"))
    iterator = started(where, on_error, failing, monkeypatch, tmp_path)
    errors = iter([ValueError("something else")])

    def change(*_):
        raise next(errors, MemoryError())

    monkeypatch.setattr(Failing, "__call__", change)
    with pytest.raises(ResourceError, match="out of memory"):
        next(iterator)


def test_loop_that_numba_cannot_compile_ends_run():
    numba = pytest.importorskip("numba")

    @numba.njit
    def wrong(value):
        return value.nothing

    with pytest.raises(numba.core.errors.TypingError) as raised:
        wrong(1)
    assert "Numba cannot compile" in str(resource_error(raised.value))
    assert resource_error(ValueError("a bad sample")) is None
