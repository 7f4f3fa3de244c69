"""Objects of more bytes than are read for one sample: refused by what the store says before it gives them."""

import io
import tarfile

import numpy as np
import pytest

from penstock import data_iterator, fn, types
from penstock.errors import ResourceError
from penstock.sources.storage import object_store, store_client


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, size in {"1.jpg": 4, "2.jpg": 5000}.items():
            info = tarfile.TarInfo(name)
            info.size = size
            archive.addfile(info, io.BytesIO(bytes(size)))
    return file.getvalue()


READERS = {
    "file": lambda url: fn.readers.file(files=[f"{url}/1.jpg", f"{url}/2.jpg"], name="r")[0],
    "folder": lambda url: fn.readers.file(file_root=url, file_filters="*.jpg", name="r")[0],
    "webdataset": lambda url: fn.readers.webdataset(
        paths=f"{url}/train.tar", ext=["jpg"], dtypes=[types.UINT8], name="r"
    ),
}


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_large_objects_are_refused(reader, cached, ahead, s3, monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_MAX_SAMPLE_SIZE", "4K")
    if cached:
        monkeypatch.setenv("PENSTOCK_CACHE_SIZE", "1GB")
        monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    for name, size in {"1.jpg": 4, "2.jpg": 5000}.items():
        s3.put(name, bytes(size))
        s3.put(f"train/one/{name}", bytes(size))
    s3.put("train.tar", tar())
    url = s3.url + ("/train" if reader == "folder" else "")

    def definition():
        return fn.pad(READERS[reader](url), axes=[0], shape=[4])

    iterator = data_iterator(definition, ["x"], reader_name="r")(batch_size=1, exec_async=ahead)
    assert next(iterator)["x"].shape == (1, 4)
    with pytest.raises(ResourceError, match=r"(2.jpg|train.tar at byte \d+) is too large(.|\n)*5000 bytes"):
        next(iterator)
    iterator.close()


def test_the_size_is_looked_at_before_the_content(s3, monkeypatch):
    """The library has the size when the answer begins."""
    monkeypatch.setenv("PENSTOCK_MAX_SAMPLE_SIZE", "4K")
    s3.put("2.jpg", bytes(5000))
    obstore = store_client._obstore()
    get, read = obstore.get, []

    class Answer:
        def __init__(self, result):
            self.meta, self.attributes, self._result = result.meta, result.attributes, result

        def bytes(self):
            read.append(self)
            return self._result.bytes()

    monkeypatch.setattr(obstore, "get", lambda *arguments, **options: Answer(get(*arguments, **options)))
    with pytest.raises(ResourceError):
        object_store.fetch(object_store.ByteRange(f"{s3.url}/2.jpg", limited=True))
    assert not read
    object_store.fetch(object_store.ByteRange(f"{s3.url}/2.jpg"))
    assert len(read) == 1


def test_large_arrays_stay_readable(s3, monkeypatch):
    monkeypatch.setenv("PENSTOCK_MAX_SAMPLE_SIZE", "20K")
    expected = np.arange(30_000, dtype=np.float32)
    np.save(file := io.BytesIO(), expected)
    s3.put("1.npy", file.getvalue() + bytes(1000))

    def definition():
        return fn.readers.numpy(files=[f"{s3.url}/1.npy"], name="r")

    iterator = data_iterator(definition, ["x"], reader_name="r")(batch_size=1)
    assert np.array_equal(next(iterator)["x"][0], expected)
    iterator.close()
