"""Messages of libtiff, which Pillow decodes TIFFs with, as part of the errors of samples.

libtiff prints them to stderr, without the name of the file: one damaged TIFF may print hundreds of lines. It offers a
function for its handlers, one per process. The handlers here keep the messages of threads that decode for Penstock, and
pass those of other threads on.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

# module, format of printf, its arguments as a va_list
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)

_LONGEST = 200

_local = threading.local()

# If two threads installed handlers at once, those of one would be freed, and libtiff might call them.
_installing = threading.Lock()


@contextmanager
def collected_tiff_messages() -> Generator[list[str]]:
    """Collect libtiff's messages of this thread in a list instead of printing them."""
    with _installing:
        _install()
    outer, messages = getattr(_local, "messages", None), list[str]()
    _local.messages = messages
    try:
        yield messages
    finally:
        _local.messages = outer


def with_tiff_messages(problem: str, messages: list[str]) -> str:
    """Return the text of a problem with the first message of libtiff and the number of the others.

    >>> with_tiff_messages("damaged", ["LZWDecode: Not enough data", "Bad code", "Bad code"])
    'damaged (libtiff: LZWDecode: Not enough data; and 2 more messages)'
    """
    if not messages:
        return problem
    more = f"; and {len(messages) - 1} more messages" if len(messages) > 1 else ""
    return f"{problem} (libtiff: {messages[0]}{more})"


@functools.cache
def _install() -> tuple[Any, ...]:
    """Set the handlers of the libtiff that Pillow is linked to. Returns them, so that they stay alive."""
    from PIL import _imaging  # noqa: PLC0415  # pyright: ignore[reportAttributeAccessIssue]  # Pillow is imported late

    try:
        library, libc = ctypes.CDLL(_imaging.__file__), ctypes.CDLL(None)
        setters = library.TIFFSetErrorHandler, library.TIFFSetWarningHandler
        vsnprintf = libc.vsnprintf
    except (AttributeError, OSError, TypeError):  # libtiff is linked statically, as on Windows, or Pillow has none
        return ()
    handlers: list[Any] = []
    for setter in setters:
        setter.argtypes, setter.restype = [_Handler], ctypes.c_void_p
        previous: list[Any] = []
        handler = _Handler(functools.partial(_handle, vsnprintf, previous))
        # Empty, and so without effect, for the moment in which another thread may already call the new handler.
        previous += [_Handler(address)] if (address := setter(handler)) else []
        handlers.append(handler)
    return tuple(handlers)


def _handle(
    vsnprintf: Callable[..., Any], previous: list[Any], module: bytes | None, form: bytes, arguments: int | None
) -> None:
    messages: list[str] | None = getattr(_local, "messages", None)
    if messages is None:
        for handler in previous:
            handler(module, form, arguments)
        return
    buffer = ctypes.create_string_buffer(_LONGEST)
    vsnprintf(buffer, ctypes.c_size_t(_LONGEST), ctypes.c_char_p(form), ctypes.c_void_p(arguments))
    text = buffer.value.decode(errors="replace")
    # Pillow names the file in memory "tempfile.tif", which says nothing.
    source = (module or b"").decode(errors="replace")
    messages.append(text if source in ("", "tempfile.tif") else f"{source}: {text}")
