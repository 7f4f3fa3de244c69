"""DALI's plugin modules, which only re-export names of other folders."""

import importlib
from typing import Any

from penstock.core.unsupported import absence_error

_MODULES = ("base_iterator", "jax", "numba", "triton")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"penstock.plugin.{name}")
    raise absence_error("plugin", name)
