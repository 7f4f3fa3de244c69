"""Compilation of loops for release wheels: ``python -m penstock.native.precompile_modules FOLDER``.

`hatch_build.py` runs it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from penstock.native import code_cache, machine_code
from penstock.native.compiled import Compiled

# Modules with loops that release builds compile. The build environment has only NumPy and numba, so these modules must
# not import anything else.
MODULES = (
    "image.describe.random_window",
    "image.kernels.clahe_tiles",
    "image.kernels.copy_windows",
    "image.kernels.debayer_bilinear",
    "image.kernels.fill_boxes",
    "image.kernels.filter_taps",
    "image.kernels.jpeg_round_trip",
    "image.kernels.lab_color",
    "image.kernels.resample_rows",
    "image.kernels.salt_pepper",
    "image.kernels.sample_statistics",
    "image.kernels.table_rows",
    "image.passes.channel_mix_pass",
    "image.passes.correlation_pass",
    "image.passes.equalize_pass",
    "image.passes.gaussian_blur_pass",
    "image.passes.grid_mask_pass",
    "image.passes.median_pass",
    "image.passes.morphology_pass",
    "image.passes.separable_pass",
    "image.passes.warp_pass",
    "image.passes.warp_volume_pass",
    "numerics.casting",
    "numerics.random_bits",
    "operators.boxes.anchor_matching",
    "operators.boxes.crop_search",
    "operators.segmentation.connected_components",
    "operators.segmentation.mask_pixel_draw",
    "sources.formats.caffe.fast_tensor_protos",
    "sources.formats.decimal_index",
    "sources.formats.tar.tar_index",
)


def main(folder: Path) -> None:
    """Compile the loops marked with `precompile` into a folder.

    Raises:
        SystemExit: the processor of the build lacks features of the baseline, or numba's settings are changed.
    """
    environment = machine_code.environment_ahead()
    if environment is None:
        names = ", ".join(machine_code.SETTINGS)
        raise SystemExit(f"release wheels are built on a processor with {machine_code.BASELINE[1]}, without {names}")
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = machine_code.BASELINE
    for name in MODULES:
        for value in vars(import_module(f"penstock.{name}")).values():
            for form in cast(Compiled[..., Any], value).forms if isinstance(value, Compiled) else ():
                for key, data in form.precompiled(environment).items():
                    code_cache.write_code_to(folder, key, data).chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
