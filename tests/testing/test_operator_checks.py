"""The checks that third parties run on their operators find what they should."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import pytest
from typing_extensions import TypedDict

from penstock import fn
from penstock.graph import DataNode, operator
from penstock.graph.tracing import registry
from penstock.testing import OperatorCase, check_docstring, check_operator


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


class Forgetful:
    """Function that adds a number, and forgets it when it is pickled."""

    number = 0

    def __init__(self):
        self.number = 1

    def __getstate__(self):
        return {}

    def __call__(self, values):
        return values + np.float32(self.number)


def test_an_operator_that_a_worker_process_computes_differently_is_found():
    case = OperatorCase(lambda x: fn.python_function(x, function=Forgetful()), [np.ones((4, 2), np.float32)])
    with pytest.raises(AssertionError, match="in a worker process it gives"):
        check_operator(case)
