"""CUDA streams of dynamic mode, as DALI has them on a machine without a GPU: there are none."""

from __future__ import annotations

from typing import Any

from penstock.core import with_call_site
from penstock.errors import ContextError


class _NewStream:
    """DALI's default argument, which stands for a new stream."""

    def __repr__(self) -> str:
        return "Stream.create_new"


class Stream:
    """CUDA stream, which cannot be made: calls compute on the host.

    Raises:
        ContextError: Always.
    """

    create_new = _NewStream()

    @with_call_site
    def __init__(self, *, stream: Any = create_new, device_id: int | None = None) -> None:
        del device_id
        raise _no_stream(stream)


@with_call_site
def stream(*, stream: Any = Stream.create_new, device_id: int | None = None) -> None:
    """Return None for None, as DALI does on the CPU.

    Raises:
        ContextError: Another stream is requested.
    """
    del device_id
    _check(stream)


@with_call_site
def get_default_stream(device_id: int | None = None) -> None:
    """Return None, as DALI does on the CPU."""
    del device_id


@with_call_site
def get_current_stream() -> None:
    """Return None, as DALI does on the CPU."""


@with_call_site
def set_default_stream(cuda_stream: Any, /, device_id: int | None = None) -> None:
    """Accept None.

    Raises:
        ContextError: Another stream is set.
    """
    del device_id
    _check(cuda_stream)


@with_call_site
def set_current_stream(cuda_stream: Any, /) -> None:
    """Accept None.

    Raises:
        ContextError: Another stream is set.
    """
    _check(cuda_stream)


def _check(requested: Any) -> None:
    if requested is not None:
        raise _no_stream(requested)


def _no_stream(requested: Any) -> ContextError:
    text = "a new stream" if requested is Stream.create_new else str(requested)
    return ContextError("dynamic mode computes on the host, without CUDA streams", given=text, fix="leave streams out")
