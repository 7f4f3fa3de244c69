"""The checks that third parties run on their operators find what they should."""

from __future__ import annotations

from typing import Unpack

import pytest
from typing_extensions import TypedDict

from penstock.graph import DataNode, operator
from penstock.graph.tracing import registry
from penstock.testing import check_docstring


class Base(TypedDict, total=False):
    """Arguments of several groups.

    Args:
        base: What it is.
    """

    base: int


class Described(Base, total=False):
    """Arguments that are all described.

    Args:
        good: Described.
        better: Described too,
            on two lines.
    """

    good: int
    better: int


class Undescribed(Base, total=False):
    """Arguments of which one is not described.

    Args:
        good: Described. This says nothing of bad things.
    """

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
            with pytest.raises(AssertionError, match=r"bad is not described$"):
                check_docstring("test.documented")
    finally:
        registry._operators.pop("test.documented", None)
