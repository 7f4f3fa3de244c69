"""Devices of dynamic mode: names that programs for DALI pass, which are hints."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.core import with_call_site
from penstock.errors import ArgumentTypeError, UsageError, short_repr

_KINDS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu"}


@dataclass(frozen=True, init=False)
class Device:
    """Name of a device. It is a hint: calls compute on the host, and all tensors are there.

    A device is a context manager, which nests and belongs to the thread.

    Args:
        name: "cpu" or "gpu", optionally with a number: "gpu:1". "cuda" is the same as "gpu".
        device_id: The number, if the name has none. By default 0, or None for the CPU.

    Raises:
        UsageError: The name is unknown, the number negative or set twice, or the CPU has a number.

    >>> str(Device("cuda:1")), Device("cpu") == Device.CPU, Device.CPU == "cpu"
    ('gpu:1', True, False)
    """

    device_type: str
    device_id: int | None

    CPU: ClassVar[Device]

    @with_call_site
    def __init__(self, name: str, device_id: int | None = None) -> None:
        word, colon, number = name.partition(":")
        kind = _KINDS.get(word)
        if kind is None or (colon and not number.isdecimal()):
            raise UsageError("unknown device", given=short_repr(name), expected="'cpu', 'gpu' or 'gpu:0'")
        if colon and device_id is not None:
            raise UsageError("the number of the device is set twice", given=f"{name!r} and {device_id}")
        chosen = int(number) if colon else device_id
        if chosen is not None and (kind == "cpu" or chosen < 0):
            raise UsageError("no such device", given=f"{name!r}, number {chosen}", expected="a GPU's number, from 0")
        object.__setattr__(self, "device_type", kind)
        object.__setattr__(self, "device_id", chosen if kind == "cpu" else chosen or 0)

    @staticmethod
    def current() -> Device:
        """Return the device of the innermost `with` statement of this thread; the CPU without one."""
        return _entered()[-1] if _entered() else Device.CPU

    def __enter__(self) -> None:
        _entered().append(self)

    def __exit__(self, *_error: object) -> None:
        _entered().pop()

    def __str__(self) -> str:
        return self.device_type if self.device_id is None else f"{self.device_type}:{self.device_id}"


Device.CPU = Device("cpu")

_thread = threading.local()


def _entered() -> list[Device]:
    if not hasattr(_thread, "devices"):
        _thread.devices = []
    return _thread.devices


@with_call_site
def device(obj: Any, id: int | None = None) -> Device | None:  # noqa: A002  # DALI's name
    """Return the device for a name, a `Device` or a `torch.device`. None stays None.

    Raises:
        ArgumentTypeError: It is of another type.
        UsageError: The name is unknown, or the number is set twice.

    >>> device("gpu", 1)
    Device(device_type='gpu', device_id=1)
    """
    if obj is None:
        return None
    if isinstance(obj, str):
        return Device(obj, id)
    if not isinstance(obj, Device):
        # A torch.device is known by its attributes, so that PyTorch need not be imported.
        kind, number = getattr(obj, "type", None), getattr(obj, "index", None)
        if not isinstance(kind, str) or type(obj).__module__ != "torch":
            raise ArgumentTypeError("not a device", given=short_repr(obj), expected="a name such as 'cpu', or a Device")
        obj = Device(kind, None if kind == "cpu" else number)
    if id is not None:
        raise UsageError("the number of the device is set twice", given=f"{obj} and {id}", fix="leave id out")
    return obj
