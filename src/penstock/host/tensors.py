"""What `Pipeline.run` returns: the samples of one output, dense or not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.advice import Trouble, advice


class TensorList:
    """A batch of one output: a list of arrays, one per sample, that need not have the same shape.

    Args:
        samples: an array with a leading axis of samples, or a list of arrays.
        spec: what the plan says of a sample.

    >>> batch = TensorList(np.zeros((2, 3), np.uint8), Spec(np.dtype("uint8"), (3,)))
    >>> len(batch), batch.shape(), batch.as_array().shape
    (2, [(3,), (3,)], (2, 3))
    """

    def __init__(self, samples: Any, spec: Spec) -> None:
        self._samples = samples
        self._listed = isinstance(samples, list)
        self._spec = spec

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        return self._samples[index]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def at(self, index: int) -> Any:
        """Sample number `index`."""
        return self[index]

    def shape(self) -> list[tuple[int, ...]]:
        """The shape of each sample."""
        return [np.shape(sample) for sample in self]

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
