"""DALI's `experimental`: dynamic mode, also as `penstock.dynamic`."""

import sys

from penstock import dynamic as dynamic
from penstock.core.unsupported import module_getattr

# A package for the import system, so that modules which only DALI has are refused with their alternative.
__path__: list[str] = []

sys.modules[f"{__name__}.dynamic"] = dynamic

__getattr__ = module_getattr(__name__)
