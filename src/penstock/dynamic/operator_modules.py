"""Modules of dynamic mode, such as `decoders` and `math`: their functions are made on first use."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from penstock import math as node_math
from penstock.core import user_call_site, with_call_site
from penstock.dynamic import random_state
from penstock.dynamic.function_call import function
from penstock.dynamic.tensor_arithmetic import apply_elementwise
from penstock.dynamic.tensor_conversion import as_tensor
from penstock.errors import UnknownNameError, did_you_mean
from penstock.graph.tracing.registry import available

_PARTS = ("decoders", "io", "io.file", "noise", "random", "reductions", "segmentation", "transforms", "math")
_MISSING = {
    "readers": "ExternalSource of Python, or a pipeline with fn.readers: docs/dynamic.md",
    "checkpoint": "random.RNG has get_state and set_state: docs/dynamic.md",
    "capture": "a function decorated with penstock.data_iterator: docs/dynamic.md",
    "ExternalSource": "a loop over the source, with as_tensor or as_batch",
    "EvalContext": "nothing: calls compute in their own thread",
    "python_function": "the function itself",
    "numba_function": "the function itself",
    "jax_function": "the function itself",
    "external_source": "a loop over the source, with as_tensor or as_batch",
    "constant": "the value itself",
}


def functions_of(part: str, module: ModuleType) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the module of a part.

    Args:
        part: Path of the part, such as "" or "io.file".
        module: The module, which keeps what it has made.
    """
    prefix = f"{part}." if part else ""
    if not part:
        for inner in _PARTS:
            _module(inner)

    def names() -> set[str]:
        inside = {name.removeprefix(prefix) for name in available() if name.startswith(prefix)}
        own = {name for name in inside if "." not in name} - _MISSING.keys() - {"getitem"}
        return own | {path.removeprefix(prefix) for path in _PARTS if path.startswith(prefix)}

    def getattr_(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # the import system probes for these
        if prefix + name in _PARTS:
            return _module(prefix + name)
        if name not in names():
            fix = _MISSING.get(name) or did_you_mean(name, dir_())
            raise UnknownNameError(f"dynamic mode has no {prefix}{name}", fix=fix, where=user_call_site())
        result = function(prefix + name)
        setattr(module, name, result)
        return result

    def dir_() -> list[str]:
        return sorted({*vars(module), *(name for name in names() if "." not in name)})

    return getattr_, dir_


def _module(part: str) -> ModuleType:
    name = f"penstock.dynamic.{part}"
    if name not in sys.modules:
        module = ModuleType(name, f"Functions of dynamic mode: `{part}`.")
        if part == "math":
            vars(module).update({key: _math_function(key) for key in node_math.__all__})
        else:
            vars(module)["__getattr__"], vars(module)["__dir__"] = functions_of(part, module)
        if part == "random":
            for key in ("RNG", "get_default_rng", "set_seed"):
                setattr(module, key, getattr(random_state, key))
        sys.modules[name] = sys.modules[name.replace("penstock.", "penstock.experimental.", 1)] = module
    return sys.modules[name]


def _math_function(name: str) -> Callable[..., Any]:
    compute = getattr(node_math, name)

    @functools.wraps(compute)
    def call(first: Any, *others: Any) -> Any:
        if isinstance(first, int | float) and not any(hasattr(other, "dtype") for other in others):
            first = as_tensor(first)
        return apply_elementwise(compute, first, *others)

    return with_call_site(call)
