"""What external sources may be, how they end, and what is said of those that do wrong."""

import functools
import gc
import io
import itertools
import threading
import weakref
from contextlib import nullcontext

import jax
import numpy as np
import pytest
from PIL import Image

from penstock import DataIterator, Pipeline, data_iterator, errors, fn, peekable_data_iterator, pipeline_def, types
from penstock.testing import check_iterator
from penstock.testing.iterator_checks import same_batches
from penstock.types import LastBatchPolicy

ROWS = jax.NamedSharding(jax.make_mesh((4,), ("batch",)), jax.P("batch"))


def numbered(info):
    if info.idx_in_epoch >= 20:
        raise StopIteration
    return np.full(3, info.idx_in_epoch, np.int32) + 1000 * info.epoch_idx


def pipeline(source, batch_size=4, **options):
    with Pipeline(batch_size, 2, seed=0) as made:
        nodes = fn.external_source(source, **options)
        made.set_outputs(*(nodes if isinstance(nodes, list) else [nodes]))
    return made


def firsts(iterator):
    return [np.asarray(batch["x"])[:, 0].tolist() for batch in iterator]


def iterator(define, decorator=data_iterator, batch_size=8, **options):
    return decorator(output_map=["x"], **options)(define)(batch_size=batch_size, seed=3)


def by_sample():
    return fn.external_source(numbered, batch=False) + np.int32(0)


@pytest.mark.parametrize("options", [{}, {"sharding": ROWS}])
def test_the_source_ends_the_epoch(options):
    batches = iterator(by_sample, **options)
    assert [batch[0] for batch in firsts(batches)] == [0, 8]
    assert [batch[0] for batch in firsts(batches)] == [1000, 1008]
    with pytest.raises(errors.PenstockError, match="external source"):
        len(batches)


def test_batches_do_not_depend_on_devices_or_threads():
    def augmented():
        return by_sample() * fn.random.uniform(range=(1.0, 2.0))

    one = iterator(augmented)
    four = iterator(augmented, sharding=ROWS)
    stacked = iterator(augmented, devices=jax.devices()[:4])
    for a, b, c in zip(one, four, stacked, strict=True):
        np.testing.assert_array_equal(np.asarray(a["x"]), np.asarray(b["x"]))
        np.testing.assert_array_equal(np.asarray(a["x"]), np.asarray(c["x"]).reshape(8, 3))


@pytest.mark.parametrize("kind", [np.ndarray, bytearray, memoryview])
@pytest.mark.parametrize("outputs", [None, 2])
def test_a_generator_may_fill_one_buffer_again(kind, outputs):
    def stream():
        buffer = bytearray(2) if kind is bytearray else np.zeros(2, np.uint8)
        lent = memoryview(buffer) if kind is memoryview else buffer
        for number in range(8):
            buffer[0] = number
            yield lent if outputs is None else (number, lent)

    def define():
        nodes = fn.external_source(stream, num_outputs=outputs, batch=False)
        return nodes if outputs is None else nodes[1]

    assert firsts(iterator(define, batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_shard_has_a_source_of_its_own():
    def sharded(shard_id, num_shards):
        return fn.external_source(lambda info: np.array([shard_id * 100 + info.idx_in_epoch]), batch=False)

    assert next(iterator(sharded, sharding=ROWS))["x"].ravel().tolist() == [0, 1, 100, 101, 200, 201, 300, 301]


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
def test_a_state_goes_on_where_it_was(decorator):
    run = iterator(by_sample, decorator)
    firsts(run)
    iter(run)
    next(run)
    state = run.get_state()
    rest = firsts(run)
    other = iterator(by_sample, decorator, sharding=ROWS)
    other.set_state(state)
    assert firsts(other) == rest
    assert firsts(other)[0][0] == 2000


def test_another_batch_size_continues_with_the_next_sample():
    """The source has no dtype, so its first sample is probed, and must not be taken for that of the position."""

    def counted():
        return fn.external_source(lambda info: np.int32(info.idx_in_epoch), batch=False)

    run = iterator(counted, batch_size=4, size=24)
    next(run)
    other = iterator(counted, batch_size=10, size=24)
    other.set_state(run.get_state())
    assert [batch["x"].tolist() for batch in other] == [[*range(4, 14)], [*range(14, 24)]]
    assert other.at_end


@pytest.mark.parametrize(
    ("source", "batch", "size", "message"),
    [
        (lambda number: np.full(4, number), True, 6, r"no batch of external_source begins there(.|\n)*a multiple of 6"),
        ([np.full(4, number) for number in range(6)], True, 8, r"in a list depends(.|\n)*4, as in the state"),
        ([np.int32(number) for number in range(24)], False, 10, r"in a list depends(.|\n)*4, as in the state"),
    ],
    ids=["batches", "list of batches", "list"],
)
def test_what_counts_batches_refuses_another_batch_size(source, batch, size, message):
    def define():
        return fn.external_source(source, batch=batch)

    run = iterator(define, batch_size=4, size=24)
    other = iterator(define, batch_size=size, size=24)
    other.set_state(run.get_state())  # nothing has been counted before the first batch
    next(run), next(run)
    with pytest.raises(errors.StateError, match=message):
        other.set_state(run.get_state())
    older = {name: entry for name, entry in run.get_state().items() if name != "batch_size"}
    same = iterator(define, batch_size=4, size=24)
    same.set_state(older)
    assert next(same)["x"].tolist() == next(run)["x"].tolist()


@pytest.mark.parametrize(
    ("cycle", "length", "taken", "resumes"),
    [
        ("quiet", 20, 2, True),
        ("raise", 32, 2, True),
        ("quiet", 20, 1, False),
        ("raise", 20, 0, False),  # the last four samples are a batch of the old size, not of the new one
    ],
)
def test_a_list_beside_a_reader_resumes_where_both_batch_sizes_divide_an_epoch(cycle, length, taken, resumes):
    items = [np.int32(number) for number in range(length)]

    def define():
        return fn.external_source(items, batch=False, cycle=cycle), fn.readers.arrays(np.arange(16), name="r")

    make = data_iterator(define, ["x", "y"], reader_name="r")
    run, other = make(batch_size=4), make(batch_size=8)
    assert sum(1 for _ in run) == 4
    run.next_epoch()
    _ = [next(run) for _ in range(taken)]
    state = run.get_state()
    with nullcontext() if resumes else pytest.raises(errors.StateError, match="in a list depends"):
        other.set_state(state)
        for name in ("x", "y"):
            run.set_state(state), other.set_state(state)
            rests = [[np.asarray(batch[name]).tolist() for _ in range(2) for batch in each] for each in (run, other)]
            assert np.concatenate(rests[0]).tolist() == np.concatenate(rests[1]).tolist()


@pytest.mark.parametrize(
    "source",
    [
        lambda: fn.external_source(numbered, batch=False),
        lambda: fn.external_source([np.full((4, 2), n, np.int32) for n in range(4)], cycle="quiet"),
    ],
    ids=["function", "list"],
)
def test_the_contract_of_iterators(source):
    """Where any batch can be asked for, the iterator is one like another, on any number of devices."""

    def define():
        return source() * fn.random.uniform(range=(1.0, 2.0))

    one, four = (
        check_iterator(lambda how=how: iterator(define, batch_size=4, size=20, **how))
        for how in ({}, {"sharding": ROWS})
    )
    assert all(same_batches(*epochs) for epochs in zip(one, four, strict=True))


@pytest.mark.parametrize("batch", [True, False])
def test_dictionaries_are_refused(batch):
    rows = [{"image": np.zeros(3), "label": 1}] * 4
    with pytest.raises(errors.ArgumentTypeError, match=r"row\['image'\], row\['label'\]\), and pass num_outputs="):
        pipeline([rows[0]] if batch else rows, batch=batch)


def test_what_only_streams_says_so(caplog):
    caplog.set_level("INFO", "penstock")
    pipeline(numbered, batch=False)
    pipeline([np.zeros((4, 2))])
    assert not caplog.records
    pipeline(generated_batches)
    assert "generated_batches only moves forward (it is an iterator" in caplog.text
    assert [record.levelname for record in caplog.records] == ["INFO"]
    with Pipeline(4, enable_checkpointing=True):
        fn.external_source(generated_batches)
    assert caplog.records[-1].levelname == "WARNING"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"random_shuffle": True}, r"no argument 'random_shuffle'[\s\S]*fn.readers.items shuffles"),
        ({"shard_id": 1}, r"no argument 'shard_id'[\s\S]*fn.readers.items shuffles and shards"),
        ({"source": b"123"}, r"b'123' of type bytes[\s\S]*np.frombuffer"),
        ({"source": "abc"}, r"of type str[\s\S]*a list of arrays"),
        ({"source": {"a": [1]}}, r"of type dict[\s\S]*fn.readers.items"),
        ({"source": list}, r"of type type[\s\S]*an instance of the class"),
        ({"source": 5}, "5 of type int"),
    ],
)
def test_what_no_source_does_is_refused(how, message):
    with Pipeline(4), pytest.raises(TypeError, match=message):
        fn.external_source(**{"source": generated_batches, **how})


def test_series_of_pandas_are_read_by_position():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    made = pipeline(pandas.Series([10, 20, 30, 40], index=[2, 0, 1, 3]), batch=False)
    assert made.run()[0].as_array().tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("batch", [True, False])
def test_tables_are_refused(batch):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    frame = pandas.DataFrame({0: [5, 6, 7], 1: [1, 2, 3]})
    for table in (frame, pyarrow.table({"x": [5, 6, 7]}), pyarrow.record_batch({"x": [5, 6, 7]})):
        with pytest.raises(errors.ArgumentTypeError, match=r"fn\.readers\.items"):
            pipeline(table, batch=batch)
        # The value of a data set of Hugging Face with_format("pandas") or with_format("arrow").
        with pytest.raises(errors.ArgumentTypeError, match="a table is not a sample"):
            pipeline([table], batch=batch)


def test_keywords_with_defaults_are_no_arguments_of_a_source():
    def load(index, size):
        return np.full((2, size), index)

    def count(*, start=7):
        return np.full(2, start)

    with Pipeline(batch_size=2) as pipeline:
        pipeline.set_outputs(fn.external_source(functools.partial(load, size=3)), fn.external_source(count))
    rows, starts = [pipeline.run() for _ in range(2)][1]
    assert rows.as_array().tolist() == [[1, 1, 1]] * 2
    assert starts.as_array().tolist() == [7, 7]


def test_a_source_tells_no_length():
    with pytest.raises(LookupError, match="'numbers' is an external source of unknown length"):
        iterator(lambda: fn.external_source(generated_batches, name="numbers"), reader_name="numbers")


def generated_batches():
    yield np.zeros((4, 2))


def test_what_only_streams_refuses_another_place():
    def streamed():
        return fn.external_source(lambda: np.zeros((8, 2)))

    run = iterator(streamed)
    state = run.get_state()
    next(run)
    run.set_state(run.get_state())
    with pytest.raises(errors.StateError, match=r"can only return its next batch(.|\n)*streamed"):
        run.set_state(state)
    assert "can only return its next batch" in run.explain()


@pytest.mark.parametrize("cycle", ["raise", None])
@pytest.mark.parametrize("listed", [True, False], ids=["list", "iterator"])
def test_a_source_may_end_an_epoch_before_its_size(cycle, listed, caplog):
    batches = [np.full((8, 2), number, np.uint8) for number in range(3)]

    def generated():
        yield from batches

    def short():
        return fn.external_source(batches if listed else generated, cycle=cycle)

    run = iterator(short, size=32, auto_reset=True)
    with nullcontext() if cycle else pytest.warns(errors.PenstockWarning, match=r"no batches[\s\S]*cycle=") as warned:
        epochs = [[batch[0] for batch in firsts(run)] for _ in range(3)]
    assert epochs == [[0, 1, 2]] + [[0, 1, 2] if cycle else []] * 2
    assert cycle or len(warned) == 1
    said = [record.message for record in caplog.records if "where size says 4" in record.message]
    assert len(said) == 1
    assert "after 3 batches" in said[0]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 8, 9, 10, 14, 16, 19])
@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("cycle", ["quiet", "raise"])
@pytest.mark.parametrize(
    ("rows", "policy"), [(8, LastBatchPolicy.FILL), *((7, policy) for policy in LastBatchPolicy)], ids=str
)
def test_lists_continue_and_end_like_iterators_beside_a_reader(length, batch, cycle, rows, policy):
    items = [np.full((2, 1), number) if batch else np.int32([number]) for number in range(length)]

    class Iterable:
        def __iter__(self):
            return iter(items)

    def epochs(source):
        def define():
            return fn.external_source(source, batch=batch, cycle=cycle), fn.readers.arrays(np.arange(rows), name="r")

        result = []
        try:
            run = data_iterator(define, ["x", "y"], reader_name="r", last_batch_policy=policy)(batch_size=2)
            result.extend([np.asarray(each["x"]).ravel().tolist() for each in run] for _ in range(4))
        except errors.SourceError as error:
            return [*result, str(error)]
        return result

    assert epochs(items) == epochs(Iterable())


def test_a_list_restarts_after_the_epoch_in_which_it_ended():
    def nine():
        return fn.external_source([np.full((8, 1), number) for number in range(9)], cycle="raise")

    run = iterator(nine, size=32)
    assert [[batch[0] for batch in firsts(run)] for _ in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8], [0, 1, 2, 3]]


def test_a_source_may_not_end_before_the_reader_that_leads():
    def short():
        return fn.external_source(iter([np.zeros((8, 1))] * 3)) + fn.readers.arrays(np.arange(32), name="r")

    with pytest.raises(errors.SourceError, match=r"3 batches(.|\n)*expected: 4"):
        list(iterator(short, reader_name="r"))


@pytest.mark.parametrize("closed", [False, True])
def test_a_batch_that_is_dropped_is_taken_from_the_source(closed):
    count = itertools.count()

    def called():
        if (number := next(count) % 5) == 4:
            raise StopIteration
        return np.full((8, 2), number)

    batches = [np.full((8, 2), number) for number in range(4)]

    def generated():
        yield from batches

    def sources():
        readers = fn.readers.arrays(np.arange(30), pad_last_batch=True), fn.external_source(batches, cycle="quiet")
        return *readers, fn.external_source(called), fn.external_source(generated, cycle="quiet")

    names = ["x", "a", "b", "c"]
    run = data_iterator(sources, names, size=30, last_batch_policy=LastBatchPolicy.DROP)(batch_size=8)
    for _ in range(3):
        epoch = [[int(np.ravel(batch[name])[0]) for name in names] for batch in run]
        assert epoch == [[8 * k, k, k, k] for k in range(3)]
        if closed:
            run.close()


def test_a_size_cuts_a_source_that_goes_on():
    def long():
        return fn.external_source([np.full((8, 2), number) for number in range(5)], cycle="quiet")

    run = iterator(long, size=24)
    assert [[batch[0] for batch in firsts(run)] for _ in range(3)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]


def test_beside_a_reader_that_leads():
    def both():
        labels = fn.readers.arrays(np.arange(16), name="reader")
        return fn.external_source(lambda info: np.full(2, info.idx_in_epoch), batch=False) * 100 + labels

    run = iterator(both, reader_name="reader")
    assert [[batch[1] for batch in firsts(run)] for _ in range(2)] == [[101, 909], [101, 909]]


def test_peeking():
    run = iterator(by_sample, peekable_data_iterator)
    coming = run.peek_async()
    assert run.peek()["x"][0, 0] == 0
    assert [batch[0] for batch in firsts(run)] == [0, 8]
    assert coming.result()["x"][0, 0] == 0
    with pytest.raises(StopIteration):
        run.peek()
    with pytest.raises(StopIteration):
        run.peek_async().result()


def test_no_data_at_all():
    with pytest.raises(errors.SourceError, match="returns no data"):
        iterator(lambda: fn.external_source(iter([])))
    with pytest.raises(errors.SourceError, match="no data"):
        iterator(lambda: fn.external_source(iter([]), dtype=types.FLOAT, ndim=1))


def test_a_source_that_cannot_be_asked_yet():
    waiting: list[np.ndarray] = []
    with pytest.raises(errors.SourceError, match=r"IndexError: pop from empty list\n  fix: .* dtype= and ndim="):
        pipeline(waiting.pop)
    later = Pipeline(4, exec_async=False)
    later.build(lambda: fn.external_source(waiting.pop, dtype=types.FLOAT, ndim=1))
    waiting.append(np.ones((4, 2), np.float32))
    assert later.run()[0].shape() == [(2,)] * 4


@pipeline_def(batch_size=2, num_threads=1, seed=0)
def mirrored(source, batch=True):
    return fn.flip(fn.external_source(source, batch=batch))


class Mirrored(Pipeline):
    def __init__(self, source, batch):
        super().__init__(2, 1)
        self.source, self.batch = source, batch

    def define_graph(self):
        return fn.flip(fn.external_source(self.source, batch=self.batch))


def of_list(waiting):
    return waiting, False


def of_function(waiting):
    return lambda info: waiting[info.idx_in_epoch], False


class Pairs:
    def __init__(self, waiting):
        self.waiting = waiting

    def __iter__(self):
        return self

    def __next__(self):
        return np.stack([self.waiting.pop(0), self.waiting.pop(0)])


def of_iterator(waiting):
    return Pairs(waiting), True


def of_generator(waiting):
    def source():
        while True:
            yield np.stack([waiting.pop(0), waiting.pop(0)])

    return source, True


@pytest.mark.parametrize("form", [of_list, of_function, of_iterator, of_generator])
@pytest.mark.parametrize("define", [mirrored, Mirrored])
def test_a_source_may_be_filled_when_the_pipeline_is_built(define, form):
    waiting: list[np.ndarray] = []
    source, batch = form(waiting)
    made = define(source, batch)
    made.build()
    with pytest.raises(
        errors.SourceNotReadyError, match=r"(.|\n)*fix: .*dtype= and ndim=(.|\n)*fn.flip\(fn.external_source"
    ):
        made.run()
    waiting += [np.full((1, 2, 1), [[[number], [-number]]], np.int8) for number in range(4)]
    assert [made.run()[0].as_array()[:, 0, 0, 0].tolist() for _ in range(2)] == [[0, -1], [-2, -3]]


def test_an_iterator_that_has_failed_is_not_said_to_be_empty():
    def fails():
        raise KeyError("nothing there")
        yield

    made = mirrored(fails())
    for _ in range(2):
        with pytest.raises(errors.SourceNotReadyError, match="failed on batch 0 of epoch 0: KeyError"):
            made.run()


def test_a_source_that_waits_is_told(monkeypatch, caplog):
    monkeypatch.setattr("penstock.sources.external.external_stream.PATIENCE", 0.001)
    told = threading.Event()
    monkeypatch.setattr(caplog.handler, "handle", lambda record: told.set())
    made = mirrored(lambda: np.full((2, 1, 2, 1), told.wait(60), np.uint8))
    assert made.run()[0].as_array().all()


def test_a_smaller_last_batch_is_delivered():
    def shrinking():
        return fn.external_source(iter([np.zeros((8, 2)), np.zeros((4, 2))]))

    assert [batch["x"].shape for batch in iterator(shrinking, sharding=ROWS)] == [(8, 2), (4, 2)]


def test_policies_need_to_know_where_an_epoch_ends():
    with pytest.raises(errors.UsageError, match="PAD"):
        iterator(by_sample, last_batch_policy=LastBatchPolicy.PAD)
    run = iterator(by_sample, size=12, last_batch_policy=LastBatchPolicy.PARTIAL)
    assert [len(batch) for batch in firsts(run)] == [8, 4]


def changing(at, then):
    def source(number):
        if number < at:
            return np.zeros((4, 3), np.float32)
        return then() if callable(then) else then

    return source


def fails():
    raise KeyError("nothing there")


@pytest.mark.parametrize(
    ("then", "message"),
    [
        (fails, "failed on batch 2 of epoch 0: KeyError"),
        (np.zeros((4, 3), np.float64), "differs in kind"),
        (np.zeros((4, 3, 1), np.float32), "differs in kind"),
        (np.zeros((5, 3), np.float32), "more samples than fit"),
        (np.zeros((0, 3), np.float32), "empty batch"),
        (np.float32(3), "leading axis"),
        (["a", "b", "c", "d"], "array of numbers"),
        ([np.zeros(3, np.float32), np.zeros((3, 1), np.float32)], "differs in kind"),
    ],
)
def test_what_a_source_may_not_give(then, message):
    made = pipeline(changing(2, then))
    for _ in range(2):
        made.run()
    for _ in range(2):  # the same again: the source is asked again for the batch that failed
        with pytest.raises(
            (errors.SourceError, errors.ArgumentTypeError), match=f"{message}(.|\n)*test_external_source"
        ):
            made.run()


def test_valid_samples_of_a_failed_batch_are_kept():
    made = pipeline(iter([np.float64(n) if n == 6 else np.float32(n) for n in range(16)]), batch=False)
    assert made.run()[0].as_array().tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.SourceError, match="sample 2 of the batch differs in kind"):
        made.run()
    assert [made.run()[0].as_array().tolist() for _ in range(2)] == [[4, 5, 7, 8], [9, 10, 11, 12]]


@pytest.mark.parametrize("declared", [{}, {"dtype": types.FLOAT64, "ndim": 1}])
def test_float64_samples_keep_their_dtype(declared):
    made = pipeline(lambda number: np.zeros((4, 3), (np.float64, np.uint8)[number]), **declared)
    made.run()
    with pytest.raises(errors.SourceError, match="differs in kind"):
        made.run()


@pytest.mark.parametrize("kind", ["S2", "V2", [("a", "u1"), ("b", "u1")]])
def test_untyped_bytes_are_not_numbers(kind):
    for define in (lambda a: fn.external_source(lambda: a), fn.readers.arrays):
        with pytest.raises(errors.ArgumentTypeError, match="array of numbers"), Pipeline(4):
            define(np.zeros((4, 3), kind))


def test_another_shape_where_one_is_needed():
    run = iterator(lambda: fn.external_source(changing(1, np.zeros((4, 5), np.float32))), batch_size=4)
    next(run)
    with pytest.raises(errors.SampleError, match=r"sample 0 of the batch(.|\n)*the samples differ in shape"):
        next(run)


def test_what_is_known_of_some_outputs_only():
    made = pipeline(lambda: (np.zeros((4, 2, 3, 3)), np.zeros(4)), num_outputs=2, layout=["HWC", None], ndim=[3, None])
    assert [output.layout() for output in made.run()] == ["HWC", ""]


def test_arrays_in_the_order_of_bytes_of_another_machine():
    made = pipeline(lambda: np.arange(8).reshape(4, 2).astype(">i2"))
    assert made.run()[0].as_array().tolist() == np.arange(8).reshape(4, 2).tolist()


def test_outputs_of_different_length():
    made = pipeline(lambda: (np.zeros(4), np.zeros(3)), num_outputs=2, dtype=np.float64, ndim=0)
    with pytest.raises(errors.SourceError, match="different numbers of samples"):
        made.run()
    with pytest.raises(errors.SourceError, match="num_outputs"):
        pipeline(lambda: (np.zeros(4),), num_outputs=2)


def test_two_sources_of_different_length():
    with Pipeline(4, 2) as made:
        made.set_outputs(fn.external_source(lambda: np.zeros(4)), fn.external_source(lambda: np.zeros(2)))
    with pytest.raises(errors.SourceError, match="different numbers of samples"):
        made.run()


SHARED = np.zeros((4, 2), np.int32)


def written(number):
    SHARED[:] = number
    return SHARED


def alike():
    return fn.external_source(written)


def ragged():
    return fn.external_source(lambda number: [written(number)[: row + 1] for row in range(4)])


def beside_another():
    return fn.external_source(written), fn.external_source(lambda number: written(number + 100))


def by_turns():
    numbers = iter(range(20))
    return fn.external_source(lambda: written(next(numbers)))


class Indexed:
    def __len__(self):
        return 20

    def __getitem__(self, number):
        return written(number)


def by_index():
    return fn.external_source(Indexed())


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    "define", [alike, ragged, beside_another, by_turns, by_index], ids=lambda define: define.__name__
)
def test_a_source_may_use_its_memory_again(define, debug):
    made = pipeline_def(define, batch_size=4, num_threads=2, debug=debug and define is not by_turns)()
    batches = [made.run() for _ in range(20)]
    for number, batch in enumerate(batches):
        for added, output in zip((0, 100), batch, strict=False):
            assert all((np.asarray(sample) == number + added).all() for sample in output)


def test_an_indexed_source_of_samples_may_use_its_memory_again():
    made = pipeline(Indexed(), batch=False)
    assert [made.run()[0].as_array()[:, 0, 0].tolist() for _ in range(2)] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_what_an_ended_epoch_left_is_given_next_though_the_memory_was_used_again():
    numbers, ends = iter(range(20)), iter([0, 0, 1, 0, 0])

    def other():
        if next(ends):
            raise StopIteration
        return written(100)

    with Pipeline(4, 2) as made:
        made.set_outputs(fn.external_source(lambda: written(next(numbers))), fn.external_source(other))
    seen = [made.run()[0].as_array()[0, 0] for _ in range(2)]
    with pytest.raises(StopIteration):
        made.run()
    made.reset()
    assert [*seen, *(made.run()[0].as_array()[0, 0] for _ in range(2))] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "convert",
    [np.asarray, jax.numpy.asarray, lambda a: a.tolist(), lambda a: [bytes(row) for row in a]],
    ids=["numpy", "jax", "numbers", "bytes"],
)
def test_what_a_batch_may_be(convert):
    batch = np.arange(8, dtype=np.uint8).reshape(4, 2)
    (output,) = pipeline(lambda: convert(batch)).run()
    assert [np.asarray(sample).tolist() for sample in output] == batch.tolist()


def test_batches_of_a_pipeline_are_batches():
    first = pipeline(lambda: [np.zeros(n + 1) for n in range(4)])
    (output,) = pipeline(lambda: first.run()[0]).run()
    assert output.shape() == [(1,), (2,), (3,), (4,)]


def jpeg(height):
    file = io.BytesIO()
    Image.fromarray(np.full((height, 20, 3), height, np.uint8)).save(file, "JPEG")
    return np.frombuffer(file.getvalue(), np.uint8)


def test_nothing_is_said_of_what_is_fed():
    @pipeline_def(batch_size=2, num_threads=2)
    def serving():
        images = fn.decoders.image(fn.external_source(name="files"), device="mixed")
        small = fn.crop_mirror_normalize(fn.external_source(name="images"), crop=(4, 4))
        return fn.resize(images, size=[8, 8]), small, fn.one_hot(fn.external_source(name="labels"), num_classes=3)

    made = serving()
    made.build()
    with pytest.raises(errors.UsageError, match=r"nothing was fed to files(.|\n)*feed_input") as caught:
        made.run()
    assert isinstance(caught.value, RuntimeError)  # DALI's type, which its programs catch to stop
    for _ in range(2):
        made.feed_input("files", [jpeg(10), jpeg(12)])
        made.feed_input("images", np.zeros((2, 6, 6, 3), np.uint8), layout="HWC")
        outputs = made.run(labels=np.array([1, 2]))
        assert [output.shape()[0] for output in outputs] == [(8, 8, 3), (3, 4, 4), (3,)]
    with pytest.raises(errors.UsageError, match="did you mean 'images'"):
        made.feed_input("image", np.zeros(2))
    with pytest.raises(errors.SourceError, match="differs in kind"):
        made.feed_input("files", np.zeros((2, 4), np.float32))


def test_samples_of_several_dtypes_are_not_fed():
    with Pipeline(2, 2) as made:
        made.set_outputs(fn.external_source(name="x"))
    made.feed_input("x", [np.int32([1]), np.uint32([1])])
    with pytest.raises(errors.SourceError, match="differs in kind"):
        made.run()


def test_a_layout_may_be_said_when_a_batch_is_fed():
    @pipeline_def(batch_size=2, num_threads=1, enable_conditionals=True)
    def cropped():
        planes = fn.external_source(name="x", dtype=types.UINT8, ndim=3)
        if fn.external_source(name="where", dtype=types.INT32, ndim=0):
            part = fn.crop(planes, crop=(2, 2))
        else:
            part = fn.crop(planes, crop=(2, 2), crop_pos_x=0.0)
        return part

    made = cropped()
    made.build()
    for _ in range(2):
        made.feed_input("x", np.zeros((2, 3, 6, 5), np.uint8), layout="CHW")
        made.feed_input("where", np.int32([0, 1]))
        assert made.run()[0].shape() == [(3, 2, 2)] * 2


def test_what_no_kind_of_data_can_be():
    with pytest.raises(errors.DefinitionError, match="crop"), Pipeline(2):
        fn.crop_mirror_normalize(fn.external_source(name="x"), crop=(4, 4, 4, 4, 4))


def test_an_error_of_what_was_fed_names_the_line():
    with Pipeline(2, 2) as made:
        made.set_outputs(fn.decoders.image(fn.external_source(name="files")))  # here
    made.feed_input("files", np.zeros((2, 3, 3), np.float32))
    with pytest.raises(errors.PenstockError, match="# here"):
        made.run()


class Set(Pipeline):
    """A pipeline that feeds itself, as it was written before sources could be given."""

    def __init__(self):
        super().__init__(2, 2)
        self.numbers = iter(range(3))
        with self:
            self.images, self.labels = fn.external_source(), fn.external_source()
            self.set_outputs(fn.flip(self.images), self.labels)

    def iter_setup(self):
        number = next(self.numbers)
        self.feed_input(self.images, [np.full((4, 4, 1), number, np.float32)] * 2)
        self.feed_input(self.labels, np.full((2, 1), number))


def test_iter_setup_feeds():
    made = Set()
    assert [made.run()[1].as_array().ravel().tolist() for _ in range(3)] == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(StopIteration):
        made.run()
    assert [batch["y"].ravel().tolist() for batch in DataIterator(Set(), ["x", "y"])] == [[0, 0], [1, 1], [2, 2]]


class Waiting(Pipeline):
    """Gives, or feeds, one after another what waits in a list."""

    def __init__(self, waiting, *, fed):
        super().__init__(1, 1, prefetch_queue_depth=1)
        self.waiting = waiting
        with self:
            self.input = fn.external_source(None if fed else lambda: np.array([waiting.pop()]))
            self.set_outputs(self.input)

    def iter_setup(self):
        self.feed_input(self.input, np.array([self.waiting.pop()]))


@pytest.mark.parametrize("fed", [False, True], ids=["given", "fed"])
def test_a_queue_of_one_batch_holds_the_one_asked_for(fed):
    waiting = [0]
    made = Waiting(waiting, fed=fed)
    for number in range(4):
        waiting += [number] * (number > 0)
        assert made.run()[0].as_array().tolist() == [number]


def test_repeat_last():
    with Pipeline(2, 2) as made:
        made.set_outputs(fn.external_source(name="x", repeat_last=True), fn.external_source(lambda n: np.full(2, n)))
    made.feed_input("x", np.ones(2))
    assert [made.run()[0].as_array().tolist() for _ in range(3)] == [[1.0, 1.0]] * 3


def test_a_dropped_pipeline_leaves_its_source_alone():
    def source():
        return np.zeros((4, 2))

    made = pipeline(source)
    made.run()
    made.close()
    kept = weakref.ref(source)
    del made, source
    gc.collect()
    assert kept() is None


class Bare(np.ndarray):
    """An array of a library's own, with nothing beside its elements."""

    __slots__ = ()


@pytest.mark.parametrize("batch", [True, False])
def test_arrays_of_other_classes_are_samples(batch):
    rows = np.arange(6.0).reshape(2, 3).view(Bare)
    source = (lambda: rows) if batch else (lambda info: rows[info.idx_in_batch])
    made = pipeline(source, batch_size=2, batch=batch)
    np.testing.assert_array_equal(made.run()[0].as_array(), rows)


def test_the_end_of_a_source_does_not_keep_the_frames_of_its_callers():
    class Data:
        pass

    def make():
        data = Data()
        # Reads ahead, to the end of the source.
        return iterator(lambda: fn.external_source(iter([np.zeros((8, 3), np.int32)]))), weakref.ref(data)

    def take(ended):
        data = Data()
        assert len(firsts(ended)) == 1
        return weakref.ref(data)

    gc.disable()  # a cycle would be enough to keep the data of a notebook's cell until the next collection
    try:
        ended, at_start = make()
        at_end = take(ended)
        assert (at_start(), at_end()) == (None, None)
    finally:
        gc.enable()
