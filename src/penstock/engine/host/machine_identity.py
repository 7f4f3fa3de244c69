"""Identity of a machine: versions of libraries and features of the CPU on which the bits of results depend."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

# Packages that decode or compute in the host part. One that is missing on a side is not compared: if the definition
# needs it, that side cannot build the program.
_PACKAGES = (
    "av",
    "jax",
    "llvmlite",
    "lz4",
    "ml-dtypes",
    "numba",
    "numpy",
    "penstock",
    "pillow",
    "pycocotools",
    "scipy",
    "simplejpeg",
    "soundfile",
)

# Features by which NumPy and LLVM choose loops whose floating-point results differ: fused multiply-add, and vector
# versions of functions such as exp and sin.
_FEATURES = ("AVX2", "FMA3", "AVX512F", "AVX512_SKX", "AVX512_SPR", "ASIMD", "ASIMDHP", "SVE", "VSX3", "VX")


@functools.cache
def machine_identity() -> Mapping[str, str]:
    """Return versions and CPU features by name."""
    facts = {
        "python": f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}",
        "machine": f"{platform.machine().lower()} {sys.byteorder}-endian",
        "CPU features": " ".join(name for name in _FEATURES if _cpu_features().get(name)),
    }
    return facts | {package: version for package in _PACKAGES if (version := _version(package))}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return the name and both values of each fact that two sides have and that differs."""
    return [(name, value, there[name]) for name, value in here.items() if there.get(name, value) != value]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_features() -> Mapping[str, bool]:
    # NumPy has no public function that returns them; `numpy.show_runtime` prints this table.
    module = cast(Any, import_module("numpy._core._multiarray_umath"))
    return getattr(module, "__cpu_features__", {})
