"""The checks that third parties run on their operators find what they should."""

from __future__ import annotations

from typing import Unpack

import pytest

from penstock.graph.tracing import registry
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.testing import check_docstring


class Base(TypedDict, total=False):
    """More.

    base: what it is.
    """

    base: int


class Described(Base, total=False):
    """Options. good, better: what they are."""

    good: int
    better: int


class Undescribed(Base, total=False):
    """Options. good: what it is. This says nothing of bad things."""

    good: int
    bad: int


@pytest.mark.parametrize("options", [Described, Undescribed])
def test_each_option_of_a_typed_dictionary_must_be_described(options):
    def documented(data: DataNode, **options) -> DataNode:
        """Do it.

        Args:
            data: what.
            **options: how.

        Returns:
            It.

        Example:
            None.
        """

    documented.__annotations__["options"] = Unpack[options]
    operator("test.documented")(documented)
    try:
        if options is Described:
            check_docstring("test.documented")
        else:
            with pytest.raises(AssertionError, match=r"Undescribed does not describe bad$"):
                check_docstring("test.documented")
    finally:
        registry._operators.pop("test.documented", None)
