"""DALI's names for operators that numba compiles."""

from penstock.fn import numba_function as numba_function
from penstock.plugin.numba.fn import experimental as experimental
