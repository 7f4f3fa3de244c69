"""Iterators of DALI's JAX plugin, on the CPU: the same program, run by both."""

import importlib
from itertools import islice

import numpy as np
import pytest

import penstock

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
pytestmark = pytest.mark.filterwarnings("ignore::Warning:nvidia.dali")

OPTIONS = {"batch_size": 3, "num_threads": 1, "device_id": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("numbers")
    for number in range(12):
        np.save(root / f"{number:02}.npy", np.full(2, number, np.int32))
    return str(root)


def read(lib, folder):
    return lib.fn.readers.numpy(file_root=folder, name="reader")


def counted(lib, folder):
    """A source that ends after three batches, and tells the epoch."""

    def source(info):
        if info.idx_in_epoch >= 9:
            raise StopIteration
        return np.int32([info.idx_in_epoch, info.epoch_idx])

    return lib.fn.external_source(source, batch=False)


def values(batches):
    return [{name: np.asarray(array) for name, array in batch.items()} for batch in batches]


def decorated(lib, plugin, folder):
    """Arguments in the call, a definition with an argument, a function as a decorator."""

    @plugin.data_iterator(output_map=["x"], reader_name="reader")
    def with_argument(offset):
        return read(lib, folder) + offset

    plain = plugin.data_iterator(lambda: read(lib, folder), output_map=["x"], reader_name="reader")
    iterators = with_argument(10, **OPTIONS), with_argument(offset=20, **OPTIONS), plain(**OPTIONS)
    return [(values(islice(iterator, 3)), iterator.size, len(iterator)) for iterator in iterators]


def epochs(lib, plugin, folder):
    """The ends of epochs, with and without auto_reset."""
    policies = importlib.import_module(f"{lib.__name__}.plugin.base_iterator")
    pipelines = [lib.pipeline_def(read)(lib, folder, **OPTIONS) for _ in range(3)]
    kinds = [{"auto_reset": True}, {"auto_reset": "yes"}, {"last_batch_policy": policies.LastBatchPolicy.DROP}]
    results = []
    for pipeline, options in zip(pipelines, kinds, strict=True):
        iterator = plugin.DALIGenericIterator([pipeline], ["x"], reader_name="reader", **options)
        results.append(values(iterator))
        if "auto_reset" not in options:
            assert next(iterator, None) is None
            iterator.reset()
        results.append(values(iterator))
    return results


def sources(lib, plugin, folder):
    """Epochs that the source ends, and a loop that is left at the last batch."""
    iterator = plugin.DALIGenericIterator([lib.pipeline_def(counted)(lib, folder, **OPTIONS)], ["x"], auto_reset=True)
    first = values(iterator)
    for number, _ in enumerate(iterator):
        if number == 2:
            break
    return first, values(iterator), values(iterator)


def dtypes(lib, plugin, folder):
    """All dtypes in one batch."""
    names = ("UINT8", "INT8", "UINT16", "INT16", "UINT32", "INT32", "INT64", "UINT64", "FLOAT16", "FLOAT", "BOOL")

    with lib.Pipeline(**OPTIONS) as pipeline:
        numbers = read(lib, folder)
        pipeline.set_outputs(*(lib.fn.cast(numbers, dtype=getattr(lib.types, name)) for name in names))
    return values(islice(plugin.DALIGenericIterator([pipeline], names, size=12), 2))


def refused(lib, plugin, folder):
    """Arguments that contradict each other."""
    options = [
        {"output_map": ["x", "x"], "reader_name": "reader"},
        {"output_map": ["x"], "reader_name": "nobody"},
        {"output_map": ["x"], "reader_name": "reader", "size": 4},
        {"output_map": ["x"], "size": 0},
        {"output_map": ["x"], "size": 4, "auto_reset": "maybe"},
    ]
    for arguments in options:
        pipeline = lib.pipeline_def(read)(lib, folder, **OPTIONS)
        with pytest.raises(Exception):  # noqa: B017, PT011  # DALI's are AssertionError, RuntimeError and ValueError
            plugin.DALIGenericIterator([pipeline], **arguments)
    return len(options)


def same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other) and getattr(one, "dtype", None) == getattr(other, "dtype", None)


@pytest.mark.parametrize("program", [decorated, epochs, sources, dtypes, refused], ids=lambda each: each.__name__)
def test_a_program_does_the_same(program, folder):
    plugins = [importlib.import_module(f"{library.__name__}.plugin.jax") for library in (dali, penstock)]
    assert same(*map(program, (dali, penstock), plugins, (folder, folder)))
