"""What DALI calls experimental: the same operators as in `penstock.fn`."""

from penstock.fn import decoders as decoders
from penstock.fn import inputs as inputs
from penstock.fn import readers as readers
from penstock.fn.names import present
from penstock.graph.registry import offer

__getattr__, __dir__ = offer(__name__, present)
