"""Fields of arrays, read from their C structures."""

import numpy as np
import pytest

from penstock.native.argument_block import address
from penstock.native.array_fields import FIELDS, locate_bytes, references
from penstock.native.compiled import Compiled

BYTES = np.arange(60, dtype=np.uint8)


@Compiled
def locate_all(objects, fields, fields_address, places):
    for n in range(objects.shape[0]):
        places[n, 1] = locate_bytes(objects[n], fields, fields_address)
        places[n, 0] = fields[0]


@pytest.mark.parametrize("form", [locate_all, locate_all.python_function], ids=["compiled", "Python"])
def test_consecutive_bytes_are_located(form, tmp_path):
    BYTES.tofile(tmp_path / "file")
    mapped = np.memmap(tmp_path / "file", np.uint8, "r")
    arrays = [BYTES, BYTES[7:], BYTES[7:9], BYTES[3:3], mapped[5:], np.frombuffer(b"text", np.int8), np.ones(3, bool)]
    others = [BYTES[::2], BYTES[::-1], BYTES.reshape(6, 10), BYTES[0:1].reshape(()), np.arange(4, dtype=np.int16)]
    objects = arrays + others
    fields, places = np.empty(FIELDS, np.int64), np.empty((len(objects), 2), np.int64)
    form(references(objects), fields, address(fields), places)
    assert places[: len(arrays)].tolist() == [[address(array), array.size] for array in arrays]
    assert places[len(arrays) :, 1].tolist() == [0] * len(others)
