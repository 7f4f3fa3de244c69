"""Random numbers of rocAL's `amd.rocal.fn.random`."""

from penstock.rocal.operator_table import offer

__getattr__, __dir__ = offer("random")
