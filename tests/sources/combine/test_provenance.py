"""The names of samples as a data set, in step with the samples."""

import io
import tarfile

import jax
import numpy as np
import pytest

from penstock import LastBatchPolicy, Pipeline, data_iterator, errors, fn, pipeline_def
from penstock.sources.combine.provenance import SampleNames
from penstock.sources.files.file_lists import files_from_paths
from penstock.testing import check_source


@pytest.fixture
def root(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * (number + 1))
    return tmp_path


def files(root):
    return {"file_root": root, "files": [f"{number}.bin" for number in range(7)]}


def info(node):
    return fn.get_property(node, key="source_info")


def text(sample):
    return bytes(np.asarray(sample)).decode()


def test_origins_are_a_source(root):
    source = files_from_paths(str(root), ("0.bin", "1.bin", "2.bin"), None)
    check_source(SampleNames(source))
    assert SampleNames(source).reads_same_samples(
        SampleNames(files_from_paths(str(root), ("0.bin", "1.bin", "2.bin"), None))
    )
    assert not SampleNames(source).reads_same_samples(source)


@pytest.mark.parametrize("options", [{}, {"random_shuffle": True}, {"random_shuffle": True, "seed": 5}])
@pytest.mark.parametrize("debug", [False, True])
def test_names_stay_beside_their_samples(root, options, debug):
    @pipeline_def(batch_size=4, seed=3, debug=debug)
    def define():
        data, label = fn.readers.file(**files(root), **options)
        return label, info(data), (data[:1] + 1).source_info(), info(label), info(fn.constant([1]))

    pipeline = define()
    for _ in range(5):
        label, *names, none, neither = pipeline.run()
        expected = [f"{number}.bin" for number in label.as_array().ravel()]
        assert [[text(sample) for sample in output] for output in names] == [expected] * 2
        assert {text(sample) for output in (none, neither) for sample in output} == {""}
    pipeline.close()


@pytest.mark.parametrize("policy", ["DROP", "PARTIAL", "FILL"])
def test_names_begin_with_each_epoch(root, policy):
    @data_iterator(
        output_map=["label", "name"], reader_name="files", last_batch_policy=LastBatchPolicy[policy],
        sharding=jax.NamedSharding(jax.make_mesh((1,), ("batch",)), jax.P("batch")),
    )  # fmt: skip
    def iterator():
        data, label = fn.readers.file(**files(root), name="files", random_shuffle=True)
        return label, fn.pad(info(data))

    batches = iterator(batch_size=3, seed=1)
    for _ in range(3):
        for batch in batches:
            for label, name in zip(np.asarray(batch["label"]), np.asarray(batch["name"]), strict=True):
                assert text(name) == f"{label[0]}.bin"
    batches.close()


def test_another_sample_brings_its_own_name(root):
    (root / "3.bin").unlink()
    with Pipeline(7, seed=2) as pipeline:
        data, label = fn.readers.file(**files(root), on_error="replace")
        pipeline.set_outputs(label, info(data))
    label, names = pipeline.run()
    assert [text(name) for name in names] == [f"{number}.bin" for number in label.as_array().ravel()]
    assert "3.bin" not in map(text, names)
    pipeline.close()


def test_components_of_tar_files_have_their_own_names(tmp_path):
    for path in ("a.tar", "b.tar"):
        with tarfile.open(tmp_path / path, "w", format=tarfile.USTAR_FORMAT) as file:
            for name in ("1.jpg", "1.cls"):
                entry = tarfile.TarInfo(name)
                entry.size = 1
                file.addfile(entry, io.BytesIO(b"x"))
    with Pipeline(1) as pipeline:
        parts = [fn.readers.webdataset(paths=str(tmp_path / path), ext=["cls", "jpg"]) for path in ("a.tar", "b.tar")]
        mixed = fn.readers.mix(*parts)
        subset = fn.readers.webdataset(paths=str(tmp_path / "b.tar"), ext=["cls", "jpg"], subset=[0])
        values = [*mixed, *subset, mixed[1] + 1, mixed[0] + mixed[1]]
        pipeline.set_outputs(*values, *map(info, values))
    batch = pipeline.run()
    told = [output[0].source_info() for output in batch[: len(values)]]
    expected = ["a.tar:1536:1.cls", "a.tar:512:1.jpg", "b.tar:1536:1.cls", "b.tar:512:1.jpg", "a.tar:512:1.jpg"]
    assert told == [*(f"{tmp_path}/{name}" for name in expected), ""]
    assert [text(output[0]) for output in batch[len(values) :]] == told
    pipeline.close()


def test_samples_in_other_rows_take_their_names_along(root):
    with Pipeline(2) as pipeline:
        moved = fn.permute_batch(fn.readers.file(**files(root))[0], indices=[1, 0])
        pipeline.set_outputs(moved, info(moved))
    moved, names = pipeline.run()
    assert [text(name) for name in names] == ["1.bin", "0.bin"]
    assert [sample.source_info() for sample in moved] == ["", ""]  # only the operator knows where rows come from
    pipeline.close()


def test_several_readers_have_no_one_name(root):
    with Pipeline(2) as pipeline:
        first, second = (fn.readers.file(**files(root))[0][:1] for _ in range(2))
        pipeline.set_outputs(info(first + second))
    assert [text(name) for name in pipeline.run()[0]] == ["", ""]
    pipeline.close()

    @pipeline_def(batch_size=2, enable_conditionals=True)
    def define():
        data, label = fn.readers.file(**files(root))
        chosen = data[:1]
        if label[0] == 1:
            chosen = fn.readers.file(**files(root))[0][:1]
        return info(chosen)

    with pytest.raises(errors.DefinitionError, match="different readers"):
        define()
