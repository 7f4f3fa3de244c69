"""When remote data sets are listed, what listings contain, and what depends on them."""

import contextlib
import io
import tarfile

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from penstock import Pipeline, data_iterator, fn
from penstock.errors import PenstockWarning, SourceError
from penstock.sources.files.class_folders import list_class_folders

FILTERS = (("*.jpg",), (), False)


@pytest.mark.parametrize("shards", [(), ("shard_id", "num_shards")])
def test_a_new_iterator_lists_again_once(shards, s3):
    def read(**options):
        arguments = {"random_shuffle": True, "seed": 1, **{name: options[name] for name in shards}}
        files = fn.readers.file(file_root=f"{s3.url}/t", file_filters="*.txt", name="r", **arguments)[0]
        return {"file": files, "tar": fn.readers.webdataset(paths=f"{s3.url}/shards/", ext="txt", **arguments)}

    def plain():
        return read()

    def sharded(shard_id, num_shards):
        return read(shard_id=shard_id, num_shards=num_shards)

    def put(count, text):
        for number in range(count):
            s3.put(f"t/c/{number}.txt", text)
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            for number in range(count):
                entry = tarfile.TarInfo(f"{number}.txt")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text))
        s3.put("shards/0.tar", data.getvalue())

    devices = NamedSharding(Mesh(jax.devices()[:2], ("data",)), PartitionSpec("data"))
    definition = data_iterator(sharded if shards else plain, reader_name="r", sharding=devices)
    iterators = []
    for count, text in ((8, b"old"), (16, b"newer")):
        put(count, text)
        s3.proxy.forget()
        iterators.append(definition(batch_size=8))
        assert sum("list-type" in path and "prefix=t%2F" in path for _, path, _ in s3.proxy.asked) == 2
        for batch in iterators[-1]:
            assert {bytes(value) for name in batch for value in np.asarray(batch[name])} == {text}
        assert len(iterators[-1]) == count // 8
    for iterator in iterators:
        iterator.close()


@pytest.mark.parametrize("named", [False, True])
def test_a_cache_warns_that_it_keeps_no_named_objects(named, s3):
    for number in range(4):
        s3.put(f"t/c/{number}.txt", bytes([number]))
    names = [f"{s3.url}/t/c/{number}.txt" for number in range(4)]
    data = {"files": names} if named else {"file_root": f"{s3.url}/t", "file_filters": "*.txt"}
    said = pytest.warns(PenstockWarning, match="keeps no samples of objects that are named")
    with said if named else contextlib.nullcontext(), Pipeline(batch_size=4) as pipeline:
        pipeline.set_outputs(fn.cache(fn.readers.file(**data)[0], memory="1 MiB"))
    assert [row.tobytes() for row in pipeline.run()[0]] == [bytes([number]) for number in range(4)]
    pipeline.close()


def test_a_key_that_cannot_be_read_is_named(s3):
    s3.put("t/c/1.jpg", b"1")
    s3.mark("t/c//2.jpg")
    with pytest.raises(SourceError, match=r"key cannot be read, 't/c//'; rename it, or name the other"):
        list_class_folders(s3.url + "/t", *FILTERS)
