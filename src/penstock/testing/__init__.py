"""Checks of the contracts of operators, sources and iterators, for penstock and for other packages."""

from penstock.testing.iterator_checks import check_iterator
from penstock.testing.operator_checks import OperatorCase, check_docstring, check_operator
from penstock.testing.source_checks import ListSource, check_bad_samples, check_source

__all__ = [
    "ListSource",
    "OperatorCase",
    "check_bad_samples",
    "check_docstring",
    "check_iterator",
    "check_operator",
    "check_source",
]
