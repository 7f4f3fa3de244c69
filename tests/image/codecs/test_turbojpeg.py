"""Decoding through the TurboJPEG API: the pixels and the refusals are those of simplejpeg, whatever is in the files.

`test_image_codec.py` compares the pixels of all kinds of JPEGs.
"""

import ctypes
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from damaged_images import damaged
from PIL import Image

from penstock import Pipeline, fn, types
from penstock.errors import ResourceError
from penstock.image.codecs import libjpeg_turbo, turbojpeg, turbojpeg_loop
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import ImageHeaders, Region

WITH_LIBRARY = pytest.mark.skipif(not turbojpeg.installed(), reason="libturbojpeg is not installed")
WITH_REGIONS = pytest.mark.skipif(not turbojpeg.decodes_regions(), reason="libturbojpeg is not that of version 3")


def version_3():
    """Return the path of libjpeg-turbo 3 in the package turbojpeg; None if it is not installed."""
    try:
        files = metadata.files("turbojpeg") or []
    except metadata.PackageNotFoundError:
        return None
    return next((file.locate() for file in files if file.name.startswith("libturbojpeg")), None)


def photograph(seed, height=40, width=56, **options):
    """Return a JPEG with details everywhere."""
    coarse = np.random.default_rng(seed).integers(0, 256, (height // 4, width // 4, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((width, height)).save(file, "JPEG", **options)
    return np.frombuffer(file.getvalue(), np.uint8)


def decoded(files, backend, headers=None):
    """Return the pixels of the files that are decoded directly; None for the others."""
    codec = ImageCodec(backend=backend)
    headers = codec.headers(files) if headers is None else headers
    memory = [np.full(size, 7, np.uint8) for size in headers.shapes.prod(axis=1).tolist()]
    left = codec.direct_decoding(files, headers, headers.whole)(memory, range(len(files)))
    return [None if row in left else pixels.tolist() for row, pixels in enumerate(memory)]


def test_a_missing_library_is_named_with_commands_that_install_it(monkeypatch):
    def missing():
        raise OSError("no such file")

    monkeypatch.setattr(turbojpeg_loop.decompress, "_library", missing)
    monkeypatch.delitem(vars(turbojpeg_loop.decompress), "exists", raising=False)
    try:
        with Pipeline(1), pytest.raises(ResourceError, match=r"needs the system library libturbojpeg.*\n.*apt-get"):
            fn.decoders.image(fn.readers.arrays(np.zeros((1, 9), np.uint8)), backend="turbojpeg")
        with pytest.raises(ResourceError, match="libturbojpeg"):  # on a host that receives the definition
            turbojpeg._register_functions.__wrapped__()
    finally:
        vars(turbojpeg_loop.decompress).pop("exists", None)


@WITH_LIBRARY
def test_damaged_files_are_decoded_only_where_simplejpeg_decodes_them():
    rng = np.random.default_rng(5)
    codec, files, headers = ImageCodec(), [], []
    for number in range(300):
        content = damaged(photograph(number, progressive=number % 3 == 0), rng)
        try:
            headers.append(codec.header(content))
        except ValueError:
            continue
        files.append(content)
    expected = decoded(files, "simplejpeg", ImageHeaders.of(headers))
    found = decoded(files, "turbojpeg", ImageHeaders.of(headers))
    both = [(pixels, other) for pixels, other in zip(found, expected, strict=True) if pixels is not None]
    assert all(pixels == other for pixels, other in both)
    # Progressive files and an unusual subsampling, which a damaged header may announce, are left out.
    assert 20 < len(both) < sum(pixels is not None for pixels in expected)


@WITH_LIBRARY
@pytest.mark.parametrize("factor", [0.5, 2])
def test_a_file_of_another_size_than_its_header_says_is_not_scaled(factor):
    content = photograph(1)
    header = ImageCodec().header(content)
    other = header._replace(height=int(header.height * factor), width=int(header.width * factor))
    assert decoded([content, content], "turbojpeg", ImageHeaders.of([other, header]))[0] is None


@WITH_LIBRARY
def test_memory_that_is_too_small_is_not_written_to():
    content = photograph(1)
    headers = ImageHeaders.of([ImageCodec().header(content)])
    memory = np.full(int(headers.shapes.prod()) - 1, 7, np.uint8)
    decode = ImageCodec(backend="turbojpeg").direct_decoding([content], headers, headers.whole)
    assert [*decode([memory], range(1))] == [0]
    assert (memory == 7).all()


@WITH_LIBRARY
def test_threads_do_not_disturb_each_other():
    files = [photograph(seed) for seed in range(40)]
    expected = decoded(files, "simplejpeg")
    with ThreadPoolExecutor(4) as pool:
        for pixels in pool.map(lambda _: decoded(files, "turbojpeg"), range(20)):
            assert pixels == expected


def without(content, marker):
    """Return a JPEG without the segments of a marker."""
    data, kept, place = content.tobytes(), b"", 2
    while data[place + 1] != 0xDA:
        end = place + 2 + int.from_bytes(data[place + 2 : place + 4], "big")
        kept += data[place:end] if data[place + 1] != marker else b""
        place = end
    return np.frombuffer(data[:2] + kept + data[place:], np.uint8)


@WITH_LIBRARY
@pytest.mark.parametrize("marker", [0xDB, 0xC4], ids=["quantization", "Huffman"])
def test_a_file_without_tables_does_not_take_those_of_the_file_before(marker):
    files = [photograph(1, quality=40, optimize=True), without(photograph(2, quality=95), marker)]
    assert decoded(files, "turbojpeg") == decoded(files, "simplejpeg")


@WITH_LIBRARY
def test_the_loop_decodes_without_compilation_what_it_decodes_compiled(monkeypatch):
    files = [photograph(1), photograph(2)[:-40], photograph(3)]
    expected, variant = decoded(files, "turbojpeg"), turbojpeg_loop.decode_files.variant

    class Uncompiled:
        @staticmethod
        def variant(**constants):
            return Uncompiled(variant(**constants).python_function)

        def __init__(self, loop):
            self._loop = loop

        def bind(self, *bound):
            return partial(self._loop, *bound)

    monkeypatch.setattr(turbojpeg_loop, "decode_files", Uncompiled)
    assert decoded(files, "turbojpeg") == expected
    assert [pixels is None for pixels in expected] == [False, True, False]


@WITH_LIBRARY
@pytest.mark.parametrize("size", [(28, 28), (300, 400)])
def test_batches_are_those_of_simplejpeg(tmp_path, size):
    for seed in range(24):
        (tmp_path / f"{seed:02}.jpg").write_bytes(photograph(seed, *size).tobytes())
    Image.new("RGB", (31, 30), (200, 9, 9)).save(tmp_path / "30.jpg", "PNG")
    batches = []
    for backend in ("simplejpeg", "turbojpeg"):
        with Pipeline(25, num_threads=2, seed=3) as pipeline:
            files, _ = fn.readers.file(files=sorted(map(str, tmp_path.iterdir())))
            images = fn.decoders.image(files, backend=backend)
            crops = fn.random_resized_crop(images, size=(20, 20))
            pipeline.set_outputs(images, fn.crop_mirror_normalize(crops, dtype=types.FLOAT, output_layout="CHW"))
        whole, crops = pipeline.run()
        batches.append(([image.tolist() for image in whole], np.asarray(crops.as_array()).tolist()))
        assert pipeline._start().cursor.run._loader._program.scheduler._by_sample == (backend == "simplejpeg")
        pipeline.close()
    assert batches[0] == batches[1]


@WITH_LIBRARY
def test_functions_of_the_library_are_not_names_of_the_process():
    assert not hasattr(ctypes.CDLL(None), "tjDecompress2")


@pytest.mark.skipif(version_3() is None, reason="the package turbojpeg is not installed")
@pytest.mark.skipif(turbojpeg.decodes_regions(), reason="the library of the system is of version 3")
def test_the_same_holds_with_version_3(tmp_path):
    (tmp_path / "libturbojpeg.so.0").symlink_to(version_3())
    tests = [__file__, str(Path(__file__).with_name("test_image_codec.py"))]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "turbojpeg and not version_3", "-p", "no:cacheprovider", *tests],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "passed" in result.stdout
    assert "skipped" not in result.stdout


def decoded_region(content, region):
    """Return the pixels of a region, with sentinels on both sides of their memory; None if they are not decoded."""
    codec = ImageCodec(backend="turbojpeg")
    headers, size = codec.headers([content]), (region[1] - region[0]) * (region[3] - region[2]) * 3
    memory = np.full(size + 200, 7, np.uint8)
    left = codec.direct_decoding([content], headers, np.array([region]))([memory[100:-100]], range(1))
    assert (memory[:100] == 7).all()
    assert (memory[-100:] == 7).all()
    return None if [*left] else memory[100:-100].reshape(region[1] - region[0], region[3] - region[2], 3)


@WITH_REGIONS
def test_a_region_is_decoded_without_what_surrounds_it():
    content = photograph(1, 400, 400)
    headers = ImageCodec().headers([content])
    made = ImageCodec(backend="turbojpeg").regions_to_decode(headers, np.array([[99, 203, 150, 250]]), np.array([1]))
    assert made.tolist() == [[99, 205, 144, 256]]
    whole = ImageCodec().decode(content, headers[0])
    assert np.array_equal(decoded_region(content, made[0].tolist())[:-2, 6:-6], whole[99:203, 150:250])


@WITH_REGIONS
@pytest.mark.parametrize(
    "region", [(0, 40, 3, 40), (0, 41, 0, 40), (0, 40, 48, 64), (30, 44, 0, 56)], ids=["block", "row", "right", "below"]
)
def test_a_region_that_the_library_refuses_is_left(region):
    assert decoded_region(photograph(1), region) is None


@WITH_REGIONS
def test_a_region_of_a_file_without_an_end_is_left():
    content = photograph(1, 400, 400)
    assert decoded_region(content, (0, 99, 0, 64)) is not None
    assert decoded_region(content[:-2], (0, 99, 0, 64)) is None


@WITH_LIBRARY
@pytest.mark.parametrize("end", [40, 90])
def test_regions_of_damaged_files_are_those_of_simplejpeg(monkeypatch, end):
    """Also if the damage lies below the region: simplejpeg reads to the end of the file if few rows lie there."""
    monkeypatch.setattr(libjpeg_turbo, "_WORTH", 600)
    rng = np.random.default_rng(8)
    compared = refused = 0
    for number in range(300):
        content = photograph(number, 96, 96)
        # Every third file has another one that begins before its end.
        content = damaged(content, rng) if number % 3 else np.insert(content, len(content) - 2, [0xFF, 0xD8])
        try:
            header = ImageCodec().header(content)
        except ValueError:
            continue
        region = Region(8, end, 20, 50)
        if header.height < 96 or header.width < 96:
            continue
        results = []
        for backend in ("simplejpeg", "turbojpeg"):
            codec, headers = ImageCodec(backend=backend), ImageHeaders.of([header])
            made = codec.regions_to_decode(headers, np.array([region]), np.array([1]))
            top, bottom, left, right = made[0].tolist()
            memory = np.empty((bottom - top) * (right - left) * header.channels, np.uint8)
            pixels = memory.reshape(bottom - top, right - left, -1)
            if [*codec.direct_decoding([content], headers, made)([memory], range(1))]:
                try:
                    pixels = codec.decode(content, header, None, Region._make(made[0].tolist()))
                except ValueError:
                    pixels = None
            cut = None if pixels is None else pixels[region.top - top :, region.left - left :][: end - 8, :30]
            results.append(cut if cut is None else cut.tolist())
        assert results[0] == results[1], number
        compared += results[0] is not None
        refused += results[0] is None
    assert compared > 50
    assert refused > (50 if end == 90 else 0)
