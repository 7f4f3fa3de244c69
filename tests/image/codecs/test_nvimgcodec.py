"""nvImageCodec: asked for by its extra, and one decoder per thread. Its pixels are compared in `test_decoding.py`."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from penstock.errors import MissingExtraError
from penstock.image.codecs import nvimgcodec
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import Region


@pytest.mark.parametrize("package", ["penstock_has_no_such.package", "penstock.has_no_such_module"])
def test_the_extra_is_named_where_it_is_missing(monkeypatch, package):
    monkeypatch.setattr(nvimgcodec, "_PACKAGE", package)
    with pytest.raises(MissingExtraError, match=r'pip install "penstock\[nvimgcodec\]"'):
        ImageCodec(backend="nvimgcodec")
    assert ImageCodec().backend == "simplejpeg"


@pytest.mark.skipif(not nvimgcodec.installed(), reason="the extra nvimgcodec is not installed")
def test_threads_do_not_disturb_each_other(capfd):
    coarse = np.random.default_rng(0).integers(0, 256, (30, 40, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((400, 300)).save(file, "JPEG")
    data, decoder, region = (
        np.frombuffer(file.getvalue(), np.uint8),
        ImageCodec(backend="nvimgcodec"),
        Region(9, 90, 7, 99),
    )
    header = decoder.header(data)

    def decode(_):
        return decoder.decode(data, header, region=region)

    expected = decode(None)
    assert expected.shape == (81, 92, 3)
    with ThreadPoolExecutor(4) as pool:
        for pixels in pool.map(decode, range(200)):
            assert np.array_equal(pixels, expected)
    half, left = data[: data.size // 2], Region(0, 300, 0, 200)
    assert nvimgcodec.decode(half, header, decoder.output_type, False, left, None) is None
    assert capfd.readouterr().err == ""
