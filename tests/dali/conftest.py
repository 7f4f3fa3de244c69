"""DALI on the CPU as the oracle: one definition, run by DALI and by penstock."""

from __future__ import annotations

import numpy as np
import pytest

import penstock.fn
import penstock.types
from penstock import Pipeline, newaxis
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.testing import ListSource

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

collect_ignore = ["tutorials"]


class Ours:
    fn, types, newaxis = penstock.fn, penstock.types, newaxis


class Theirs:
    fn, types, newaxis = dali.fn, dali.types, dali.newaxis


@pytest.fixture
def both():
    """A function that runs a definition in both libraries and returns the samples of each output, twice.

    With `told` also where these say that they were read.
    """

    def run(define, *inputs, layouts=(), rows=None, seed=1, placement="auto", told=False):
        def made_by(lib, *nodes):
            outputs = define(lib, *nodes)
            outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
            return (*outputs, *(lib.fn.get_property(each, key="source_info") for each in outputs * told))

        columns = [[np.asarray(sample, order="C") for sample in column] for column in inputs]
        names = tuple(layouts) or ("",) * len(columns)
        count = rows or len(columns[0])

        with dali.Pipeline(count, 2, None, seed=seed) as theirs:
            nodes = [
                dali.fn.external_source(source=[column], layout=layout or None, cycle=True)
                for column, layout in zip(columns, names, strict=True)
            ]
            theirs.set_outputs(*made_by(Theirs, *nodes))
        given = theirs.run()
        expected = [[np.array(sample) for sample in output] for output in given]

        with Pipeline(count, 2, seed=seed, placement=placement) as ours:
            nodes = apply_reader(ListSource(columns, names), {}) if columns else ()
            if placement == "device":  # there, samples have one shape
                nodes = penstock.fn.readers.arrays(tuple(map(np.stack, columns)), layout=list(names))
            ours.set_outputs(*made_by(Ours, *nodes))
        made = ours.run()
        actual = [[np.asarray(sample) for sample in output] for output in made]
        ours.close()
        named = [output.layout().rstrip("*") for output in given]  # DALI also names axes that have no name
        assert [output.layout().rstrip("*") for output in made] == named
        return actual, expected

    return run


@pytest.fixture
def agree(both):
    """A function that checks that both libraries give the same: integers within `off`, floats within `rtol`."""

    def check(define, *inputs, layouts=(), off=0, rtol=0.0, atol=0.0, placement="auto"):
        actual, expected = both(define, *inputs, layouts=layouts, placement=placement)
        for mine, theirs in zip(actual, expected, strict=True):
            for a, b in zip(mine, theirs, strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                wide = np.float64 if a.dtype.itemsize < 8 else a.dtype
                limit = atol if a.dtype.kind == "f" else off
                np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=limit)

    return check
