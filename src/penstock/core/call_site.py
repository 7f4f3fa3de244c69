"""The line of the user's program that made a node, or a call that is refused."""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import ParamSpec, TypeVar

from penstock.errors import PenstockError

PACKAGE = str(Path(__file__).resolve().parents[1])

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of source.

    Args:
        file: its path, as Python knows it.
        line: its number, from 1.
        function: the function it stands in.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        return f"{self.file}:{self.line} in {self.function}" + (f": {text}" if text else "")


_instead: ContextVar[CallSite | None] = ContextVar("standing_at", default=None)


@contextmanager
def pretend_at(where: CallSite) -> Generator[None]:
    """Let a line be the user's, for what is done again on its behalf."""
    token = _instead.set(where)
    try:
        yield
    finally:
        _instead.reset(token)


def user_call_site() -> CallSite:
    """The innermost line outside this package on the stack: frames are excluded by file, not counted."""
    if (instead := _instead.get()) is not None:
        return instead
    # the only way to a frame that does not build a whole traceback, hence the private name
    frame = sys._getframe(1)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # see above
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    return CallSite(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    made = file == "<string>" and str(frame.f_globals.get("__name__")).startswith("penstock.")  # by a dataclass
    return made or file.startswith(PACKAGE)


def with_call_site(function: Callable[P, R]) -> Callable[P, R]:
    """A function whose errors have the line of the user's program, where they do not know a better one."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except PenstockError as error:
            error.where = error.where or user_call_site()
            raise

    vars(call)["__wrapped__"] = inspect.unwrap(function)  # what the user wrote, if the function wraps that
    return call
