"""A chain of loops equals calls of the same loops, one after another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InternalError
from penstock.native import loop_chain
from penstock.native.compiled import Compiled
from penstock.native.loop_chain import LoopChain, run_groups


@Compiled
def double_unless_negative(values, results, left, first, last):
    for row in range(first, last):
        left[row] = values[row] < 0
        if not left[row]:
            results[row] = 2 * values[row]


@Compiled
def add_group(results, sizes, first, last):
    for row in range(first, last):
        results[row] += 1
        sizes[row] = last - first


@Compiled
def raises(results, first, last):
    if results[first] > 5 and last > first:
        raise ValueError


def loops(values):
    """Return arrays, and loops over them that are bound."""
    results, sizes, left = np.zeros_like(values), np.zeros_like(values), np.ones(len(values), np.bool_)
    return results, sizes, left, [double_unless_negative.bind(values, results, left), add_group.bind(results, sizes)]


def slices(lengths):
    """Return consecutive groups of some lengths."""
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]


@pytest.mark.parametrize("as_python", [False, True])
@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.data())
def test_a_chain_equals_single_calls_and_leaves_groups(as_python, lengths, data):
    groups = slices(lengths)
    values = np.array(data.draw(st.lists(st.integers(-1, 9), min_size=groups[-1].stop, max_size=groups[-1].stop)))
    expected, expected_sizes, _, single = loops(values)
    results, sizes, left, bound = loops(values)
    chain, number, stops = LoopChain(bound, groups, left), 0, []
    with pytest.MonkeyPatch.context() as patch:
        if as_python:
            patch.setattr(loop_chain, "run_groups", run_groups.python_function)
        while (number := chain.run(number)) < len(groups):
            stops.append(number)
            bound[1](groups[number].start, groups[number].stop)
            number += 1
    for group in groups:
        for loop in single:
            loop(group.start, group.stop)
    assert np.array_equal(results, expected)
    assert np.array_equal(sizes, expected_sizes)
    assert stops == [number for number, group in enumerate(groups) if (values[group] < 0).any()]


def test_a_loop_that_raises_is_named():
    results, _, left, bound = loops(np.array([1, 2, 3, 4]))
    chain = LoopChain([*bound, raises.bind(results)], slices([1, 2, 1]), left)
    with pytest.raises(InternalError, match="raises raised an exception"):
        chain.run(0)
    assert results.tolist() == [3, 5, 7, 9]  # 9 is the group that raised
