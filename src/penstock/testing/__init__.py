"""Checks of the contracts of operators, sources and iterators, for penstock and for other packages."""

from penstock.testing.iterator_checks import check_iterator as check_iterator
from penstock.testing.operator_checks import OperatorCase as OperatorCase
from penstock.testing.operator_checks import check_docstring as check_docstring
from penstock.testing.operator_checks import check_operator as check_operator
from penstock.testing.source_checks import ListSource as ListSource
from penstock.testing.source_checks import check_bad_samples as check_bad_samples
from penstock.testing.source_checks import check_source as check_source

__all__ = [
    "ListSource",
    "OperatorCase",
    "check_bad_samples",
    "check_docstring",
    "check_iterator",
    "check_operator",
    "check_source",
]
