"""Arguments against annotations: what is looked at together is taken and refused as one by one."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.graph.arguments import argument_kinds
from penstock.graph.arguments.argument_kinds import MismatchError, Range, coerce

HINTS = [
    Sequence[int],
    Sequence[float],
    Sequence[bool],
    Sequence[str],
    Sequence[Annotated[int, Range(1, 7)]],
    Sequence[float | str],
    Sequence[Sequence[float]],
    Sequence[tuple[int, int]],
    float | Sequence[int | Sequence[int]],
]

ELEMENTS = st.one_of(
    st.sampled_from([0, 1, 2, -1, 2**63, -(2**63), 10**400, True, False, 2.0, 0.5, float("nan"), float("inf"), 1e308]),
    st.sampled_from(["a", "", "\0", None, np.float32(2), np.float64(0.5), np.int64(3), np.uint64(2**63), np.bool_(1)]),
)
LISTS = st.lists(ELEMENTS, max_size=4) | st.lists(st.integers(-1, 9), max_size=6) | st.lists(st.floats(), max_size=4)


def outcome(hint, given):
    try:
        made = coerce(hint, given)
    except MismatchError as error:
        return type(error), str(error)
    return repr(made), type(made), [type(each) for each in made] if isinstance(made, list | tuple) else None


@settings(max_examples=400, deadline=None)
@given(hint=st.sampled_from(HINTS), given=LISTS | st.lists(LISTS, max_size=3) | LISTS.map(tuple))
@example(Sequence[float], [0, math.inf])
def test_together_as_one_by_one(hint, given):
    together = outcome(hint, given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argument_kinds, "_all_fit", lambda *_: False)
        assert together == outcome(hint, given)


@pytest.mark.parametrize(
    ("hint", "given", "wrong"),
    [
        (Sequence[float], [0.5] * 10**5, "a"),
        (Sequence[int], list(range(10**5)), 0.5),
        (Sequence[str], ["a"] * 10**5, 3),
        (Sequence[float], list(np.ones(10**5)), float("nan")),
        (Sequence[Sequence[int]], [[1, 2]] * 10**5, [2**64]),
    ],
    ids=["floats", "ints", "texts", "of NumPy", "lists"],
)
def test_of_long_sequences_few_elements_are_looked_at_alone(hint, given, wrong, monkeypatch):
    looked, alone = [], argument_kinds._element
    monkeypatch.setattr(argument_kinds, "_element", lambda *which: looked.append(which) or alone(*which))
    assert coerce(hint, given) is given
    assert not looked
    with pytest.raises(MismatchError, match=r"at \[100000\]"):
        coerce(hint, [*given, wrong])
    assert len(looked) <= 2 * argument_kinds._PART_SIZE


def test_a_message_shows_the_beginning_of_what_was_given():
    assert len(str(UsageError("too many", given=[1] * 10**5))) < 1100


def test_choices_may_be_strings_of_numpy():
    hint = Literal["pad", "error"] | None
    assert [coerce(hint, name) for name in np.array(["pad", "error"])] == ["pad", "error"]
    with pytest.raises(MismatchError, match="wrap"):
        coerce(hint, np.str_("wrap"))
