"""How this process ends: by which exception, and with which exit code. Python tells neither to its exit hooks."""

from __future__ import annotations

import dis
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_LONGEST = 20_000
"""Characters of a traceback that are passed on: its end."""

_asked: tuple[SystemExit, FrameType] | None = None
"""What `sys.exit` was called with last, and the outermost frame of the main thread."""


def observe(failed: Callable[[BaseException], None]) -> None:
    """Call a function with the exception that ends the program, before it is printed; note the calls of `sys.exit`."""
    plain_hook, plain_exit = sys.excepthook, sys.exit

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        failed(error)
        plain_hook(kind, error, trace)

    def noted_exit(status: Any = None, /) -> NoReturn:
        global _asked  # noqa: PLW0603  # the hooks of a process are global, too
        if threading.current_thread() is threading.main_thread():
            frame = sys._getframe(1)  # noqa: SLF001  # as traceback itself does
            error = SystemExit(status)
            error.add_note("Traceback (most recent call last):\n" + "".join(traceback.format_stack(frame)).rstrip())
            while frame.f_back is not None:
                frame = frame.f_back
            _asked = error, frame
        plain_exit(status)

    sys.excepthook, sys.exit = hook, noted_exit


def reason() -> BaseException | None:
    """The exception that ends this process, asked for by an exit hook; None where the program is over.

    An exit code that is raised as `SystemExit` without `sys.exit` remains unknown.
    """
    if not (sys.flags.interactive or hasattr(sys, "ps1")):
        raised = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if isinstance(raised, BaseException):
            return raised
    if _asked is None:
        return None
    error, outermost = _asked
    # somebody may have caught it: then the outermost frame has gone on, and returned
    last = dis.opname[outermost.f_code.co_code[outermost.f_lasti]]
    return None if last.startswith("RETURN") or not code(error) else error


def code(error: BaseException) -> int:
    """The exit code of a process that ends by an exception."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, SystemExit):
        return 0 if error.code is None else error.code & 0xFF if isinstance(error.code, int) else 1
    return 1


def words(error: BaseException) -> str:
    """The traceback of an exception; of `sys.exit`, where it was called."""
    if isinstance(error, SystemExit):
        called = "\n".join(getattr(error, "__notes__", ()))
        return f"{called}\nSystemExit: {error.code}".strip()[-_LONGEST:]
    return "".join(traceback.format_exception(error)).rstrip()[-_LONGEST:]


def leave(status: int) -> NoReturn:
    """End the process at once. After Ctrl-C by the signal itself, as a shell expects it."""
    if isinstance(reason(), KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)
