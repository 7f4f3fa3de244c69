"""Tests of peek, peek_async and element_spec, from one and several threads."""

import asyncio
import concurrent.futures
import inspect
import subprocess
import sys
import threading

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from penstock import DataIterator, LastBatchPolicy, data_iterator, fn, peekable_data_iterator
from penstock.engine.host import chunk_scheduler
from penstock.engine.transfer.batch_layout import SingleDevice
from penstock.errors import ContextError, SampleError, UsageError
from penstock.iterate.peekable import PeekableDataIterator, get_spec_for_array
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource, check_iterator

COUNT, ROWS = 23, 4


def sharding(count):
    return NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), P("batch"))


def definition():
    x = fn.readers.arrays(np.arange(COUNT, dtype=np.int32), name="r", random_shuffle=True)
    return x, fn.random.uniform(range=[0, 1])


def make(factory=peekable_data_iterator, policy=LastBatchPolicy.FILL, **options):
    layout = {key: options.pop(key) for key in ("sharding", "devices", "prepare_first_batch") if key in options}
    made = factory(definition, ["x", "noise"], reader_name="r", last_batch_policy=policy, **layout)
    return made(**{"batch_size": ROWS, "seed": 3, "num_threads": 2, **options})


def on_host(batch):
    return {name: np.asarray(array).tolist() for name, array in batch.items()}


@pytest.fixture(scope="module")
def stream():
    """Return the stream without peeking, by epoch."""
    plain = make(data_iterator)
    return [[on_host(batch) for batch in plain] for _ in range(6)]


class Model:
    """Reference model of an iterator: a position in the stream and the returned futures."""

    def __init__(self, stream):
        self.stream = stream
        self.epoch = self.index = 0
        self.made = True  # prepare_first_batch
        self.futures = []  # [future, what it should give, whether it is still open at the present place]

    @property
    def ended(self):
        return self.index == len(self.stream[self.epoch])

    @property
    def here(self):
        return None if self.ended else self.stream[self.epoch][self.index]

    def go(self, epoch, index):
        for entry in self.futures:
            if entry[2] and not self.made and entry[1] is not None:
                entry[1] = "cancelled"
            entry[2] = False
        self.epoch, self.index, self.made = epoch, index, False


def step(iterator, model, action, states, number):
    if action == "peek":
        check_peek(iterator, model)
    elif action == "peek_async":
        model.futures.append([iterator.peek_async(), model.here, True])
    elif action == "result" and model.futures:
        check_result(model, model.futures[number % len(model.futures)])
    elif action == "next":
        batch = next(iterator, None)
        assert (None if batch is None else on_host(batch)) == model.here
        if batch is not None:
            model.made = True
            model.go(model.epoch, model.index + 1)
    elif action in ("reset", "next_epoch"):
        getattr(iterator, action)()
        if model.ended if action == "reset" else model.index:
            model.go(model.epoch + 1, 0)
    elif action == "state":
        states.append((iterator.get_state(), model.epoch, model.index))
    elif action == "restore":
        state, epoch, index = states[number % len(states)]
        iterator.set_state(state)
        model.go(epoch, index)


def check_peek(iterator, model):
    if model.ended:
        with pytest.raises(StopIteration):
            iterator.peek()
    else:
        assert on_host(iterator.peek()) == model.here
        model.made = True


def check_result(model, entry):
    future, expected, here = entry
    if expected is None:
        with pytest.raises(StopIteration):
            future.result(timeout=60)
    elif expected == "cancelled":
        assert future.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(timeout=60)
    else:
        assert on_host(future.result(timeout=60)) == expected
        model.made = model.made or here


ACTIONS = ["peek", "peek_async", "result", "next", "next", "next", "reset", "next_epoch", "state", "restore"]


@pytest.mark.parametrize("how", ["light", "threads", "serial"])
@given(actions=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 99)), max_size=40))
def test_any_interleaving_of_peeks_yields_plain_stream(how, stream, actions):
    with pytest.MonkeyPatch.context() as patch:
        if how != "light":
            patch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)  # every batch goes to the pool
        iterator = make(exec_async=how != "serial")
        model, states = Model(stream), [(iterator.get_state(), 0, 0)]
        for action, number in actions:
            if model.epoch == len(stream) - 1:
                break
            step(iterator, model, action, states, number)
            state = iterator.get_state()
            row = min(model.index * ROWS, COUNT)  # what is peeked does not show
            assert (state["epoch"], state["row"]) == (model.epoch, row)
        for entry in model.futures:
            check_result(model, entry)
        iterator.close()


def test_peekable_iterators_keep_the_contract():
    check_iterator(make)


@pytest.mark.parametrize("how", ["one device", "sharding", "pmap"])
def test_every_layout_can_be_peeked(how):
    options = {"sharding": {"sharding": sharding(4)}, "pmap": {"devices": jax.devices()[:2]}}.get(how, {})
    iterator, plain = make(**options), make(data_iterator, **options)
    for batch in plain:
        coming, peeked = iterator.peek_async().result(), iterator.peek()
        assert on_host(coming) == on_host(peeked) == on_host(batch)
        assert peeked["x"].sharding == batch["x"].sharding
        assert jax.tree.map(get_spec_for_array, batch) == iterator.element_spec or how == "one device"
        assert jax.tree.map(lambda a: (a.shape, a.dtype), batch) == shapes(iterator.element_spec)
        assert on_host(iterator.next()) == on_host(batch)


def shapes(spec):
    return {name: (struct.shape, struct.dtype) for name, struct in spec.items()}


def test_element_spec_is_known_without_reading(monkeypatch):
    iterator = make(prepare_first_batch=False, policy=LastBatchPolicy.PAD, sharding=sharding(2))
    monkeypatch.setattr(iterator._cursor, "run", None)
    spec = iterator.element_spec
    monkeypatch.undo()
    assert spec["valid"] == jax.ShapeDtypeStruct((ROWS,), np.bool_, sharding=sharding(2))
    compiled = jax.jit(lambda batch: batch["x"].sum()).lower(spec).compile()
    assert int(compiled(iterator.peek())) == int(next(iterator)["x"].sum())


def test_peeking_does_not_change_saved_state():
    iterator = make()
    first = on_host(iterator.peek())
    assert iterator.peek() is not iterator.peek()  # changing one's own dictionary does not change the batch
    saved = iterator.checkpoints()
    assert iter(iterator) is iterator
    assert on_host(next(iterator)) == first
    second = on_host(iterator.peek())
    assert iterator.get_state()["row"] == ROWS
    other = make(checkpoints=saved)
    assert [on_host(next(other)), on_host(next(other))] == [first, second]


def test_peek_stops_at_end_of_epoch():
    iterator = make()
    taken = len(list(iterator))
    with pytest.raises(StopIteration):
        iterator.peek()
    with pytest.raises(StopIteration):
        iterator.peek_async().result()
    iterator.reset()
    assert iterator.peek() is not None
    assert len(list(iterator)) == taken  # `iter` did not begin another epoch


def test_only_consumer_thread_dispatches(monkeypatch):
    dispatched = []
    put = SingleDevice.put_batch
    monkeypatch.setattr(
        SingleDevice, "put_batch", lambda *args: dispatched.append(threading.current_thread()) or put(*args)
    )
    monkeypatch.setattr(chunk_scheduler, "_LIGHT_BATCH_SECONDS", -1.0)
    iterator = make(prepare_first_batch=False)
    coming = iterator.peek_async()
    concurrent.futures.wait([coming], timeout=60)
    assert coming.done()
    assert not dispatched
    consumer = threading.Thread(target=coming.result)
    consumer.start()
    consumer.join()
    assert set(dispatched) == {consumer}


class Gate(ListSource):
    """Source of numbers that blocks until a gate is opened."""

    def __init__(self, columns):
        super().__init__(columns)
        self.open = threading.Event()

    def read(self, indices, out):
        assert self.open.wait(timeout=60)
        return super().read(indices, out)


def gated(**options):
    gate = Gate([[np.int32(n) for n in range(8)]])

    def numbers():
        return apply_reader(gate, {}, common={"name": "r"})[0]

    factory = peekable_data_iterator(numbers, ["x"], reader_name="r", prepare_first_batch=False)
    return gate, factory(batch_size=4, **options)


def test_peek_async_returns_future(monkeypatch):
    gate, iterator = gated()
    coming = iterator.peek_async()
    assert iterator.peek_async() is coming
    assert coming.running()
    assert not coming.cancel()
    with pytest.raises(TimeoutError):
        coming.result(timeout=0)
    with pytest.raises(TimeoutError):
        coming.exception(timeout=0)
    seen = []

    def callback(future):
        try:
            future.result()
        except ContextError as error:
            seen.append(str(error))
        called.set()

    called = threading.Event()
    coming.add_done_callback(callback)
    gate.open.set()
    assert coming.result(timeout=60)["x"].tolist() == [0, 1, 2, 3]
    assert called.wait(timeout=60)
    assert "must not dispatch" in seen[0]
    assert coming.exception() is None

    async def awaited():
        return await asyncio.wrap_future(iterator.peek_async())

    next(iterator)
    assert asyncio.run(awaited())["x"].tolist() == [4, 5, 6, 7]
    assert coming.result()["x"].tolist() == [0, 1, 2, 3]  # though it has been taken


def test_abandoned_peek_is_cancelled():
    gate, iterator = gated()
    state = iterator.get_state()
    coming = iterator.peek_async()
    iterator.set_state(state)
    gate.open.set()
    with pytest.raises(concurrent.futures.CancelledError):
        coming.result(timeout=60)
    assert coming.cancelled()
    assert iterator.peek_async().result()["x"].tolist() == [0, 1, 2, 3]


def test_closed_iterator_recomputes_pending_batch_on_request():
    gate, iterator = gated(num_threads=1)
    coming = iterator.peek_async()
    gate.open.set()
    iterator.close()
    assert coming.result(timeout=60)["x"].tolist() == [0, 1, 2, 3]


def test_bad_sample_is_named_and_position_is_kept():
    def broken():
        return fn.decoders.image(apply_reader(ListSource([[np.zeros(3, np.uint8)]]), {}, common={"name": "r"})[0])

    with pytest.raises(SampleError):
        peekable_data_iterator(broken, ["x"], reader_name="r")(batch_size=1)

    def later():
        samples = [np.zeros(3, np.uint8)] * 4 + [np.zeros(2, np.uint8)] * 4
        return apply_reader(ListSource([samples], shapes=[(None,)]), {}, common={"name": "r"})[0]

    iterator = peekable_data_iterator(later, ["x"], reader_name="r")(batch_size=4)
    assert next(iterator)["x"].shape == iterator.element_spec["x"].shape == (4, 3)
    coming = iterator.peek_async()
    assert isinstance(coming.exception(timeout=60), SampleError)
    for ask in (coming.result, iterator.peek, iterator.next):
        with pytest.raises(SampleError, match=r"sample 4 of a list"):
            ask()
    assert iterator.get_state()["row"] == 4


def test_a_shorter_last_batch_is_refused():
    with pytest.raises(UsageError, match="one shape for all batches"):
        make(policy=LastBatchPolicy.PARTIAL)
    assert len(list(make(policy=LastBatchPolicy.PARTIAL, batch_size=COUNT))) == 1


def test_is_nonpadding_marks_samples():
    iterator = make(sharding=sharding(2))
    with pytest.raises(ContextError, match="no batch"):
        iterator.is_nonpadding  # noqa: B018  # it must raise
    masks = []
    for _ in iterator:
        iterator.peek_async()
        masks.append(iterator.is_nonpadding)
    assert sum(mask.tolist().count(True) for mask in masks) == COUNT
    assert masks[-1].tolist() == [True, True, True, False]
    assert masks[-1].sharding == sharding(2)
    endless = peekable_data_iterator(definition, ["x", "noise"], size=-1)(batch_size=2)
    with pytest.raises(UsageError, match="reader"):
        endless.is_nonpadding  # noqa: B018  # it must raise


def test_many_threads_share_one_iterator(stream):
    iterator, taken, lock = make(), [], threading.Lock()

    def consume():
        while (batch := next(iterator, None)) is not None:
            iterator.peek_async()
            with lock:
                taken.append(on_host(batch))
            try:
                iterator.peek()
            except StopIteration:
                return

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, taken)) == sorted(map(str, stream[0]))


def test_peekable_decorator_accepts_same_arguments():
    assert inspect.signature(peekable_data_iterator) == inspect.signature(data_iterator)
    assert issubclass(PeekableDataIterator, DataIterator)


def test_dali_names_exist_without_clu():
    import penstock.plugin.jax.clu as facade

    assert inspect.signature(facade.peekable_data_iterator) == inspect.signature(peekable_data_iterator)
    assert facade.PeekableDataIterator is PeekableDataIterator
    assert facade.get_spec_for_array(jax.numpy.zeros(3)).shape == (3,)
    code = "import sys, penstock.plugin.jax.clu; sys.exit('clu' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_dali_name_is_importable_from_same_path():
    from penstock.plugin.jax.clu import DALIGenericPeekableIterator  # clu's package is not needed

    assert DALIGenericPeekableIterator is PeekableDataIterator
