"""Checks of the contracts of operators, sources, iterators and executors, and small data sets to try them on."""

from penstock.testing.executor_checks import check_executor
from penstock.testing.iterator_checks import check_iterator
from penstock.testing.operator_checks import OperatorCase, check_docstring, check_operator
from penstock.testing.small_data import write_photographs, write_scenes, write_sounds, write_videos
from penstock.testing.source_checks import ListSource, check_bad_samples, check_source

__all__ = [
    "ListSource",
    "OperatorCase",
    "check_bad_samples",
    "check_docstring",
    "check_executor",
    "check_iterator",
    "check_operator",
    "check_source",
    "write_photographs",
    "write_scenes",
    "write_sounds",
    "write_videos",
]
