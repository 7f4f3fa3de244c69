"""Patterns of paths, against the library that WebDataset expands them with."""

import pytest
from braceexpand import UnbalancedBracesError, braceexpand
from hypothesis import given
from hypothesis import strategies as st

from penstock.sources.files.path_arguments import expand_braces

PIECES = [
    "{",
    "}",
    ",",
    "..",
    "{0..3}",
    "{08..11}",
    "{3..-1..2}",
    "{a..e..2}",
    "{x,y}",
    "{,}",
    "{C..a}",
    "0",
    "b",
    "-",
    "/",
]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_braces_are_expanded_as_by_webdatasets_library(pattern):
    try:
        expected = list(braceexpand(pattern))
    except UnbalancedBracesError:
        return
    assert expand_braces(pattern) == expected


@pytest.mark.parametrize("pattern", ["a{b", "{a,b", "{0..3"])
def test_braces_that_are_not_closed_are_part_of_a_name(pattern):
    assert expand_braces(pattern) == [pattern]
