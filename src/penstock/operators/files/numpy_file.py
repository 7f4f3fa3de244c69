"""decoders.numpy: arrays from the bytes of .npy files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.operator import Common, Operator, SampleContext, SampleKernel
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode, apply
from penstock.operators.convert import convert
from penstock.types import as_dtype


@dataclass(frozen=True)
class DecodeNumpy(Operator, SampleKernel):
    """An array from a .npy file.

    Args:
        dtype: to which it is converted.
        ndim: how many axes it has.
    """

    reads_content: ClassVar[bool] = True
    dtype: np.dtype[Any]
    ndim: int

    def infer(self, file: Spec) -> Spec:
        """Any shape of that rank."""
        if file.dtype != np.uint8 or len(file.shape) != 1:
            raise DefinitionError("fn.decoders.numpy takes the bytes of .npy files", given=file, expected="uint8[n]")
        return Spec(self.dtype, (None,) * self.ndim)

    def sample(self, context: SampleContext, file: Array) -> Array:
        """The array."""
        array = np.lib.format.read_array(io.BytesIO(file.tobytes()), allow_pickle=False)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"a .npy file holds {array.dtype}, not numbers")
        return np.ascontiguousarray(convert(np, array, self.dtype))


@operator("decoders.numpy")
def numpy(data: DataNode, *, dtype: Any, ndim: int, **common: Unpack[Common]) -> DataNode:
    """Decode .npy files.

    Type and rank are known before there is data: unlike in DALI, both are arguments that must be given.

    Args:
        data: the bytes of each file.
        dtype: element type to which arrays are converted, as `fn.cast` does.
        ndim: the number of axes of the arrays.
        **common: what every operator takes.

    Returns:
        The arrays, in `dtype`.

    Raises:
        DefinitionError: the input is no vector of bytes.
        SampleError: what is no .npy file, holds objects, or has another rank.

    Example:
        >>> import io
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> file = io.BytesIO()
        >>> np.save(file, [1.5, 2.5])
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     bytes_ = fn.constant(np.frombuffer(file.getvalue(), np.uint8))
        ...     pipeline.set_outputs(fn.decoders.numpy(bytes_, dtype=types.FLOAT, ndim=1))
        >>> pipeline.run()[0].at(0).tolist()
        [1.5, 2.5]
    """
    return apply(DecodeNumpy(as_dtype(dtype), int(ndim)), data, common=common)
