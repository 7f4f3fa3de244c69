"""Readers of dynamic mode: exact epochs, styles, states, mistakes and threads."""

import gc
import sys
import threading
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import penstock.experimental.dynamic as ndd
import pytest

from penstock.errors import SampleError, SourceNotFoundError
from penstock.types import LastBatchPolicy

NUMBERS = np.arange(7)


def numbers(reader, batch_size=3, **options):
    """The samples of an epoch, by batch."""
    return [[x.item() for x in batch] for (batch,) in reader.next_epoch(batch_size=batch_size, **options)]


@pytest.mark.parametrize(
    ("policy", "epoch"),
    [
        (LastBatchPolicy.PARTIAL, [[0, 1, 2], [3, 4, 5], [6]]),
        (LastBatchPolicy.DROP, [[0, 1, 2], [3, 4, 5]]),
        (LastBatchPolicy.FILL, [[0, 1, 2], [3, 4, 5], [6, 0, 1]]),
    ],
)
def test_exact_epochs_are_equal(policy, epoch):
    reader = ndd.readers.Arrays(data=NUMBERS, last_batch_policy=policy)
    assert [numbers(reader) for _ in range(3)] == [epoch] * 3


def test_an_exact_epoch_begins_with_its_first_sample_wherever_the_last_one_was_left():
    reader = ndd.readers.Arrays(data=NUMBERS, last_batch_policy=LastBatchPolicy.PARTIAL)
    for (batch,) in reader.next_epoch(batch_size=3):
        assert [x.item() for x in batch] == [0, 1, 2]
        break
    assert numbers(reader) == [[0, 1, 2], [3, 4, 5], [6]]


def test_exact_epochs_of_single_samples():
    reader = ndd.readers.Arrays(data=NUMBERS, last_batch_policy=LastBatchPolicy.PARTIAL)
    assert [[x.item() for (x,) in reader.next_epoch()] for _ in range(2)] == [list(range(7))] * 2


@pytest.mark.parametrize("policy", [None, LastBatchPolicy.PARTIAL])
def test_a_shuffled_epoch_is_the_same_in_every_reader_and_differs_from_epoch_to_epoch(policy):
    def epochs(**options):
        reader = ndd.readers.Arrays(data=NUMBERS, random_shuffle=True, last_batch_policy=policy, **options)
        return [sum(numbers(reader, 1), []) for _ in range(2)]

    first, second = epochs()
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    assert epochs() == [first, second]
    ndd.random.set_seed(5)
    assert epochs() == [first, second]  # as in DALI, readers have their own seed
    assert epochs(seed=4) != [first, second]


def test_a_reader_with_named_outputs_yields_dictionaries():
    reader = ndd.readers.Arrays(
        data={"x": np.zeros((4, 2, 3), np.uint8), "y": NUMBERS[:4]}, layout={"x": "HW", "y": ""}
    )
    (batch,) = reader.next_epoch(batch_size=4)
    assert {name: (value.batch_size, value.layout) for name, value in batch.items()} == {"x": (4, "HW"), "y": (4, None)}


@pytest.mark.parametrize("policy", [None, LastBatchPolicy.PARTIAL, LastBatchPolicy.FILL])
def test_a_state_continues_with_the_next_sample(policy):
    def reader():
        return ndd.readers.Arrays(data=NUMBERS, random_shuffle=True, last_batch_policy=policy)

    first = reader()
    whole = sum(numbers(first, 2), [])
    epoch = first.next_epoch(batch_size=2)
    begun = [x.item() for x in next(epoch)[0]]
    state = first.get_state()
    rest = [x.item() for (batch,) in epoch for x in batch]
    other = reader()
    other.set_state(str(state))
    resumed = sum(numbers(other, 1 if policy else 2), [])
    assert resumed[:3] == rest[:3]
    assert begun + rest != whole
    if policy is LastBatchPolicy.PARTIAL:
        assert resumed == rest


@pytest.mark.parametrize("policy", [LastBatchPolicy.PARTIAL, LastBatchPolicy.DROP, LastBatchPolicy.FILL])
def test_a_state_at_the_end_of_an_exact_epoch_continues_with_the_next_one(policy):
    reader, other = (
        ndd.readers.Arrays(data=NUMBERS, random_shuffle=True, last_batch_policy=policy, seed=3) for _ in range(2)
    )
    numbers(reader)
    other.set_state(reader.get_state())
    assert [numbers(other) for _ in range(2)] == [numbers(reader) for _ in range(2)]


def test_an_error_of_the_first_batch_names_the_line():
    reader = ndd.readers.Arrays(data=NUMBERS, last_batch_policy=LastBatchPolicy.DROP)
    with pytest.raises(ValueError, match="test_dynamic_readers") as caught:
        next(reader.next_epoch(batch_size=8))
    assert "next(reader.next_epoch(batch_size=8))" in str(caught.value)


def test_the_state_is_that_of_the_last_delivered_batch():
    reader = ndd.readers.Arrays(data=NUMBERS)
    before = reader.get_state()
    epoch = reader.next_epoch(batch_size=3)
    assert reader.get_state() == before
    next(epoch)
    assert reader.get_state() != before


def test_metadata_has_no_side_effect():
    reader = ndd.readers.Arrays(data=NUMBERS, num_shards=2, pad_last_batch=True)
    assert reader.get_metadata() == {
        "epoch_size": 7,
        "epoch_size_padded": 8,
        "number_of_shards": 2,
        "shard_id": 0,
        "pad_last_batch": 1,
        "stick_to_shard": 0,
    }
    assert numbers(reader) == [[0, 1, 2], [2, 2, 2]]


def test_tensors_are_writable_and_of_their_own():
    data = np.arange(4.0)
    reader = ndd.readers.Arrays(data=data)
    ((batch,),) = reader.next_epoch(batch_size=4)
    np.asarray(batch.tensors[0])[...] = 9
    assert data[0] == 0


def test_a_dropped_reader_leaves_no_thread():
    before = set(threading.enumerate())

    def use(capture):
        reader = ndd.readers.Arrays(data=np.zeros((64, 50, 50)))
        epoch = reader.next_epoch(batch_size=8, capture=capture)
        for _ in range(3):
            (batch,) = next(epoch)
            ndd.reductions.sum(batch)

    gc.disable()
    try:
        for capture in (False, True):
            use(capture)
        left = set(threading.enumerate()) - before
        for thread in left:
            thread.join(10)
        assert not {thread for thread in left if thread.is_alive()}
    finally:
        gc.enable()


def test_the_number_of_threads_is_that_of_the_context(monkeypatch):
    assert ndd.get_num_threads() >= 1
    monkeypatch.setenv("DALI_NUM_THREADS", "3")
    assert ndd.get_num_threads() == ndd.EvalContext.current().num_threads == 3
    ndd.set_num_threads(2)
    try:
        assert ndd.EvalContext.current().num_threads == ndd.ThreadPool().num_threads == 2
        with ndd.EvalContext(num_threads=1) as context:
            assert ndd.EvalContext.current() is context
            assert context.thread_pool.num_threads == 1
            assert sum(numbers(ndd.readers.Arrays(data=NUMBERS), 7), []) == list(range(7))
    finally:
        ndd.set_num_threads(None)
    assert ndd.get_num_threads() == 3


def _used(batch_size=3, **options):
    reader = ndd.readers.Arrays(data=NUMBERS, **options)
    next(reader.next_epoch(batch_size=batch_size))
    return reader


def _next_of_older():
    reader = ndd.readers.Arrays(data=NUMBERS)
    older, newer = (reader.next_epoch(batch_size=2) for _ in range(2))
    next(older), next(newer)
    next(older)


MISTAKES = [
    (lambda: ndd.readers.File(file_root="/nowhere"), SourceNotFoundError, "nowhere"),
    (lambda: ndd.readers.File(file_root="/nowhere"), RuntimeError, "ndd.readers.File"),
    (lambda: ndd.readers.File(flie_root="."), TypeError, "flie_root"),
    (lambda: ndd.readers.Caffe(), TypeError, "path is missing"),
    (lambda: ndd.readers.Arrays(data=NUMBERS, shard_id=2, num_shards=2), ValueError, "shard_id"),
    (lambda: ndd.readers.Arrays(data=ndd.batch([[1]])), TypeError, "a Batch"),
    (lambda: ndd.readers.Arrays(data=NUMBERS, device="mixed"), ValueError, "device"),
    (lambda: ndd.readers.Arrays(data=NUMBERS, num_inputs=1), ValueError, "do not take inputs"),
    (lambda: ndd.readers.Arrays(data=NUMBERS, last_batch_policy=LastBatchPolicy.PAD), ValueError, "a mask"),
    (lambda: ndd.readers.Arrays(0, data=NUMBERS), ValueError, "at least 1"),
    (lambda: ndd.readers.Arrays(2, data=NUMBERS).next_epoch(batch_size=3), ValueError, "max_batch_size"),
    (lambda: ndd.readers.Arrays(data=NUMBERS).next_epoch(batch_size="3"), ValueError, "batch size"),
    (lambda: ndd.readers.Arrays(data=NUMBERS).next_epoch(capture=True), ValueError, "needs a batch size"),
    (lambda: _used().next_epoch(batch_size=2), ValueError, "2, after 3"),
    (lambda: _used().next_epoch(), RuntimeError, "single samples, after batches"),
    (lambda: _used().next_epoch(batch_size=3, capture=True), RuntimeError, "captured batches, after batches"),
    (lambda: _used(last_batch_policy=LastBatchPolicy.DROP)(batch_size=3), ValueError, "have an end"),
    (lambda: _used().set_state(_used().get_state()), RuntimeError, "before the first batch"),
    (lambda: ndd.readers.Arrays(data=NUMBERS).set_state("nothing"), ValueError, "not the state of a reader"),
    (_next_of_older, RuntimeError, "another epoch"),
    (lambda: next(ndd.readers.Arrays(data=NUMBERS, on_error="skip").next_epoch()), ValueError, "deliver a mask"),
    (lambda: ndd.readers.file, AttributeError, r"readers\.File"),
    (lambda: ndd.file_reader, AttributeError, r"readers\.File"),
    (lambda: ndd.set_num_threads(0), ValueError, "out of range"),
    (lambda: ndd.set_num_threads(1.5), TypeError, "integer"),
    (lambda: ndd.ThreadPool(1, device_id=0), ValueError, "host"),
    (lambda: ndd.EvalContext(num_threads=1, thread_pool=ndd.ThreadPool(1)), ValueError, "one of them"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_bad_sample_is_an_error_of_its_batch(tmp_path):
    files = [tmp_path / name for name in ("a.npy", "b.npy", "c.npy")]
    for file in files:
        np.save(file, np.zeros(2))
    reader = ndd.readers.Numpy(files=files)
    files[2].write_bytes(b"damaged")
    epoch = reader.next_epoch()
    next(epoch), next(epoch)
    with pytest.raises(SampleError, match=r"c\.npy"):
        next(epoch)


def test_a_context_is_entered_by_one_thread():
    context, errors = ndd.EvalContext(), []

    def enter():
        try:
            context.__enter__()
        except RuntimeError as error:
            errors.append(error)

    with context, context:
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
    assert "another thread" in str(errors[0])


def test_devices_are_hints():
    image = ndd.tensor(np.zeros((2, 3, 3), np.uint8), layout="HWC")
    assert image.device == ndd.Device.CPU == ndd.device("cpu")
    assert image.gpu() is image.cpu() is image.to_device("gpu:0") is image
    assert image.to_device("cpu", force_copy=True) is not image
    assert str(ndd.flip(image, device=ndd.Device("gpu", 1)).device) == "cpu"
    assert ndd.Device.CPU != "cpu"
    with ndd.Device("gpu"):
        assert str(ndd.Device.current()) == "gpu:0"
    assert ndd.Device.current() is ndd.Device.CPU
    for wrong in ("tpu", "cpu:1", "gpu:x"):
        with pytest.raises(ValueError, match="device"):
            ndd.Device(wrong)
    with pytest.raises(TypeError, match="not a device"):
        ndd.device(3)


def test_torch_receives_the_memory_or_a_copy(monkeypatch):
    # `torch.from_numpy` shares the memory of its argument, as this stand-in does.
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(from_numpy=lambda array: array))
    tensor, dense, ragged = ndd.tensor([1, 2]), ndd.as_batch(np.zeros((2, 3))), ndd.batch([[1], [2, 3]])
    assert np.may_share_memory(tensor.torch(), np.asarray(tensor))
    assert not np.may_share_memory(tensor.torch(copy=True), np.asarray(tensor))
    assert np.may_share_memory(ndd.batch([[1], [2]]).torch(), tensor.torch()) is False
    read_only = ndd.as_tensor(jnp.arange(3.0))
    assert read_only.torch().flags.writeable
    assert dense.torch(copy=True).shape == (2, 3)
    assert ragged.torch(pad=True).tolist() == [[1, 0], [2, 3]]
    with pytest.raises(ValueError, match="differ in shape"):
        ragged.torch()


def test_without_torch_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match="PyTorch is not installed"):
        ndd.tensor([1]).torch()
    with pytest.raises(ValueError, match="separate arrays"):
        ndd.batch([[1], [2]]).torch(copy=False)


def test_types_are_constructors():
    tensor = ndd.uint8([1, 300 - 45])
    assert (str(tensor.dtype), np.asarray(tensor).tolist()) == ("u8", [1, 255])
