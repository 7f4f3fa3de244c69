"""Compiles loops for release wheels: ``python -m penstock.operators.compile_ahead FOLDER``, run by hatch_build.py."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

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


def main(folder: Path) -> None:
    """Compile what is marked with `ahead` into a folder.

    Raises:
        SystemExit: the build runs on a processor for which nothing can be compiled ahead.
    """
    environment = machine_code.environment_ahead()
    if environment is None:
        names = ", ".join(machine_code.SETTINGS)
        raise SystemExit(f"release wheels are built on a processor with {machine_code.BASELINE[1]}, without {names}")
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = machine_code.BASELINE
    for name in MODULES:
        for value in vars(import_module(f"penstock.{name}")).values():
            for form in cast(Compiled[..., Any], value).forms if isinstance(value, Compiled) else ():
                for key, data in form.compile_ahead(environment).items():
                    code_cache.store(folder, key, data).chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
