"""DALI's older place of `plugin.numba.NumbaFunction`."""

from penstock.plugin.numba import NumbaFunction as NumbaFunction
