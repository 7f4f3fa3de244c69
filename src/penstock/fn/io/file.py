"""Operators that read files by name."""

from penstock.graph.registry import missing
from penstock.operators.files.read import read as read

__getattr__ = missing(__name__)
