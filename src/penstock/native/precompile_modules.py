"""Compilation of loops for release wheels: ``python -m penstock.native.precompile_modules FOLDER``.

`hatch_build.py` runs it.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from penstock.native import code_cache, machine_code
from penstock.native.compiled import Compiled

_PACKAGE = Path(__file__).parents[1]

# Modules with loops that release builds compile. The build environment has only NumPy and numba, so these modules must
# not import anything else.
MODULES = [
    ".".join(path.relative_to(_PACKAGE).with_suffix("").parts)
    for path in sorted(_PACKAGE.rglob("*.py"))
    if "\n@precompile(" in path.read_text("utf-8")
]


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
