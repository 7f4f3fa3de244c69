"""Every operator that takes data computes on it what it computes in a pipeline, bit for bit.

The uses are those of the contract suite, built on batches and arrays in place of nodes: on batches that are one array,
on lists of samples, and sample by sample on arrays.
"""

import numpy as np
import pytest
from cases import CASES

from penstock import Batch
from penstock.graph import DataNode
from penstock.graph.tracing.expression import Expression
from penstock.graph.tracing.registry import OperatorFunction, _running
from penstock.testing.operator_checks import _run

ROWS = 4
NODES = {
    "constant-2": "returns a constant besides",
    "follow.boxes-0": "follows operators",
    "follow.boxes-1": "follows operators",
    "follow.masks-0": "follows operators",
    "follow.masks-1": "follows operators",
    "follow.points-0": "follows operators",
    "follow.points-1": "follows operators",
    "full-0": "returns a constant besides",
    "getitem-3": "slices with nodes as limits",
    "per_frame-3": "computes with a constant per frame",
    "permute_batch-1": "draws the indices in the pipeline",
    "shapes-0": "calls a method of nodes",
    "transforms.combine-0": "makes a transform without data",
}
"""Uses that need nodes."""

FUSED = {"decoders.image_random_crop-4": "the pipeline's own fused and unfused results differ in the last bit"}

BY_NAME = "has data by name only, which one array does not mark as data"
RAGGED_DRAWS = "the pipeline draws otherwise for samples of unknown shape; that of one array is known"
NOT_SINGLE = {
    "full-1": BY_NAME,
    "per_frame-0": "gives an argument a layout, which one array does not have",
    "per_frame-1": "gives an argument a layout",
    "per_frame-2": "gives an argument a layout",
    "random.beta-1": BY_NAME,
    "random.beta-2": BY_NAME,
    "random.choice-2": RAGGED_DRAWS,
    "random.coin_flip-2": BY_NAME,
    "random.coin_flip-4": RAGGED_DRAWS,
    "random.normal-2": BY_NAME,
    "random.normal-4": RAGGED_DRAWS,
    "random.uniform-4": BY_NAME,
    "random.uniform-5": BY_NAME,
    "random.uniform-7": BY_NAME,
    "random.uniform-8": RAGGED_DRAWS,
    "roi_random_crop-1": BY_NAME,
    "zeros-1": BY_NAME,
}
"""Uses that need a `Batch`."""

drawing = []
"""The operators with a seed that a use has called."""


class Sample(np.ndarray):
    """One sample, which computes and is indexed like a node, and remembers its layout."""

    letters = ""
    __array_ufunc__ = None
    __hash__ = object.__hash__


METHODS = {name: method for name, method in vars(Expression).items() if callable(method) and name != "__hash__"}
for name, method in METHODS.items():
    setattr(Sample, name, method)


def sample(array, letters):
    result = np.asarray(array).view(Sample)
    result.letters = letters
    return result


@pytest.fixture(autouse=True)
def like_nodes(monkeypatch, tmp_path):
    """Operators that draw get a seed, in pipelines too; batches are indexed like nodes; files go to a folder."""
    call = OperatorFunction.__call__

    def seeded(self, *args, **kwargs):
        if _running.get() is None and "seed" in self._own_names and not self.name.startswith("readers."):
            kwargs.setdefault("seed", 11)
            drawing.append(self.name)
        samples = [value for value in (*args, *kwargs.values()) if isinstance(value, Sample)]
        if not samples:
            return call(self, *args, **kwargs)
        # The layout of the result is that of a batch of one, which has the same values.
        layouts = dict.fromkeys(value.letters for value in samples if value.letters)
        options = {} if "layout" in self._own_names or not layouts else {"layout": next(iter(layouts))}
        single = call(self, *args, **kwargs, **options)
        batch = call(self, *map(one, args), **{name: one(value) for name, value in kwargs.items()})
        if isinstance(single, list | tuple):
            return [sample(x, y.layout) for x, y in zip(single, batch, strict=True)]
        return single if isinstance(single, DataNode) else sample(single, batch.layout)

    drawing.clear()
    monkeypatch.setattr(OperatorFunction, "__call__", seeded)
    for name in ("__getitem__", "gpu", "cpu"):
        monkeypatch.setattr(Batch, name, METHODS[name], raising=False)
    monkeypatch.chdir(tmp_path)


def one(value):
    return Batch([np.asarray(value)], value.letters) if isinstance(value, Sample) else value


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
    columns = list(zip(case.inputs, layouts_of(case), strict=True))
    made = [outputs(case.build(*[sample(column[row], layout) for column, layout in columns])) for row in range(ROWS)]
    return [list(samples) for samples in zip(*made, strict=True)]


def check_same(computed, expected):
    assert len(computed) == len(expected)
    for ours, theirs in zip(computed, expected, strict=True):
        assert len(ours) == len(theirs)
        for result, reference in zip(ours, theirs, strict=True):
            array = np.asarray(result)
            assert (array.dtype, array.shape) == (reference.dtype, reference.shape)
            assert array.tobytes() == reference.tobytes()


def uses(*, alone=False):
    for name, cases in CASES.items():
        for number, case in enumerate(cases):
            known = f"{name}-{number}"
            skipped = known in NODES.keys() | FUSED.keys() or (alone and (case.mixes or known in NOT_SINGLE))
            if case.inputs and not skipped:
                yield pytest.param(case, id=known)


@pytest.mark.parametrize("case", list(uses()))
@pytest.mark.parametrize("way", [dense, ragged])
def test_batches(case, way):
    check_same(way(case), _run(case, ROWS, "host", exec_async=False))


@pytest.mark.parametrize("case", list(uses(alone=True)))
def test_single_samples(case):
    computed, expected = single(case), _run(case, ROWS, "host", exec_async=False, batch_size=1)
    # A call draws the numbers of the first sample of a batch, a pipeline those of four samples.
    rows = 1 if drawing else ROWS
    check_same([samples[:rows] for samples in computed], [samples[:rows] for samples in expected])


def test_all_operators_that_take_data_are_used():
    names = {use.id.rpartition("-")[0] for use in uses()}
    assert {name for name, cases in CASES.items() if any(case.inputs for case in cases)} - names == {
        "constant",
        "follow.boxes",
        "follow.masks",
        "follow.points",
    }
