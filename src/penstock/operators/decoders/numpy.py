"""decoders.numpy: decoding of .npy files."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import DataNode, DType, Operator, SampleContext, SampleKernel, apply, as_value, operator
from penstock.numerics.casting import cast_saturating
from penstock.operators.argument_limits import Rank
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.operators.first_sample import first_sample
from penstock.sources.formats.npy.npy_source import parse_npy
from penstock.types import as_dtype

_FIX = "dtype= and ndim="


@dataclass(frozen=True)
class DecodeNumpy(Operator, SampleKernel):
    """Decoding of a .npy file.

    Args:
        dtype: Element type of the array.
        ndim: Its number of axes.
        converts: True to convert arrays of other types to `dtype`; False to reject them.
    """

    reads_content: ClassVar[bool] = True
    dtype: np.dtype[Any]
    ndim: int
    converts: bool

    def infer(self, file: Spec) -> Spec:
        """Return the spec of an array of unknown shape and known rank."""
        return Spec(self.dtype, (None,) * self.ndim)

    def sample(self, context: SampleContext, file: Array) -> Array:
        """Decode one file."""
        # The parser checks the size in the header against the bytes, so that a damaged header cannot claim memory.
        array = parse_npy(file, whole=True).copy()
        if array.dtype != self.dtype and not self.converts:
            raise ValueError(f"a .npy file holds {array.dtype}, but the first one {self.dtype}: dtype= converts all")
        if array.ndim != self.ndim:
            raise ValueError(f"a .npy file holds an array of {array.ndim} axes, not {self.ndim}")
        # As in DALI, Fortran-ordered files become C-ordered arrays.
        return np.asarray(cast_saturating(np, array, self.dtype), order="C")


@operator("decoders.numpy")
def numpy(data: EncodedBytes, *, dtype: DType = None, ndim: Rank | None = None) -> DataNode:
    """Decode .npy files.

    The dtype and the rank must be known before the pipeline runs. Unless you give both, they are taken from the first
    sample, which must then come from a reader, an external source, or operators without node arguments on these,
    such as `fn.io.file.read`.

    Args:
        data: Bytes of each file, uint8 of shape (n,).
        dtype: Element type to convert the arrays to, as `fn.cast` does. None keeps that of the first array, and rejects
            others.
        ndim: Number of axes of the arrays; None for that of the first array.

    Returns:
        The arrays, without a layout.

    Raises:
        DefinitionError: The input is not a vector of bytes, or the first sample is needed and cannot be computed.
        SampleError: While running, bytes that are not a .npy file, bytes after the array, arrays of objects, or arrays
            of another rank or type.

    Example:
        >>> import io
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> file = io.BytesIO()
        >>> np.save(file, [1.5, 2.5])
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     bytes_ = fn.constant(np.frombuffer(file.getvalue(), np.uint8))
        ...     pipeline.set_outputs(fn.decoders.numpy(bytes_, dtype=types.FLOAT))
        >>> pipeline.run()[0].at(0).tolist()
        [1.5, 2.5]
    """
    element = None if dtype is None else as_dtype(dtype)
    # XLA needs dtype and rank before there are data. DALI decides both per batch, while it runs.
    if element is None or ndim is None:
        first = first_sample(as_value(data), _FIX)
        try:
            array = parse_npy(first)
        except ValueError as error:
            raise DefinitionError("the first sample is not a .npy file", given=error, fix=_FIX) from None
        element, ndim = element or array.dtype, array.ndim if ndim is None else ndim
    return apply(DecodeNumpy(element, ndim, dtype is not None), data)
