"""Decoding through the TurboJPEG API: the pixels and the refusals are those of simplejpeg, whatever is in the files.

`test_image_codec.py` compares the pixels of all kinds of JPEGs.
"""

import ctypes
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from damaged_images import damaged
from PIL import Image

from penstock import Pipeline, fn, types
from penstock.errors import ResourceError
from penstock.image.codecs import turbojpeg, turbojpeg_loop
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import HEIGHT, ImageHeaders

WITH_LIBRARY = pytest.mark.skipif(not turbojpeg.installed(), reason="libturbojpeg is not installed")


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
    left = codec.direct_decoding(files, headers, headers.fields[HEIGHT])(memory, range(len(files)))
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
    decode = ImageCodec(backend="turbojpeg").direct_decoding([content], headers, headers.fields[HEIGHT])
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
    expected, loop = decoded(files, "turbojpeg"), turbojpeg_loop.decode_files.python_function

    class Uncompiled:
        @staticmethod
        def bind(*bound):
            return lambda first, last: loop(*bound, first, last)

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
