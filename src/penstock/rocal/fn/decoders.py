"""Decoders of rocAL's `amd.rocal.fn.decoders`, which read and decode the files of a reader."""

from collections.abc import Callable
from typing import Any

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, short_repr
from penstock.rocal.fn.readers import LOADER, Files
from penstock.rocal.operator_table import offer

_offered, __dir__ = offer("decoders")


def __getattr__(name: str) -> Callable[..., Any]:
    decode = _offered(name)

    def decoder(files: Any, **arguments: Any) -> Any:
        # In rocAL, order and shard of files are arguments of the decoder. They are not part of its row in the table,
        # because penstock's reader takes them.
        loader = {item: arguments.pop(item) for item in tuple(arguments) if item in LOADER}
        if isinstance(files, Files):
            return decode(files.read(**loader), **arguments)
        raise ArgumentTypeError(
            f"fn.decoders.{name} decodes what a reader lists",
            given=short_repr(files),
            fix="jpegs, _ = fn.readers.file(...)",
            where=user_call_site(),
        )

    decoder.__name__, decoder.__doc__ = name, decode.__doc__
    return decoder
