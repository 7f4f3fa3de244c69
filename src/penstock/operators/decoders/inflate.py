"""decoders.inflate: decompression of arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec, optional_import
from penstock.errors import DefinitionError, short_repr
from penstock.graph import DataNode, DType, Operator, Range, SampleContext, SampleKernel, apply, check_layout, operator
from penstock.operators.decoders.encoded_bytes import EncodedBytes
from penstock.types import UINT8, as_dtype


@dataclass(frozen=True)
class Inflate(Operator, SampleKernel):
    """Decompression of an LZ4 block to an array of known shape.

    Args:
        shape: Shape of the array.
        dtype: Its element type.
        layout: Its layout, or "".
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str

    def infer(self, data: Spec) -> Spec:
        """Return the spec from the arguments: compressed data does not carry one."""
        return Spec(self.dtype, self.shape, self.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Decompress one block."""
        block = optional_import.import_extra("lz4.block", "lz4", "LZ4 decompression")
        size = math.prod(self.shape) * self.dtype.itemsize
        # A raw LZ4 block does not store its size: the decoder needs it as a limit, and may return fewer bytes.
        content: bytes = block.decompress(data.tobytes(), uncompressed_size=size)
        if len(content) != size:
            raise ValueError(f"{len(content)} bytes were compressed, not {size}")
        return np.frombuffer(content, self.dtype).reshape(self.shape)


@operator("decoders.inflate")
def inflate(
    data: EncodedBytes,
    *,
    shape: Annotated[int, Range(0)] | Sequence[Annotated[int, Range(0)]],
    dtype: DType = UINT8,
    algorithm: str = "LZ4",
    layout: str = "",
) -> DataNode:
    """Decompress arrays on the host. DALI has this operator for the GPU only. Requires the extra `lz4`.

    Args:
        data: Compressed bytes of each array, uint8 of shape (n,): one raw LZ4 block.
        shape: Shape of the arrays.
        dtype: Element type of the arrays.
        algorithm: Compression algorithm; only "LZ4".
        layout: Layout of the arrays, a letter per axis, or "".

    Returns:
        The arrays.

    Raises:
        DefinitionError: The algorithm is not supported.
        MissingExtraError: The package lz4 is not installed.
        SampleError: While running, bytes that are not an LZ4 block, or that decompress to another size.

    Example:
        >>> import lz4.block, numpy as np, penstock
        >>> from penstock import fn
        >>> block = lz4.block.compress(np.arange(4, dtype=np.uint8), store_size=False)
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     block = fn.constant(np.frombuffer(block, np.uint8))
        ...     pipeline.set_outputs(fn.decoders.inflate(block, shape=[2, 2]))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0, 1], [2, 3]]]
    """
    if algorithm.upper() != "LZ4":
        raise DefinitionError("unknown algorithm", given=short_repr(algorithm), expected='"LZ4"')
    optional_import.import_extra("lz4.block", "lz4", "LZ4 decompression")
    # A single number is the length of a vector, as in DALI.
    sizes = tuple(np.atleast_1d(np.asarray(shape)).tolist())
    element = as_dtype(dtype)
    checked = check_layout(layout, Spec(element, sizes), len(sizes))
    return apply(Inflate(sizes, element, checked), data)
