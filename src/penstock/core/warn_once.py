"""Warnings about programs that run, but probably do something else than intended."""

import warnings
from collections.abc import Hashable

from penstock.core.call_site import CallSite, user_call_site
from penstock.errors import PenstockWarning

# Topics and lines of the warnings of this process. The registry of Python's module `warnings` does not suffice: each
# `catch_warnings`, which JAX uses, clears it.
_shown: set[tuple[Hashable, str, int]] = set()


def warn_once(topic: Hashable, what: str, *, fix: str, where: CallSite | None = None) -> None:
    """Issue a `PenstockWarning` at a line of the user's program, once per topic and line.

    Args:
        topic: Warnings of the same topic at the same line count as one.
        what: A sentence that states the problem.
        fix: The code to write instead.
        where: The line; by default the one that called this package.
    """
    where = where or user_call_site()
    if (key := (topic, where.file, where.line)) in _shown:
        return
    warnings.warn_explicit(f"{what}\n  fix: {fix}", PenstockWarning, where.file, where.line)
    # Only now, so that a filter that turns warnings into errors does so every time.
    _shown.add(key)


def forget_warnings() -> None:
    """Let the warnings of this process appear again, for tests."""
    _shown.clear()
