"""What `Pipeline.run` returns: the samples of one output, dense or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.advice import Trouble, advice


class Extents(tuple[int, ...]):
    """A shape as NumPy gives it, which can also be called for, as in DALI.

    >>> shape = Extents((2, 3))
    >>> shape, shape()
    ((2, 3), [2, 3])
    """

    __slots__ = ()

    def __call__(self) -> list[int]:
        """The shape as a list."""
        return list(self)


class Tensor(Array):
    """One sample of an output: a NumPy array that also has DALI's `shape()`, `layout()` and `as_cpu()`.

    >>> sample = tensor(np.zeros((2, 3), np.uint8), "HW")
    >>> sample.shape(), sample.shape, sample.layout(), int(sample.max())
    ([2, 3], (2, 3), 'HW', 0)
    """

    _layout = ""

    @property
    def shape(self) -> Extents:  # pyright: ignore[reportIncompatibleMethodOverride]  # a tuple, too
        """The extents of its axes: a tuple, and called, as in DALI, a list."""
        return Extents(super().shape)

    def layout(self) -> str:
        """The names of its axes, or "": what is computed from a sample has none."""
        return self._layout

    def as_cpu(self) -> Tensor:
        """The same: it is in host memory."""
        return self


class DeviceTensor:
    """One sample of an output that is on a device: what `Tensor` has of DALI's, and whatever else the array offers.

    Args:
        array: the sample, a `jax.Array`.
        layout: the names of its axes, or "".
    """

    def __init__(self, array: Any, layout: str) -> None:
        self._array = array
        self._layout = layout

    @property
    def shape(self) -> Extents:
        """The extents of its axes: a tuple, and called, as in DALI, a list."""
        return Extents(self._array.shape)

    def layout(self) -> str:
        """The names of its axes, or ""."""
        return self._layout

    def as_cpu(self) -> Tensor:
        """The same sample in host memory."""
        return tensor(np.asarray(self._array), self._layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._array, dtype, copy=copy)

    def __jax_array__(self) -> Any:
        return self._array

    def __getattr__(self, name: str) -> Any:
        if name == "_array":  # nothing to ask yet: the instance is being copied or unpickled
            raise AttributeError(name)
        return getattr(self._array, name)

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]

    def __len__(self) -> int:
        return len(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __repr__(self) -> str:
        return f"DeviceTensor({self._array!r}, layout={self._layout!r})"


def tensor(array: Any, layout: str) -> Tensor:
    """A host array as a sample, without a copy."""
    made = np.asarray(array).view(Tensor)
    made._layout = layout  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # a view has no constructor
    return made


class TensorList:
    """A batch of one output: samples that need not have the same shape.

    Indexing and iteration give a `Tensor` each, or a `DeviceTensor` where the batch is on a device.

    Args:
        samples: an array with a leading axis of samples, or a list of arrays.
        spec: what the plan says of a sample.

    >>> batch = TensorList(np.zeros((2, 3), np.uint8), Spec(np.dtype("uint8"), (3,)))
    >>> len(batch), batch.shape(), batch.as_array().shape
    (2, [(3,), (3,)], (2, 3))
    >>> batch[0].shape(), batch.at(0).shape
    ([3], (3,))
    """

    def __init__(self, samples: Any, spec: Spec) -> None:
        self._samples: Any = samples
        self._listed = isinstance(samples, list)
        self._spec = spec

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Tensor | DeviceTensor:
        sample = self._samples[index]
        on_host = self._listed or isinstance(sample, np.ndarray | np.generic)
        return (tensor if on_host else DeviceTensor)(sample, self._spec.layout)

    def __iter__(self) -> Iterator[Tensor | DeviceTensor]:
        return (self[index] for index in range(len(self)))

    def at(self, index: int) -> Any:
        """Sample number `index`, as the array that it is."""
        return self._samples[index]

    def shape(self) -> list[tuple[int, ...]]:
        """The shape of each sample."""
        if not self._listed:
            return [tuple(self._samples.shape[1:])] * len(self)
        return [sample.shape for sample in self._samples]

    @property
    def ndim(self) -> int:
        """The number of axes of a sample."""
        return len(self._spec.shape)

    def layout(self) -> str:
        """The names of a sample's axes, or ""."""
        return self._spec.layout

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self._spec.dtype

    def is_dense_tensor(self) -> bool:
        """Whether all samples have one shape."""
        return len(set(self.shape())) <= 1

    def as_cpu(self) -> TensorList:
        """The same batch in host memory."""
        return self if self._listed else TensorList(np.asarray(self._samples), self._spec)

    def as_array(self) -> Array:
        """One NumPy array with a leading axis of samples.

        Raises:
            DefinitionError: the samples differ in shape.
        """
        if not self.is_dense_tensor():
            raise DefinitionError(
                "the samples differ in shape, so they are no array",
                given=", ".join(map(str, dict.fromkeys(self.shape()))),
                fix=f"give them one shape ({advice(Trouble.RAGGED)}), or take them one by one with .at(i)",
            )
        return np.stack(self._samples) if self._listed else np.asarray(self._samples)

    def as_tensor(self) -> Any:
        """One array with a leading axis of samples, where the samples are: host or device."""
        return self.as_array() if self._listed else self._samples

    def __repr__(self) -> str:
        return f"TensorList({len(self)} x {self._spec})"
