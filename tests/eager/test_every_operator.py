"""Every operator computes on data what it computes in a pipeline, bit for bit."""

import numpy as np
import pytest
from cases import CASES

from penstock import Batch
from penstock.graph import DataNode, lookup
from penstock.graph.tracing.expression import Expression
from penstock.graph.tracing.registry import OperatorFunction, _running
from penstock.testing.operator_checks import _run

ROWS = 4


def takes_data(name):
    return bool(CASES[name][0].inputs)


@pytest.fixture(autouse=True)
def seeds(monkeypatch, tmp_path):
    """Operators that draw get a seed, in pipelines too; batches are indexed like nodes; files go to a folder."""
    call = OperatorFunction.__call__

    def seeded(self, *args, **kwargs):
        if _running.get() is None and "seed" in self._own_names and not self.name.startswith("readers."):
            kwargs.setdefault("seed", 11)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(OperatorFunction, "__call__", seeded)
    monkeypatch.setattr(Batch, "__getitem__", Expression.__getitem__)
    monkeypatch.chdir(tmp_path)


def outputs(result):
    return list(result) if isinstance(result, tuple | list) else [result]


def layouts_of(case):
    return list(case.layouts) or [""] * len(case.inputs)


def dense(case):
    batches = [Batch(column, layout) for column, layout in zip(case.inputs, layouts_of(case), strict=True)]
    return [list(batch) for batch in outputs(case.build(*batches))]


def ragged(case):
    batches = [Batch(list(column), layout) for column, layout in zip(case.inputs, layouts_of(case), strict=True)]
    return [list(batch) for batch in outputs(case.build(*batches))]


def single(case):
    rows = [outputs(case.build(*[np.asarray(column[row]) for column in case.inputs])) for row in range(ROWS)]
    return [list(samples) for samples in zip(*rows, strict=True)]


def same(computed, expected):
    assert len(computed) == len(expected)
    for ours, theirs in zip(computed, expected, strict=True):
        assert not isinstance(ours[0], DataNode)
        for sample, reference in zip(ours, theirs, strict=True):
            sample = np.asarray(sample)
            assert (sample.dtype, sample.shape) == (reference.dtype, reference.shape)
            assert sample.tobytes() == reference.tobytes()


def uses():
    for name, cases in CASES.items():
        for number, case in enumerate(cases):
            if case.inputs:
                yield pytest.param(case, id=f"{name}-{number}")


@pytest.mark.parametrize("case", list(uses()))
@pytest.mark.parametrize("way", [dense, ragged, single])
def test_eager(case, way):
    kind = way is ragged and case.ragged
    same(way(case), _run(case, ROWS, "host", exec_async=False, ragged=False))
