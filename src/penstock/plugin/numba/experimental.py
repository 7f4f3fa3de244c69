"""DALI's older place of `plugin.numba.NumbaFunction`."""

from penstock.ops import NumbaFunction as NumbaFunction
