"""How this process ends: by which exception, and with which exit code. Python tells neither to its exit hooks."""

from __future__ import annotations

import ctypes
import dis
import os
import signal
import sys
import threading
import time
import traceback
from _sitebuiltins import Quitter
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

_LONGEST = 20_000
"""Characters of a traceback that are passed on: its end."""

_asked: tuple[SystemExit, FrameType] | None = None
"""What `sys.exit` or `exit` was called with last, and the outermost frame of the main thread."""


def watch_exit(failed: Callable[[BaseException], None]) -> None:
    """Call a function with the exception that ends the program, before it is printed; note who asks for an end."""
    plain_hook, plain_exit, plain_quit = sys.excepthook, sys.exit, Quitter.__call__

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        failed(error)
        plain_hook(kind, error, trace)

    def noted_exit(status: Any = None, /) -> NoReturn:
        _note(status, sys._getframe(1))  # noqa: SLF001  # as traceback itself does
        plain_exit(status)

    def noted_quit(self: Quitter, code: Any = None) -> NoReturn:
        _note(code, sys._getframe(1))  # noqa: SLF001  # likewise
        plain_quit(self, code)

    sys.excepthook, sys.exit, Quitter.__call__ = hook, noted_exit, noted_quit


def _note(status: Any, frame: FrameType) -> None:
    """Take note that the program is asked to end, by a call in a frame."""
    global _asked  # noqa: PLW0603  # the hooks of a process are global, too
    if threading.current_thread() is threading.main_thread():
        error = SystemExit(status)
        error.add_note("Traceback (most recent call last):\n" + "".join(traceback.format_stack(frame)).rstrip())
        while frame.f_back is not None:
            frame = frame.f_back
        _asked = error, frame


def exit_cause() -> BaseException | None:
    """The exception that ends this process, asked for by an exit hook; None where the program is over.

    An exit code that is raised as `SystemExit` without these remains unknown.
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
    return None if last.startswith("RETURN") or not exit_code(error) else error


def exit_code(error: BaseException) -> int:
    """The exit code of a process that ends by an exception."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, SystemExit):
        return 0 if error.code is None else error.code & 0xFF if isinstance(error.code, int) else 1
    return 1


def format_exception(error: BaseException) -> str:
    """The traceback of an exception; of `sys.exit`, where it was called."""
    if isinstance(error, SystemExit):
        called = "\n".join(getattr(error, "__notes__", ()))
        return f"{called}\nSystemExit: {error.code}".strip()[-_LONGEST:]
    return "".join(traceback.format_exception(error)).rstrip()[-_LONGEST:]


def exit_now(status: int) -> NoReturn:
    """End the process at once. After Ctrl-C by the signal itself, as a shell expects it."""
    if isinstance(exit_cause(), KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


class MainThreadMonitor:
    """Tells for how long the main thread has run no Python: it waits for something, perhaps for ever."""

    def __init__(self) -> None:
        self._answer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._beat)
        self._asked, self._since = False, time.monotonic()

    def seconds(self) -> float:
        """For how long, as far as it was asked before; another thread asks again and again."""
        if not self._asked:
            self._asked, self._since = True, time.monotonic()
            ctypes.pythonapi.Py_AddPendingCall(self._answer, None)
        return time.monotonic() - self._since

    def _beat(self, _: object) -> int:
        self._asked = False
        return 0
