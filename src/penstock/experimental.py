"""DALI's `experimental`: dynamic mode, also as `penstock.dynamic`."""

import sys

from penstock import dynamic as dynamic

sys.modules[f"{__name__}.dynamic"] = dynamic
