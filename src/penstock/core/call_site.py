"""Call sites: the lines of the user's program that errors name."""

import functools
import inspect
import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import PurePath
from types import FrameType
from typing import ParamSpec, TypeVar

import numpy as np

from penstock.core.dataclass import dataclass
from penstock.core.tracebacks import PACKAGE, hide_internal_frames
from penstock.core.user_callbacks import tracing_variable
from penstock.errors import PenstockError

P = ParamSpec("P")
R = TypeVar("R")

_STANDARD_LIBRARY = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
# NumPy and JAX call methods of nodes, in functions that the user calls.
_INSTALLED = PurePath(np.__file__).parents[1]
_CALLERS = tuple(f"{_INSTALLED / name}{os.sep}" for name in ("numpy", "jax"))


@dataclass(frozen=True, slots=True)
class CallSite:
    """Line of a source file.

    Args:
        file: The path, as in the code object.
        line: The line number, from 1.
        function: The enclosing function.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        place = f"{cell}, line {self.line}" if (cell := self._notebook_cell) else f"{self.file}:{self.line}"
        return f"{place} in {self.function}" + (f": {text}" if text else "")

    @property
    def short(self) -> str:
        """The file without its folders, or the cell of a notebook, and the line."""
        return f"{self._notebook_cell or PurePath(self.file).name}:{self.line}"

    @property
    def _notebook_cell(self) -> str | None:
        """Name of a notebook's cell, as in IPython's tracebacks. The path in its code does not exist."""
        shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        name = shell.compile.format_code_name(self.file) if shell is not None else None
        return " ".join(name) if name else None


_override: ContextVar[CallSite | None] = tracing_variable("call_site")


@contextmanager
def pretend_at(where: CallSite) -> Generator[None]:
    """Use this call site in errors, for work that is repeated on behalf of an earlier call."""
    token = _override.set(where)
    try:
        yield
    finally:
        _override.reset(token)


def user_call_site() -> CallSite:
    """Return the innermost line on the stack that is outside this package, the standard library, NumPy and JAX.

    If there is none, such as in a thread of a pool, it is the innermost line outside this package.
    """
    if (override := _override.get()) is not None:
        return override
    # `inspect.stack` would read source files and build the whole stack, for every node of a definition.
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    caller = frame
    while caller.f_back is not None and (_is_ours(caller) or _is_library(caller)):
        caller = caller.f_back
    frame = frame if _is_library(caller) else caller
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    # The constructors of dataclasses are compiled from strings, in the globals of their module.
    generated = file == "<string>" and str(frame.f_globals.get("__name__")).startswith("penstock.")
    return generated or file.startswith(PACKAGE)


def _is_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    # Installed packages, which may define pipelines, can be in a folder of the standard library.
    return file.startswith((*_CALLERS, "<frozen")) or (file.startswith(_STANDARD_LIBRARY) and "-packages" not in file)


def with_call_site(function: Callable[P, R]) -> Callable[P, R]:
    """Add the user's line to the errors of a function that do not have one, and hide internal frames."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if isinstance(error, PenstockError):
                error.where = error.where or user_call_site()
            hide_internal_frames(error)
            raise

    # The function that the user wrote, even if `function` wraps it.
    vars(call)["__wrapped__"] = inspect.unwrap(function)
    return call
