"""Operators that are fed by hand."""

from penstock.graph.registry import missing
from penstock.operators.external.input_video import video as video

__getattr__ = missing(__name__)
