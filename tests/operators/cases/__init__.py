"""Uses of all operators, which several tests check: each module adds its `CASES`, a list of uses per operator.

An operator belongs to one module. Modules share the arrays and files of `case_data`.
"""

import importlib
import pkgutil

CASES = {}
for module in pkgutil.iter_modules(__path__):
    CASES |= importlib.import_module(f"{__name__}.{module.name}").CASES
