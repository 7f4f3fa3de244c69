"""DALI's names for operators that numba compiles."""

from penstock.fn import numba_function as numba_function
