"""DALI's names for operators that numba compiles."""

from penstock.ops import NumbaFunction as NumbaFunction
from penstock.plugin.numba import fn as fn
