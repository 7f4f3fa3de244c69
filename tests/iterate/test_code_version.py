"""Tests that the digest of user functions depends on their code, not on their location or closure."""

import functools

import jax

from penstock import Pipeline, fn
from penstock.iterate.code_version import code_digest


def digest(function, operator=fn.python_function):
    with Pipeline(batch_size=1) as pipeline:
        x = fn.readers.arrays([1.0, 2.0])
        pipeline.set_outputs(
            operator(x, function=function) if operator is fn.python_function else operator(function)(x)
        )
    return code_digest(pipeline.graph)


def made(factor):
    def scaled(x):
        return x * factor

    return scaled


class Doubles:
    def __call__(self, x):
        return x * 2


class Triples:
    def __call__(self, x):
        return x * 3

    def method(self, x):
        return x * 4


def test_different_code_has_different_version():
    functions = [
        lambda x: x * 2,
        lambda x: x * 3,
        lambda x: x + 2,
        lambda x: x * (2 if str(x) in {"a", "b"} else 4),
        Doubles(),
        Triples(),
        Triples().method,
        functools.partial(lambda x, y: x, y=1),
    ]
    assert len({digest(function) for function in functions}) == len(functions)
    assert digest(jax.jit(lambda x: x * 2), fn.jax_function) != digest(jax.jit(lambda x: x * 3), fn.jax_function)


def test_same_code_elsewhere_has_same_version():
    assert digest(made(2)) == digest(made(3))
    assert digest(lambda x: x * 2) == digest(lambda x: x * 2)
    assert digest(Doubles()) == digest(Doubles())
