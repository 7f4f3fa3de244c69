"""DALI's experimental operators: the same as in `penstock.fn`."""

import sys

from penstock.fn import decoders as decoders
from penstock.fn import inputs as inputs
from penstock.fn import readers as readers
from penstock.fn._operator_aliases import present as _present
from penstock.graph.tracing.registry import lazy_module as _lazy_module

sys.modules.update({f"{__name__}.decoders": decoders, f"{__name__}.inputs": inputs, f"{__name__}.readers": readers})

__getattr__, __dir__ = _lazy_module(__name__, _present, submodules=("decoders", "inputs", "readers"))
