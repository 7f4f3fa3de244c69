"""Modules of packages that extras bring."""

from __future__ import annotations

import importlib
from typing import Any

from penstock.errors import MissingExtraError


def import_extra(module: str, extra: str, needed_for: str) -> Any:
    """A module of an optional package.

    Args:
        module: its full name.
        extra: the extra of penstock that brings the package.
        needed_for: what wants it.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], extra, needed_for) from error
