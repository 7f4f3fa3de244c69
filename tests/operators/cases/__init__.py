"""Uses of operators, by family: each module has `CASES`, a list of uses per operator."""

import importlib
import pkgutil

CASES = {}
for module in pkgutil.iter_modules(__path__):
    CASES |= importlib.import_module(f"{__name__}.{module.name}").CASES
