"""Epochs of external sources: their end, and the position of sources that can only continue."""

import itertools
import time

import numpy as np
import pytest

from penstock import LastBatchPolicy, Pipeline, data_iterator, fn, peekable_data_iterator
from penstock.errors import SourceError


def slow(x):
    """Take long enough that batches are prepared ahead on threads."""
    time.sleep(0.005)
    return x


class Restarting:
    """Iterable of batches of two rows, which contain the number of the batch."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (np.full(2, number, np.int32) for number in range(self.count))


def stream(source, decorator=data_iterator, function=slow, depth=2, cycle="raise", seed=None, **options):
    """Return an iterator over the batches of a source that can only continue."""

    @decorator(output_map=["x"], **options)
    def definition():
        x = fn.external_source(source, cycle=cycle)
        return x if function is None else fn.python_function(x, function=function)

    return definition(batch_size=2, device_id=0, prefetch_queue_depth=depth, seed=seed)


def values(batches):
    return [int(batch["x"][0]) for batch in batches]


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
@pytest.mark.parametrize("auto_reset", [False, True])
def test_every_loop_continues_after_the_last_batch_of_its_size(function, auto_reset):
    def endless():
        for number in itertools.count():
            yield np.full(2, number, np.int32)

    iterator = stream(endless, function=function, cycle=None, size=6, auto_reset=auto_reset)
    assert [values(iterator) for _ in range(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
def test_a_source_as_long_as_its_size_restarts_with_each_loop(function, caplog):
    iterator = stream(Restarting(3), function=function, size=6)
    assert [values(iterator) for _ in range(3)] == [[0, 1, 2]] * 3
    assert not caplog.records


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("cycle", [None, "quiet", "raise"])
def test_the_end_of_a_generator_after_its_error_is_not_the_end_of_its_data(error, cycle):
    def failing():
        yield from map(np.full, [2, 2], range(2))
        raise error

    iterator = stream(failing, function=None, cycle=cycle)
    assert values(iterator.take(2)) == [0, 1]
    with pytest.raises((KeyboardInterrupt, SourceError)):
        next(iterator)
    for _ in range(2):
        with pytest.raises(SourceError, match=f"ended right after its error(.|\n)*{error.__name__}"):
            next(iterator)


def test_an_error_loses_no_samples_of_an_iterable():
    class FailsOnce:
        """Iterator over numbers that fails once, before the fourth one."""

        def __init__(self):
            self.number, self.failed = 0, False

        def __iter__(self):
            return self

        def __next__(self):
            if self.number == 3 and not self.failed:
                self.failed = True
                raise OSError
            self.number += 1
            return np.int32(self.number)

    @data_iterator
    def definition():
        return {"x": fn.external_source(FailsOnce(), batch=False)}

    iterator = definition(batch_size=2)
    assert next(iterator)["x"].tolist() == [1, 2]
    with pytest.raises(SourceError, match="sample 3"):
        next(iterator)
    assert next(iterator)["x"].tolist() == [3, 4]


@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("taken", [1, 2, 3, 4])
def test_closing_keeps_the_end_of_the_epoch(taken, depth):
    iterator = stream(Restarting(4), depth=depth)
    before = values(itertools.islice(iterator, taken))
    iterator.close()
    rest = iter(lambda: next(iterator, None), None)  # another loop would begin the next epoch after the last batch
    assert [before + values(rest), values(iterator)] == [[0, 1, 2, 3]] * 2


def rest_of(count, size, taken, **options):
    """Return the epochs of a loop that is left after some batches, and begins the next epoch."""
    iterator = stream(Restarting(count), size=size, **options)
    before = values(itertools.islice(iterator, taken))
    iterator.next_epoch()
    return [before, *(values(iterator) for _ in range(3))]


@pytest.mark.parametrize("size", [4, 6, 8, 10, None])
@pytest.mark.parametrize("taken", [1, 2])
def test_the_rest_of_a_left_epoch_does_not_depend_on_prefetching(size, taken):
    for count in (3, 4):
        expected = rest_of(count, size, taken, function=None)
        assert expected[:2] == [[*range(taken)], [*range(taken, min(count, taken + (size or 8) // 2))]]
        assert [rest_of(count, size, taken, depth=depth) for depth in (1, 2, 4)] == [expected] * 3


@pytest.mark.parametrize("depth", [1, 3])
def test_prefetching_past_the_end_of_the_shorter_source_loses_nothing(depth):
    @data_iterator(output_map=["x", "y"])
    def definition():
        sources = [fn.external_source(Restarting(count), cycle="raise") for count in (5, 3)]
        return tuple(fn.python_function(source, function=slow) for source in sources)

    iterator = definition(batch_size=2, device_id=0, prefetch_queue_depth=depth)
    epochs = []
    for _ in range(4):
        epochs.append([(int(batch["x"][0]), int(batch["y"][0])) for batch in iterator])
        iterator.close()
    assert epochs == [[(0, 0), (1, 1), (2, 2)], [(3, 0), (4, 1)], [(0, 2)], [(1, 0), (2, 1), (3, 2)]]


@pytest.mark.parametrize("closed", [False, True])
def test_a_dropped_batch_is_passed_over_once(closed):
    iterator = stream(Restarting(4), size=7, last_batch_policy=LastBatchPolicy.DROP)
    epochs = []
    for _ in range(3):
        epochs.append(values(iterator))
        if closed:
            iterator.close()
    assert epochs == [[0, 1, 2]] * 3


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_state_of_the_position_loses_no_batch(function, seed):
    first, other = (stream(Restarting(6), function=function, seed=number) for number in (1, seed))
    for number in range(7):  # the last state is at the end of the epoch
        other.set_state(first.get_state())
        other.set_state(other.get_state())
        for iterator in (first, other):
            assert values(itertools.islice(iter(lambda it=iterator: next(it, None), None), 1)) == [number][: 6 - number]
    assert values(first) == values(other) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
@pytest.mark.parametrize("size", [16, None])
def test_a_peeked_batch_is_the_next_one_wherever_the_iterator_goes(function, size):
    iterator = stream(Restarting(8), peekable_data_iterator, function=function, size=size)
    for number, go in enumerate(
        [iterator.close, iterator.next_epoch, lambda: iterator.set_state(iterator.get_state()), iterator.next_epoch]
    ):
        next(iterator)
        assert values([iterator.peek()]) == [2 * number + 1]
        go()
        if number < 3:
            assert values([next(iterator)]) == [2 * number + 1]
    assert values(iterator) == [7]


def test_an_end_before_the_dropped_batch_restarts_the_source():
    iterator = stream(Restarting(1), size=5, last_batch_policy=LastBatchPolicy.DROP)
    for _ in range(3):
        assert values(iterator) == [0]
        iterator.reset()
        iterator.close()


@pytest.mark.parametrize("function", [None, slow], ids=["light", "threads"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_future_after_the_last_batch_ends_the_epoch(function, moved):
    iterator = stream(Restarting(3), peekable_data_iterator, function=function, depth=1)
    for _ in range(2):
        assert values(itertools.islice(iterator, 3)) == [0, 1, 2]
        coming = iterator.peek_async()
        assert iterator.at_end
        assert iterator.peek_async().done()
        if moved:
            iterator.reset()
        with pytest.raises(StopIteration):
            coming.result(timeout=60)
        iterator.next_epoch()
        assert values([iterator.peek()]) == [0]


@pytest.mark.parametrize("decorator", [data_iterator, peekable_data_iterator])
@pytest.mark.parametrize("size", [None, 6, 8])
def test_states_of_operators_pass_the_end_of_an_epoch(decorator, size):
    @decorator(output_map=["x"], size=size)
    def definition():
        x = fn.external_source(lambda number: np.full(2, number, np.int32) if number < 3 else next(iter(())))
        return fn.jax_function(lambda count, x: (count + 1, 0 * x + count), state=np.int32(0))(x)

    iterator, other = definition(batch_size=2, device_id=0), definition(batch_size=2, device_id=0)
    for epoch in range(3):
        assert values(iterator) == [3 * epoch + number for number in range(3)]
        other.set_state(iterator.get_state())
        assert other.at_end
        if decorator is peekable_data_iterator:
            with pytest.raises(StopIteration):
                other.peek_async().result(timeout=60)
        other.reset()
        assert values(itertools.islice(other, 1)) == [3 * epoch + 3]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_restored_pipeline_knows_that_its_source_has_ended(depth):
    def make(checkpoint=None):
        with Pipeline(batch_size=2, prefetch_queue_depth=depth, seed=1, checkpoint=checkpoint) as pipeline:
            pipeline.set_outputs(fn.external_source(lambda n: np.full(2, n, np.int32) if n < 2 else next(iter(()))))
        return pipeline

    def first_batch(pipeline):
        pipeline.reset()
        try:
            return int(pipeline.run()[0][0])
        except StopIteration:
            return None

    pipeline = make()
    pipeline.run()
    pipeline.run()
    before = pipeline.checkpoint()
    with pytest.raises(StopIteration):
        pipeline.run()
    restored = make(pipeline.checkpoint())
    assert first_batch(restored) == first_batch(pipeline) == 0
    # With depth 1, a source is asked for a batch when `run` needs it, so no end is known to `reset` before.
    assert first_batch(make(before)) == (None if depth == 1 else 0)
