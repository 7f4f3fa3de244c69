"""Tracebacks of errors that users cause: the frames of this package are hidden from them."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from types import TracebackType

from penstock.errors import PenstockError, ResourceError

PACKAGE = str(Path(__file__).resolve().parents[1])

# Folders of the standard library and of installed packages. The package itself may be in one of them.
_LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def hide_internal_frames(error: BaseException) -> None:
    """Remove the frames of this package from the traceback of an error that the user can correct.

    Frames of libraries that this package called go, too. Frames of the user's functions stay, also those that this
    package called. Causes without a frame of the user are dropped: their text is part of the message. A `ResourceError`
    keeps its cause, which programs examine. Other errors, which may be defects of this package, keep all frames.

    ``PENSTOCK_TRACEBACK_FILTERING=off`` shows all frames, like JAX's variable of a similar name.
    """
    if os.environ.get("PENSTOCK_TRACEBACK_FILTERING") == "off":
        return
    frames = _frames(error)
    if not isinstance(error, PenstockError) and (not frames or _is_internal(frames[-1])):
        return
    error.__traceback__ = _joined(_users(frames))
    outer, seen = error, {id(error)}
    # An exception that is raised again while its own consequence is handled makes the chain a cycle.
    while (cause := outer.__cause__ or outer.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        users = _users(_frames(cause))
        if not isinstance(error, ResourceError) and not any(_is_users(frame) for frame in users):
            # This also removes what comes before the cause in the chain.
            outer.__cause__, outer.__suppress_context__ = None, True
            return
        cause.__traceback__ = _joined(users)
        outer = cause


def cause_text(error: Exception) -> str:
    """Return the text of an error as the reason in the message of another one.

    It begins with the type of an error that was raised outside this package, such as in a function of the user.
    """
    frames, text = _frames(error), str(error)
    if isinstance(error, PenstockError) or (text and frames and _is_internal(frames[-1])):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _frames(error: BaseException) -> list[TracebackType]:
    """Return the entries of a traceback, outermost first."""
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    return entries


def _joined(entries: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of these entries."""
    result: TracebackType | None = None
    for entry in reversed(entries):
        result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _users(entries: list[TracebackType]) -> list[TracebackType]:
    """Return the entries without those of this package and of libraries that it called."""
    kept: list[TracebackType] = []
    inside = False
    for entry in entries:
        inside = _is_internal(entry) or (inside and not _is_users(entry))
        if not inside:
            kept.append(entry)
    return kept


def _is_internal(entry: TracebackType) -> bool:
    code = entry.tb_frame.f_code
    # The constructors of dataclasses are compiled from strings, in the globals of their module.
    generated = code.co_filename == "<string>" and str(entry.tb_frame.f_globals.get("__name__")).startswith("penstock.")
    return generated or code.co_filename.startswith(PACKAGE)


def _is_users(entry: TracebackType) -> bool:
    """Return True for a frame of the user's program."""
    file = entry.tb_frame.f_code.co_filename
    # Notebooks compile cells under names such as "<ipython-input-1>" or in a temporary folder.
    return not _is_internal(entry) and not file.startswith((*_LIBRARIES, "<frozen"))
