"""Compiles loops when the package is built: ``python -m penstock.operators.compile_ahead``, run by hatch_build.py."""

from __future__ import annotations

import os
from importlib import import_module

from penstock.native import code_cache, machine_code
from penstock.native.compiled import Compiled

MODULES = (
    "operators.colour.averages",
    "data.bits",
    "data.common_protos",
    "data.crc32c",
    "data.decimals",
    "data.tar_index",
    "operators.boxes.matching",
    "operators.boxes.search",
    "operators.colour.lab",
    "operators.colour.statistics",
    "operators.colour.table",
    "operators.convert",
    "operators.image.blend",
    "operators.image.blur",
    "operators.image.correlate",
    "operators.image.equalize",
    "operators.image.extremes",
    "operators.image.grid",
    "operators.image.jpeg_losses",
    "operators.image.kernels",
    "operators.image.median",
    "operators.image.random_window",
    "operators.image.regions",
    "operators.image.separable",
    "operators.image.small_medians",
    "operators.image.taps",
    "operators.image.tiles",
    "operators.image.warp",
    "operators.image.warp_volume",
    "operators.image.windows",
    "operators.noise.grains",
    "operators.segmentation.objects",
    "operators.segmentation.pixels",
)
"""Where loops are that are compiled ahead. These modules can be imported while only NumPy and numba are installed."""


def main() -> None:
    """Compile what is marked with `ahead`, in place of what an earlier build left."""
    environment = machine_code.environment_ahead()
    if environment is None:
        return
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = machine_code.BASELINE
    os.environ.update(machine_code.SETTINGS_AHEAD)
    code: dict[str, bytes] = {}
    for name in MODULES:
        for value in vars(import_module(f"penstock.{name}")).values():
            if isinstance(value, Compiled):
                code |= value.compile_ahead(environment)
    folder = code_cache.AHEAD
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, data in code.items():
        code_cache.store(folder, name, data).chmod(0o644)


if __name__ == "__main__":
    main()
