"""Import of optional packages."""

import importlib
from typing import Any

from penstock.errors import MissingExtraError


def import_extra(module: str, extra: str, needed_for: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: The full name of the module.
        extra: The extra of penstock that installs the package.
        needed_for: The feature that needs it.

    Raises:
        MissingExtraError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra, needed_for) from error
