"""Readers of one length follow one order; others do not, and the plan says so."""

import numpy as np
import pytest
from pipeline_runs import run

from penstock import LastBatchPolicy, Pipeline, data_iterator, fn
from penstock.testing import check_iterator


def define(one, other=None, lengths=(7, 7)):
    def definition():
        images = fn.readers.arrays(np.arange(lengths[0]), name="images", **one)
        masks = fn.readers.arrays(np.arange(lengths[1]), name="masks", **(one if other is None else other))
        return images, masks

    return definition


def batches(iterator, epochs=1):
    return [(np.asarray(b["a"]).tolist(), np.asarray(b["b"]).tolist()) for _ in range(epochs) for b in iterator]


SHUFFLED = {"random_shuffle": True}


@pytest.mark.parametrize("options", [SHUFFLED, {}, {"seed": 3, "pad_last_batch": True, **SHUFFLED}])
@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_readers_of_one_length_are_in_step(options, policy):
    make = data_iterator(define(options), ["a", "b"], reader_name="masks", last_batch_policy=policy)
    pairs = batches(make(batch_size=2, seed=1), epochs=3)
    assert len(pairs) == 9 if policy is LastBatchPolicy.DROP else 12
    assert all(a == b for a, b in pairs)


def test_they_are_in_step_without_a_leader_too():
    with Pipeline(batch_size=3, seed=1) as pipeline:
        pipeline.set_outputs(*define(SHUFFLED)())
    for _ in range(8):
        images, masks = pipeline.run()
        assert np.array_equal(images.as_array(), masks.as_array())
    make = data_iterator(define(SHUFFLED), ["a", "b"], size=5)
    assert all(a == b for a, b in batches(make(batch_size=2, seed=1), epochs=4))


@pytest.mark.parametrize(
    ("other", "lengths", "why"),
    [
        ({"seed": 3, **SHUFFLED}, (7, 7), "another seed"),
        (SHUFFLED, (7, 8), "another length"),
        ({}, (7, 7), "another order"),
    ],
    ids=["seed", "length", "order"],
)
def test_others_are_not_and_the_plan_says_so(other, lengths, why):
    make = data_iterator(define(SHUFFLED, other, lengths), ["a", "b"], reader_name="images")
    iterator = make(batch_size=7, seed=1)
    assert any(a != b for a, b in batches(iterator, epochs=2))
    assert f"not in step with readers.arrays 'images', which has {why}" in iterator.explain()
    check_iterator(lambda: make(batch_size=7, seed=1), epochs=2)


def test_the_plan_says_which_are_in_step():
    iterator = data_iterator(define(SHUFFLED), ["a", "b"], reader_name="images")(batch_size=2)
    assert iterator.explain().count("in step with readers.arrays 'images'") == 1


def test_orders_do_not_depend_on_what_else_a_definition_does():
    def alone():
        return fn.readers.arrays(np.arange(50), random_shuffle=True, name="r")

    def among_others():
        draws = fn.random.uniform()
        first = fn.readers.arrays(np.arange(9), random_shuffle=True)
        return fn.readers.arrays(np.arange(50), random_shuffle=True, name="r"), draws, first

    def order(definition, names):
        iterator = data_iterator(definition, names, reader_name="r")(batch_size=10, seed=5)
        return [np.asarray(batch["x"]).tolist() for batch in iterator]

    assert order(alone, ["x"]) == order(among_others, ["x", "y", "z"])


def test_draws_do_not_depend_on_the_readers():
    def draws(reads):
        if reads:
            fn.readers.arrays(np.arange(9), random_shuffle=True)
        return fn.random.uniform()

    with_reader, alone = (run(lambda reads=reads: draws(reads), batch_size=4)[0] for reads in (True, False))
    assert with_reader.tolist() == alone.tolist()
