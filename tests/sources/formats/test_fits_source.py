"""FITS files: what is read equals what astropy reads, and what is damaged is named."""

import io
import random
import sys

import numpy as np
import pytest
from astropy.io import fits
from mutations import MUTATIONS, mutated

from penstock import Pipeline, fn, types
from penstock.errors import MissingExtraError, PenstockError, SourceError
from penstock.sources.files.file_selection import FileSelection
from penstock.sources.formats.fits_source import FitsSource
from penstock.testing import check_bad_samples, check_source

PIXELS = np.random.default_rng(5).integers(0, 100, (2, 30, 40))

DTYPES = ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


def scaled(dtype):
    unit = fits.ImageHDU(PIXELS.astype(np.float64))
    unit.scale(dtype, bscale=0.5, bzero=3)
    return unit


def blank():
    unit = fits.ImageHDU(PIXELS.astype(np.int16))
    unit.header["BLANK"] = int(PIXELS[0, 0, 0])
    return unit


UNITS = {
    **{
        name: fits.ImageHDU(PIXELS.astype(name))
        for name in ["u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
    },
    "scaled short": scaled("int16"),
    "scaled long": scaled("int32"),
    "blank": blank(),
    "vector": fits.ImageHDU(PIXELS[0, 0].astype("f4")),
    **{kind: fits.CompImageHDU(PIXELS.astype("i2"), compression_type=kind) for kind in ("RICE_1", "GZIP_2")},
    "compressed floats": fits.CompImageHDU(PIXELS.astype("f4") / 7, compression_type="RICE_1"),
}


def written(units, first=None, checksum=True):
    file = io.BytesIO()
    units = units if isinstance(units, list) else [units]
    fits.HDUList([fits.PrimaryHDU(first), *units]).writeto(file, checksum=checksum)
    return file.getvalue()


def source(folder, places=(2,), dtypes=None):
    return FitsSource(FileSelection(str(folder), None, None, "*.fits"), places, dtypes)


def test_images_are_those_of_astropy(tmp_path):
    (tmp_path / "0.fits").write_bytes(written([*UNITS.values()], first=PIXELS[0].astype("f4")))
    (tmp_path / "1.fits").write_bytes(written([*UNITS.values()], first=PIXELS[1, :9].astype("f4"), checksum=False))
    places = tuple(range(len(UNITS) + 1, 0, -1))
    found = source(tmp_path, places)
    check_source(found)
    columns = found.read(np.arange(2), [None] * len(places))
    for number in range(2):
        with fits.open(tmp_path / f"{number}.fits") as units:
            for place, column in zip(places, columns, strict=True):
                expected = units[place - 1].data
                assert column[number].dtype == expected.dtype.newbyteorder("=")
                assert np.array_equal(column[number], expected, equal_nan=expected.dtype.kind == "f")
    assert np.isnan(columns[places.index(2 + list(UNITS).index("blank"))][0]).any()
    assert found.source_info(1) == "./1.fits"
    for other in (source(tmp_path, places[:1]), source(tmp_path, (1,))):
        assert not found.reads_same_samples(other)
        assert found.fingerprint() != other.fingerprint()


def test_bad_files_are_named(tmp_path):
    good = written(UNITS["i2"])
    wrong = bytearray(good)
    wrong[2 * 2880 + 40] ^= 1
    table = fits.BinTableHDU.from_columns([fits.Column("x", "E", array=np.arange(3))])
    bad = [good[:-2880], wrong, b"", b"no FITS", *map(written, ([], table, UNITS["u2"], UNITS["vector"]))]
    for number, data in enumerate([good, *bad]):
        (tmp_path / f"{number}.fits").write_bytes(data)
    check_bad_samples(source(tmp_path), list(range(1, len(bad) + 1)))
    for number, message in (
        (2, "does not match its header"),
        (5, "image 2 does not exist"),
        (6, "part 2 does not contain an image"),
    ):
        (tmp_path / "0.fits").write_bytes(bad[number - 1])
        with pytest.raises(SourceError, match=message):
            source(tmp_path)


def test_mutated_files_are_errors_or_images(tmp_path):
    small = PIXELS[:, :4, :5].astype("i2")
    good = [written(fits.ImageHDU(small), checksum=False), written(fits.CompImageHDU(small, compression_type="RICE_1"))]
    for number, data in enumerate(good):
        (tmp_path / f"{number}.fits").write_bytes(data)
    sources = [FitsSource(FileSelection(str(tmp_path), (f"{n}.fits",), None, ""), (2,), None) for n in range(2)]
    rng, outcomes = random.Random(9), {"read": 0, "refused": 0}
    for turn in range(MUTATIONS // 4):
        data = mutated(good[turn % 2][2880:], rng)
        try:
            (image,) = sources[turn % 2]._images(np.frombuffer(good[0][:2880] + data, np.uint8))
        except ValueError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            assert image.nbytes < 8 * 4096 * (len(data) + 2880)
    assert min(outcomes.values()) > MUTATIONS // 50


def test_definitions(tmp_path, monkeypatch):
    (tmp_path / "0.fits").write_bytes(written(UNITS["i2"]))
    for options, message in (
        ({}, "nothing to read"),
        ({"file_root": tmp_path, "hdu_indices": [0]}, "hdu_indices is out of range"),
        ({"file_root": tmp_path, "hdu_indices": []}, "hdu_indices is empty"),
        ({"file_root": tmp_path, "dtypes": [types.INT16] * 2}, "one entry per HDU"),
        ({"file_root": tmp_path, "dtypes": types.UINT8}, r"given:    int16(.|\n)*expected: uint8"),
    ):
        with Pipeline(batch_size=1), pytest.raises(PenstockError, match=message):
            fn.experimental.readers.fits(**options)
    with Pipeline(batch_size=1) as pipeline:
        pipeline.set_outputs(*fn.readers.fits(file_root=tmp_path, hdu_indices=2, dtypes=types.INT16))
    assert np.array_equal(pipeline.run()[0].at(0), PIXELS)
    monkeypatch.setitem(sys.modules, "astropy.io.fits", None)
    with Pipeline(batch_size=1), pytest.raises(MissingExtraError, match=r"penstock\[fits\]"):
        fn.readers.fits(file_root=tmp_path, hdu_indices=1)
