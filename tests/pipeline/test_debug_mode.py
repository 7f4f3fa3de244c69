"""Debug mode gives what the plan gives, and shows each value where it is made."""

import re

import numpy as np
import pytest

from penstock import Pipeline, data_iterator, fn, pipeline_def, types
from penstock.errors import ContextError, SampleError, SourceError, UsageError
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

IMAGES = [np.random.default_rng(n).integers(0, 256, (5 + n, 7, 3), np.uint8) for n in range(6)]
NUMBERS = np.arange(6, dtype=np.int32)


def program(look=lambda node: None):
    images, number = apply_reader(ListSource([IMAGES, NUMBERS], ("HWC", "")), {})
    look(images)
    angle = fn.random.uniform(range=[0.0, 1.0])
    if number % 2 == 0:
        images = fn.flip(images, horizontal=fn.random.coin_flip())
        number = number + 10
    images = fn.resize(images, size=[4, 4])
    look(images)
    return images, angle, number, fn.reshape(images, shape=[-1])


def arrays(batch):
    return [np.stack([np.asarray(sample) for sample in output]) for output in batch]


def test_debug_mode_gives_what_the_plan_gives():
    options = {"batch_size": 4, "seed": 3, "num_threads": 2, "enable_conditionals": True}
    plan, debugged = (pipeline_def(program, debug=debug, **options)() for debug in (False, True))
    for _ in range(3):
        for expected, actual in zip(arrays(plan.run()), arrays(debugged.run()), strict=True):
            np.testing.assert_array_equal(actual, expected)
    plan.reset(), debugged.reset()
    np.testing.assert_array_equal(arrays(plan.run())[1], arrays(debugged.run())[1])
    plan.close()


def test_values_are_shown_while_the_definition_runs():
    seen = []
    made = pipeline_def(program, debug=True, enable_conditionals=True, batch_size=2, seed=1)
    pipeline = made(look=lambda node: seen.append((node.get().shape(), str(node))))
    pipeline.run()
    assert [shapes for shapes, _ in seen] == [[(5, 7, 3), (6, 7, 3)], [(4, 4, 3)] * 2]
    assert str(IMAGES[0]) in seen[0][1]
    pipeline.run()
    assert seen[2][0] == [(7, 7, 3), (8, 7, 3)]


def test_a_definition_computes_with_what_it_sees():
    @pipeline_def(debug=True, batch_size=2)
    def define():
        x = fn.readers.arrays(NUMBERS)
        if int(x.get().at(0)) == 2:
            x = x * 100
        doubled = [np.asarray(sample) * 2 for sample in x.get()]
        return fn.cast(doubled, dtype=types.FLOAT) + x.get()

    pipeline = define()
    assert [pipeline.run()[0].as_array().tolist() for _ in range(3)] == [[0, 3], [600, 900], [12, 15]]


def test_a_jax_function_keeps_its_state():
    def count(state, x):
        return state + 1, x + state

    def define():
        return fn.jax_function(count, state=np.int32(0))(fn.readers.arrays(NUMBERS))

    plan, debugged = (pipeline_def(define, debug=debug, batch_size=2, seed=1)() for debug in (False, True))
    for _ in range(3):
        assert np.asarray(plan.run()[0].as_cpu()).tolist() == np.asarray(debugged.run()[0].as_cpu()).tolist()
    plan.close()


def batches():
    for number in range(3):
        yield np.full((4 if number < 2 else 3, 2), number, np.int32)


def numbered(info):
    if info.iteration == 3:
        raise StopIteration
    return np.int32([info.idx_in_epoch, info.epoch_idx])


SOURCES = {
    "a generator": lambda: fn.external_source(batches, cycle="raise"),
    "a function of samples": lambda: fn.external_source(numbered, batch=False),
    "a list": lambda: fn.external_source(list(batches()), cycle="raise", layout="W"),
    "two outputs": lambda: fn.external_source(
        lambda i: (NUMBERS[:4] + i, IMAGES[:4]) if i < 2 else [][i], num_outputs=2, layout=["", "HWC"]
    )[0],
}


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "two outputs"])
def test_sources_give_what_they_give_the_plan(name):
    def define():
        x = SOURCES[name]()
        return x, x + 1, fn.random.uniform(range=[0.0, 1.0])

    plan, debugged = (pipeline_def(define, debug=debug, batch_size=4, seed=1)() for debug in (False, True))
    found = []
    for pipeline in (plan, debugged):
        epochs = []
        for _ in range(2):
            epochs.append([[output.as_array().tolist() for output in pipeline.run()] for _ in range(3)])
            for _ in range(2):
                with pytest.raises(StopIteration):
                    pipeline.run()
            pipeline.reset()
        found.append(epochs)
    plan.close()
    assert found[0] == found[1]


def test_a_source_in_a_branch_gives_what_it_gives_the_plan():
    def define():
        x = fn.external_source([NUMBERS[:4], NUMBERS[:3]])
        if x % 2 == 0:
            x = fn.external_source([NUMBERS[:4] * 10, NUMBERS[:3] * 10]) + 1
        return x

    for debug in (False, True):
        pipeline = pipeline_def(define, debug=debug, batch_size=4, enable_conditionals=True)()
        assert [pipeline.run()[0].as_array().tolist() for _ in range(2)] == [[1, 1, 21, 3], [1, 1, 21]]
        pipeline.close()


def test_a_source_that_fails_is_named_in_debug_mode():
    pipeline = pipeline_def(SOURCES["two outputs"], debug=True, batch_size=4)()
    assert [pipeline.run()[0].as_array().tolist() for _ in range(2)] == [[0, 1, 2, 3], [1, 2, 3, 4]]
    with pytest.raises(SourceError, match="batch 2 of epoch 0: IndexError") as caught:
        pipeline.run()
    assert "test_debug_mode.py" in str(caught.value)


def test_what_is_fed_gives_what_it_gives_the_plan():
    def define():
        return fn.flip(fn.external_source(name="images")), fn.external_source(name="numbers", repeat_last=True) + 1

    for debug in (False, True):
        pipeline = pipeline_def(define, debug=debug, batch_size=2)()
        pipeline.build()
        for turn in range(3):
            pipeline.feed_input("images", IMAGES[turn : turn + 2], layout="HWC")
            images, numbers = pipeline.run(**({} if turn else {"numbers": NUMBERS[:2]}))
            assert numbers.as_array().tolist() == [1, 2]
            assert all(map(np.array_equal, images, (image[:, ::-1] for image in IMAGES[turn : turn + 2])))
        with pytest.raises(UsageError, match="nothing was fed to images"):
            pipeline.run()
        pipeline.feed_input("images", IMAGES[:2], layout="HWC")
        with pytest.raises(UsageError, match="did you mean 'images'"):
            pipeline.run(image=IMAGES[:2])
        pipeline.close()


def test_debug_mode_knows_no_batches_of_other_lengths():
    @pipeline_def(debug=True, batch_size=4)
    def define():
        random = fn.random.uniform()
        return random, fn.external_source([NUMBERS[:3]])

    with pytest.raises(SourceError, match="another number of samples"):
        define().run()


def test_an_error_is_raised_where_the_operator_is_called():
    def fail(sample):
        raise ValueError("no such thing")

    @pipeline_def(debug=True, batch_size=2)
    def define():
        x = fn.readers.arrays(NUMBERS)
        y = fn.python_function(x, function=fail, dtype=types.INT32, ndim=0)
        raise AssertionError(y)

    with pytest.raises(SampleError, match="no such thing") as caught:
        define().run()
    assert re.search(r"y = fn\.python_function", str(caught.value))


def test_what_debug_mode_cannot_be_used_for():
    with pytest.raises(ContextError, match="debug mode"), Pipeline(2, debug=True):
        pass
    with pytest.raises(ContextError, match="no plan"):
        pipeline_def(program, debug=True)(batch_size=2).explain()
    with pytest.raises(UsageError, match="debug mode"):
        data_iterator(program, ["a"])(batch_size=2, debug=True)
    with pytest.raises(ContextError, match="debug=True"):
        pipeline_def(lambda: fn.readers.arrays(NUMBERS).get())(batch_size=2)
