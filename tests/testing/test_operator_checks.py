"""The checks that third parties run on their operators find what they should."""

from __future__ import annotations

from typing import Annotated, TypedDict, Unpack

import pytest

from penstock.graph import DataNode, Doc, operator
from penstock.graph.tracing import registry
from penstock.testing import check_docstring


class Base(TypedDict, total=False):
    base: Annotated[int, Doc("What it is.")]


class Described(Base, total=False):
    good: Annotated[int, Doc("Described.")]
    better: Annotated[int, Doc("Described too.")]


class Undescribed(Base, total=False):
    good: Annotated[int, Doc("Described. This says nothing of bad things.")]
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
