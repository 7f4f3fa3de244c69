"""Base of `Tensor` and `Batch`: what both have in common."""

from abc import ABC, abstractmethod
from typing import Any, Self

from penstock.core import with_call_site
from penstock.dynamic.device_name import Device
from penstock.dynamic.device_name import device as as_device


class Elementwise(ABC):
    """Base of `Tensor` and `Batch`: arithmetic and comparisons, sample by sample."""

    __slots__ = ()
    # `==` compares elements, so that a tensor cannot be a key.
    __hash__ = None  # type: ignore[assignment]  # Python's way to say so; `object` declares a method

    @property
    def device(self) -> Device:
        """Always the CPU: calls compute on the host."""
        return Device.CPU

    def evaluate(self) -> Self:
        """Return this object: it is computed already."""
        return self

    def cpu(self) -> Self:
        """Return this object: samples are in host memory."""
        return self

    def gpu(self, index: int | None = None) -> Self:
        """Return this object: a device is a hint, as in pipelines.

        Args:
            index: Number of the GPU, a hint as well.
        """
        del index
        return self

    @with_call_site
    def to_device(self, device: Any, force_copy: bool = False) -> Any:
        """Return this object, or a copy: a device is a hint.

        Args:
            device: A `Device` or its name.
            force_copy: True for a copy.

        Raises:
            UsageError: There is no such device.
        """
        as_device(device)
        return self._copied() if force_copy else self

    @abstractmethod
    def _copied(self) -> Self: ...

    def __pos__(self) -> Any:
        return self
