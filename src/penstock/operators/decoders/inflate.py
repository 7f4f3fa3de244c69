"""decoders.inflate: arrays from compressed bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import optional_import
from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import Range
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.layouts import check_layout
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.types import UINT8, as_dtype


@dataclass(frozen=True)
class Inflate(Operator, SampleKernel):
    """An array of a known shape from one LZ4 block.

    Args:
        shape: of the array.
        dtype: of its elements.
        layout: of the array.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    layout: str

    def infer(self, data: Spec) -> Spec:
        """What was asked for."""
        if data.dtype != np.uint8 or len(data.shape) != 1:
            raise DefinitionError("fn.decoders.inflate takes compressed bytes", given=data, expected="uint8[n]")
        return Spec(self.dtype, self.shape, self.layout)

    def sample(self, context: SampleContext, data: Array) -> Array:
        """The array."""
        block = optional_import.import_extra("lz4.block", "lz4", "fn.decoders.inflate")
        size = math.prod(self.shape) * self.dtype.itemsize
        plain: bytes = block.decompress(data.tobytes(), uncompressed_size=size)
        if len(plain) != size:
            raise ValueError(f"{len(plain)} bytes were compressed, not {size}")
        return np.frombuffer(plain, self.dtype).reshape(self.shape)


@operator("decoders.inflate")
def inflate(
    data: DataNode,
    *,
    shape: Annotated[int, Range(0)] | Sequence[Annotated[int, Range(0)]],
    dtype: Any = UINT8,
    algorithm: str = "LZ4",
    layout: str = "",
) -> DataNode:
    """Decompress arrays. Needs the extra `lz4`.

    Args:
        data: the compressed bytes of each array, one LZ4 block.
        shape: of the arrays.
        dtype: of their elements.
        algorithm: "LZ4".
        layout: a letter per axis, or "".

    Returns:
        The arrays.

    Raises:
        DefinitionError: an unknown algorithm.
        MissingExtraError: the package lz4 is not installed.
        SampleError: bytes that are no LZ4 block, or have another size when they are decompressed.

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
        raise DefinitionError("fn.decoders.inflate: no such algorithm", given=short_repr(algorithm), expected='"LZ4"')
    optional_import.import_extra("lz4.block", "lz4", "fn.decoders.inflate")
    sizes = tuple(np.atleast_1d(np.asarray(shape)).tolist())
    element = as_dtype(dtype)
    checked = check_layout(layout, Spec(element, sizes), len(sizes), "fn.decoders.inflate")
    return apply(Inflate(sizes, element, checked), data)
