"""Checkpoints of pipelines and iterators: a restored program continues as the saved one does, in DALI and here."""

import importlib

import numpy as np
import pytest

import penstock
from penstock.errors import StateError, UsageError

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
pytestmark = pytest.mark.filterwarnings("ignore::Warning:nvidia.dali")

OPTIONS = {"num_threads": 1, "device_id": None, "enable_checkpointing": True}


@pytest.fixture(params=[dali, penstock], ids=["dali", "penstock"])
def library(request):
    return request.param


@pytest.fixture
def folder(tmp_path):
    for number in range(11):
        np.save(tmp_path / f"{number:02}.npy", np.full(2, number))
    return str(tmp_path)


def outputs(pipeline):
    """The next batch, also of the next epoch of a source."""
    try:
        batch = pipeline.run()
    except StopIteration:
        pipeline.reset()
        batch = pipeline.run()
    return [np.array(output.as_array()) for output in batch]


def check_restored(make, done, compared):
    """Check that a pipeline and one that was restored from it continue alike. Returns what they give."""
    original = make()
    original.build()
    for _ in range(done):
        outputs(original)
    restored = make(checkpoint=original.checkpoint())
    restored.build()
    assert restored.is_restored_from_checkpoint
    assert not original.is_restored_from_checkpoint
    batches = []
    for _ in range(compared):
        batches.append(outputs(restored))
        assert all(map(np.array_equal, outputs(original), batches[-1]))
    return batches


@pytest.mark.parametrize(
    ("batch_size", "done", "options"),
    [
        (3, 0, {"random_shuffle": True}),
        (3, 7, {"random_shuffle": True, "pad_last_batch": True}),
        (4, 5, {"shuffle_after_epoch": True, "num_shards": 2, "shard_id": 1}),
        (2, 9, {"num_shards": 3, "shard_id": 2, "stick_to_shard": True}),
        (16, 3, {"num_shards": 4, "shard_id": 3, "pad_last_batch": True}),
    ],
    ids=str,
)
def test_readers_and_random_numbers(library, folder, batch_size, done, options):
    @library.pipeline_def(batch_size=batch_size, **OPTIONS)
    def definition():
        numbers = library.fn.readers.numpy(file_root=folder, name="reader", **options)
        return numbers, library.fn.noise.gaussian(numbers, stddev=9.0), library.fn.random.uniform()

    check_restored(definition, done, 9)


def of_index(epoch_size):
    def source(index):
        if index >= epoch_size:
            raise StopIteration
        return [np.array([index, row]) for row in range(4)]

    return source, {}


def of_batch(epoch_size):
    def source(info):
        if info.iteration >= epoch_size:
            raise StopIteration
        return [np.array([info.epoch_idx, info.iteration, row]) for row in range(4)]

    return source, {"batch_info": True}


def of_sample(epoch_size):
    def source(info):
        if info.idx_in_epoch >= epoch_size * 4:
            raise StopIteration
        return np.array([info.epoch_idx, info.iteration, info.idx_in_epoch, info.idx_in_batch])

    return source, {"batch": False}


SOURCES = [of_index, of_batch, of_sample]


@pytest.mark.parametrize("done", [0, 3, 8])
@pytest.mark.parametrize("make", SOURCES)
def test_sources(make, done):
    results = []
    for library in (dali, penstock):
        source, options = make(3)

        @library.pipeline_def(batch_size=4, **OPTIONS)
        def definition(lib, source=source, options=options):
            return lib.fn.external_source(source=source, **options)

        results.append(check_restored(lambda made=definition, lib=library, **kw: made(lib, **kw), done, 7))
    assert all(map(np.array_equal, *results))


@pytest.mark.parametrize("make", SOURCES)
@pytest.mark.parametrize("done", [0, 2, 3, 7])  # 3: the loop was left at the last batch
def test_iterators_over_sources(make, done):
    results = []
    for library in (dali, penstock):
        iterator_class = importlib.import_module(f"{library.__name__}.plugin.jax").DALIGenericIterator
        source, options = make(3)

        @library.pipeline_def(batch_size=4, **OPTIONS)
        def definition(lib, source=source, options=options):
            return lib.fn.external_source(source=source, **options)

        original, count = iterator_class(definition(library), ["x"], auto_reset=True), 0
        while count < done:
            for _ in original:
                count += 1
                if count == done:
                    break
        (saved,) = original.checkpoints()
        restored = iterator_class([definition(library, checkpoint=saved)], ["x"], auto_reset=True)
        # Not strict: an original of DALI that continues in the middle of an epoch joins the next one to it.
        batches = [[np.asarray(batch["x"]) for batch in pair] for pair in zip(original, restored, strict=False)]
        assert all(np.array_equal(*pair) for pair in batches)
        results.append([pair[0] for pair in batches])
    assert len(results[0]) == len(results[1]) > 0
    assert all(map(np.array_equal, *results))


def test_iterators_over_readers(library, folder):
    plugin = importlib.import_module(f"{library.__name__}.plugin.jax")

    @library.pipeline_def(batch_size=4, **OPTIONS)
    def definition():
        return library.fn.readers.numpy(file_root=folder, name="reader", random_shuffle=True, pad_last_batch=True)

    options = {"output_map": ["x"], "reader_name": "reader", "auto_reset": True}
    original = plugin.DALIGenericIterator([definition()], **options)
    assert len(list(original)) == 3
    next(original)
    saved = original.checkpoints()
    restored = plugin.DALIGenericIterator([definition(checkpoint=each) for each in saved], **options)
    remaining = [np.asarray(batch["x"]) for batch in original]
    assert len(remaining) == 2
    assert all(map(np.array_equal, remaining, [np.asarray(batch["x"]) for batch in restored]))


def test_fed_inputs_continue_with_what_is_fed_next():
    results = []
    for library in (dali, penstock):

        @library.pipeline_def(batch_size=2, prefetch_queue_depth=1, **OPTIONS)
        def definition(lib):
            return lib.fn.external_source(name="x") + 1

        saved = None
        for numbers in ([0, 1, 2], [7]):
            pipeline = definition(library, checkpoint=saved)
            pipeline.build()
            for number in numbers:
                pipeline.feed_input("x", np.full((2, 1), number, np.int32))
                result = outputs(pipeline)
            saved = pipeline.checkpoint()
        results.append(result)
    assert np.array_equal(*results)


def test_a_checkpoint_is_written_to_a_file(library, tmp_path):
    with library.Pipeline(batch_size=2, **OPTIONS) as pipeline:
        pipeline.set_outputs(library.fn.random.uniform())
    pipeline.build()
    saved = pipeline.checkpoint(str(tmp_path / "saved"))
    assert type(saved) is bytes
    assert (tmp_path / "saved").read_bytes() == saved


def test_what_cannot_be_restored(folder):
    def define(first=lambda: penstock.fn.readers.numpy(file_root=folder), **options):
        return penstock.pipeline_def(first)(batch_size=2, **options)

    original = define()
    original.run()
    saved = original.checkpoint()
    with pytest.raises(StateError, match="another definition"):
        define(lambda: penstock.fn.readers.numpy(file_root=folder) + 1, checkpoint=saved).run()
    for damaged in (b"nonsense", saved[:-9], b"[]"):
        with pytest.raises(StateError, match=r"not a checkpoint|not the state"):
            define(checkpoint=damaged)
    with pytest.raises(UsageError, match="debug mode"):
        define(checkpoint=saved, debug=True)
    with pytest.raises(StateError, match="visit the samples in another order"):  # of run(), which has no epochs
        penstock.DataIterator(define(checkpoint=saved), ["x"], size=None)
    with pytest.raises(UsageError, match="the same checkpoint"):
        penstock.DataIterator([define(checkpoint=saved), define()], ["x"])

    def endless():
        return penstock.fn.external_source(lambda: [np.int32([1])] * 2)

    started = define(endless)
    started.run()
    with pytest.raises(StateError, match="cannot go to another place"):
        define(endless, checkpoint=started.checkpoint()).run()
