"""Captured loops: the same results as other loops, computed ahead by a pipeline."""

import logging
import threading

import jax
import numpy as np
import penstock.experimental.dynamic as ndd
import pytest
from reader_programs import write_data

from penstock import types
from penstock.dynamic.loop_capture import active_step
from penstock.engine.host.chunk_scheduler import ChunkScheduler
from penstock.errors import ContextError, SampleError
from penstock.types import LastBatchPolicy

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 9, 8, 3), np.uint8)
LABELS = np.arange(10, dtype=np.int32)
POLICIES = [None, LastBatchPolicy.PARTIAL, LastBatchPolicy.DROP, LastBatchPolicy.FILL]


def reader(**options):
    return ndd.readers.Arrays(data={"x": IMAGES, "y": LABELS}, layout={"x": "HWC", "y": ""}, **options)


def augment(batch, rng):
    """A loop body: operators with and without inputs, arithmetic, mathematics, several outputs, random numbers."""
    images, rows = batch["x"], batch["x"].batch_size
    images, sizes = ndd.resize(images, size=[6, 5], save_attrs=True)
    images = ndd.noise.gaussian(images, stddev=9.0, rng=rng)
    images = ndd.random_resized_crop(images, size=[4, 4])
    images = ndd.crop_mirror_normalize(images, mean=[1.0, 2.0, 3.0], mirror=ndd.random.coin_flip(batch_size=rows))
    scale = ndd.random.uniform(range=[0.5, 1.5], rng=rng, batch_size=rows)
    return [ndd.math.abs(images) * scale, batch["y"] * 2 + 1, sizes, ndd.one_hot(batch["y"], num_classes=10)]


def run(body, epochs=3, policy=None, *, capture, batch_size=4):
    """Results of all steps, and the states of the generators after them."""
    ndd.random.set_seed(3)
    rng, data = ndd.random.RNG(9), reader(random_shuffle=True, last_batch_policy=policy)
    results = []
    for _ in range(epochs):
        for batch in data.next_epoch(batch_size=batch_size, capture=capture):
            results += [[np.array(ndd.as_tensor(value)) for value in body(batch, rng)]]
    return results, rng.state, ndd.random.get_default_rng().state


def assert_same(actual, expected):
    assert actual[1:] == expected[1:]
    assert len(actual[0]) == len(expected[0]) > 0
    for step, other in zip(actual[0], expected[0], strict=True):
        for value, its_value in zip(step, other, strict=True):
            np.testing.assert_array_equal(value, its_value, strict=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_captured_loop_gives_what_the_loop_gives(policy):
    assert_same(run(augment, policy=policy, capture=True), run(augment, policy=policy, capture=False))


@pytest.mark.parametrize("batch_size", [1, 10, 16])
def test_epochs_of_one_step(batch_size):
    options = {"policy": LastBatchPolicy.PARTIAL, "batch_size": batch_size}
    assert_same(run(augment, capture=True, **options), run(augment, capture=False, **options))


def test_files_that_are_decoded_give_what_the_loop_gives(tmp_path):
    folder = write_data(tmp_path) / "images"

    def epochs(capture):
        data, rng = ndd.readers.File(file_root=folder, random_shuffle=True), ndd.random.RNG(2)
        results = []
        for _ in range(3):
            for files, labels in data.next_epoch(batch_size=2, capture=capture):
                images = ndd.decoders.image_random_crop(files, rng=rng)
                images = ndd.resize(images, size=[7, 9], interp_type=ndd.capture.invariant(types.INTERP_CUBIC))
                images = ndd.crop_mirror_normalize(images, mirror=ndd.random.coin_flip(batch_size=2, rng=rng), std=50.0)
                results += [[np.array(ndd.as_tensor(value)) for value in (images, labels)]]
        return results, rng.state

    assert_same(epochs(True), epochs(False))


def test_after_the_first_step_the_operators_of_the_body_compute_in_the_pipeline(monkeypatch):
    eager = []
    compute = ndd.function_call.call_on_rows
    monkeypatch.setattr(ndd.function_call, "call_on_rows", lambda *call: eager.append(call[0].name) or compute(*call))
    ndd.random.set_seed(1)
    rng, calls = ndd.random.RNG(2), []
    for batch in reader().next_epoch(batch_size=2, capture=True):
        for value in augment(batch, rng):
            ndd.as_tensor(value)
        calls.append(len(eager))
    assert calls[0] > 5
    assert set(calls) == {calls[0]}


class Announcing:
    """Samples 0 to 19. An event is set when a sample from 6 on is read."""

    def __init__(self):
        self.read_far = threading.Event()

    def __len__(self):
        return 20

    def __getitem__(self, index):
        if index >= 6:
            self.read_far.set()
        return np.float32([index])


def test_the_pipeline_computes_ahead(monkeypatch):
    # Otherwise such small batches would be computed in this thread.
    monkeypatch.setattr(ChunkScheduler, "inline_batches", lambda *_: 0)
    data = Announcing()
    for number, (batch,) in enumerate(ndd.readers.Items(items=data).next_epoch(batch_size=2, capture=True)):
        doubled = batch * 2
        if number == 1:
            assert data.read_far.wait(60)  # two batches ahead of this one
            break
    assert [x.item() for x in doubled] == [4, 6]


def test_calls_that_depend_on_the_step_compute_at_once():
    def body(batch, rng):
        body.step += 1
        images = ndd.cast(batch["x"], dtype=ndd.float32)
        later = [ndd.flip(images)] if body.step % 4 == 3 else []
        brighter = ndd.brightness(images, brightness=1.0 + body.step)
        outside = ndd.warp_affine(images, ndd.tensor([[1.0, 0.0, body.step], [0.0, 1.0, 0.0]]))
        return [brighter, outside, ndd.reductions.max(brighter), batch["y"].slice[...], *later]

    results = []
    for capture in (True, False):
        body.step = 0
        results.append(run(body, capture=capture))
    assert_same(*results)


def test_values_that_the_first_step_did_not_read_are_computed_when_they_are_read():
    steps, rng = [], ndd.random.RNG(5)
    for number, batch in enumerate(reader().next_epoch(batch_size=3, capture=True)):
        noisy = ndd.noise.gaussian(batch["x"], stddev=5.0, rng=rng)
        small = ndd.resize(noisy, size=[2, 2])
        if number == 2:
            steps.append((np.array(ndd.as_tensor(noisy)), np.array(ndd.as_tensor(small))))
    noisy, small = steps[0]
    np.testing.assert_array_equal(
        np.array(ndd.as_tensor(ndd.resize(ndd.as_batch(noisy, layout="HWC"), size=[2, 2]))), small
    )


def test_a_batch_of_an_earlier_step_keeps_its_samples():
    kept = []
    for batch in reader().next_epoch(batch_size=5, capture=True):
        kept.append((batch["y"], batch["y"] + 100))
        if len(kept) > 1:
            assert np.asarray(ndd.as_tensor(kept[0][1] - kept[1][0])).tolist() == [95] * 5
    assert [np.asarray(ndd.as_tensor(y)).tolist() for y, _ in kept] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert np.asarray(ndd.as_tensor(kept[1][1])).tolist() == [105, 106, 107, 108, 109]


@pytest.mark.parametrize("capture", [True, False])
def test_a_list_that_the_body_writes_into_is_read_at_each_call(capture):
    size, matrix = [0, 0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    for batch in reader().next_epoch(batch_size=5, capture=capture):
        size[:], matrix[1][1] = [2, 2], 1.0
        small, same = ndd.resize(batch["x"], size=size), ndd.warp_affine(batch["x"], matrix=matrix)
        size[:], matrix[1][1] = [3, 3], 0.0
        large, other = ndd.resize(batch["x"], size=size), ndd.warp_affine(batch["x"], matrix=matrix)
        assert (small.shape[0][:2], large.shape[0][:2]) == ((2, 2), (3, 3))
        same, other = (np.asarray(ndd.as_tensor(value)) for value in (same, other))
        np.testing.assert_array_equal(same, np.asarray(ndd.as_tensor(batch["x"])))
        assert (same != other).any()


def test_an_abandoned_epoch_continues_after_the_last_batch():
    data, seen = reader(), []
    ndd.random.set_seed(4)
    for limit in (2, 3, 3):
        for number, batch in enumerate(data.next_epoch(batch_size=3, capture=True)):
            coins = ndd.random.coin_flip(batch_size=3)
            seen.append((np.asarray(ndd.as_tensor(batch["y"])).tolist(), np.asarray(ndd.as_tensor(coins)).tolist()))
            if number + 1 == limit:
                break
    assert sum((labels for labels, _ in seen), []) == [number % 10 for number in range(24)]
    ndd.random.set_seed(4)
    assert [coins for _, coins in seen] == [
        np.asarray(ndd.as_tensor(ndd.random.coin_flip(batch_size=3))).tolist() for _ in range(8)
    ]


def test_two_loops_in_a_zip():
    """The steps of both end, and calls that depend on the second loop are captured."""

    def results(capture):
        loops = [reader().next_epoch(batch_size=5, capture=capture) for _ in range(2)]
        for one, other in zip(*loops, strict=True):
            yield [np.array(ndd.as_tensor(value)) for value in (one["y"] + 1, other["y"] * 2, one["y"] + other["y"])]

    np.testing.assert_array_equal(list(results(capture=True)), list(results(capture=False)))
    assert active_step() is None


def test_operators_in_data_sets_are_not_part_of_the_loop():
    class Doubled:
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return np.asarray(ndd.tensor([index]) * 2)

    for step, batch in enumerate(reader().next_epoch(batch_size=5, capture=True)):
        if step == 0:
            ndd.readers.Items(items=Doubled())  # reads the first item
        assert ndd.as_tensor(batch["y"] + 1).shape == (5,)


def test_samples_of_a_captured_loop_are_read_only():
    """The pipeline computes from the samples themselves, so a write would have an effect in the first step only."""
    for batch in reader().next_epoch(batch_size=5, capture=True):
        for value in (batch["x"], ndd.resize(batch["x"], size=[4, 4])):
            for array in (np.asarray(value.tensors[0]), np.asarray(ndd.as_tensor(value)), value.tensors[0].array):
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 0
        copied = ndd.tensor(ndd.as_tensor(batch["x"]))
        copied.array[...] = 0
        assert jax.dlpack.from_dlpack(batch["x"].tensors[0]).shape == IMAGES[0].shape


def test_generators_may_be_used_and_seeded_between_epochs():
    def labels(capture):
        data, draws = reader(), []
        for epoch in range(3):
            ndd.random.set_seed(epoch)
            ndd.random.uniform()
            for batch in data.next_epoch(batch_size=5, capture=capture):
                draws += [np.array(ndd.as_tensor(batch["y"] + ndd.random.uniform(batch_size=5))).tolist()]
        return draws

    assert labels(True) == labels(False)


def test_the_state_of_a_captured_loop_is_that_of_the_loop():
    states = []
    for capture in (True, False):
        data = reader()
        for batch in data.next_epoch(batch_size=3, capture=capture):
            ndd.flip(batch["x"])
            states.append(data.get_state())
    assert states[:4] == states[4:]


def test_an_invariant_is_the_value_itself():
    size = [3, 4]
    assert ndd.capture.invariant(size) is size


def test_a_loop_without_captured_operators_warns_once(caplog):
    with caplog.at_level(logging.WARNING, "penstock"):
        seen = [np.asarray(ndd.as_tensor(b["y"])).tolist() for b in reader().next_epoch(batch_size=5, capture=True)]
    assert seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert [record.message for record in caplog.records if "captured loop has no operator" in record.message]


def test_a_bad_sample_is_an_error_with_the_line_of_its_operator(tmp_path):
    folder = write_data(tmp_path) / "images"
    (folder / "dogs" / "4.jpg").write_bytes(b"damaged")
    seen = []
    with pytest.raises(SampleError, match=r"4\.jpg") as caught:
        seen += [
            np.asarray(ndd.as_tensor(ndd.resize(ndd.decoders.image(files), size=[4, 4]))).shape
            for files, _ in ndd.readers.File(file_root=folder).next_epoch(batch_size=1, capture=True)
        ]
    assert "ndd.decoders.image(files)" in str(caught.value)


def loop(body):
    """Run a captured loop whose body receives the number of the step and the batch."""
    for number, batch in enumerate(reader().next_epoch(batch_size=2, capture=True)):
        body(number, batch)


def test_a_call_that_is_left_out_later_is_an_error_with_its_line():
    def body(number, batch):
        if number == 0:
            ndd.flip(batch["x"])

    with pytest.raises(ContextError, match="makes the same calls in every step") as caught:
        loop(body)
    assert "ndd.flip(batch" in str(caught.value)


def test_control_flow_that_depends_on_data_is_an_error_with_its_line():
    def body(number, batch):
        del number
        if batch["y"].tensors[0].item() < 4:
            ndd.rotate(batch["x"], angle=90.0)
        else:
            ndd.flip(batch["x"])

    with pytest.raises(ContextError, match="operators in place of Python's `if`") as caught:
        loop(body)
    assert "ndd.rotate(batch" in str(caught.value)


@pytest.mark.parametrize(("before", "line"), [(False, "for number, batch in"), (True, "ndd.noise.gaussian(batch")])
def test_other_draws_in_a_later_step_are_an_error(before, line):
    rng = ndd.random.RNG(1)

    def body(number, batch):
        if before and number == 2:
            rng()
        ndd.noise.gaussian(batch["x"], stddev=1.0, rng=rng)
        if not before and number == 2:
            rng.advance(1)

    with pytest.raises(ContextError, match="draws from its generators as often") as caught:
        loop(body)
    assert line in str(caught.value)
