"""DALI's name for `fn.numba_function`."""

from penstock.fn import numba_function as numba_function
