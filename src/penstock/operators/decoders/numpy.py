"""decoders.numpy: arrays from the bytes of .npy files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode, as_value
from penstock.numerics.casting import cast_saturating
from penstock.operators.argument_limits import Rank
from penstock.operators.first_sample import first_sample
from penstock.sources.formats.npy.npy_source import parse_npy
from penstock.types import as_dtype

_SAY = "dtype= and ndim="


@dataclass(frozen=True)
class DecodeNumpy(Operator, SampleKernel):
    """An array from a .npy file.

    Args:
        dtype: its element type.
        ndim: how many axes it has.
        converts: whether arrays of other types are converted to it; else they are refused.
    """

    reads_content: ClassVar[bool] = True
    dtype: np.dtype[Any]
    ndim: int
    converts: bool

    def infer(self, file: Spec) -> Spec:
        """Any shape of that rank."""
        _check(file)
        return Spec(self.dtype, (None,) * self.ndim)

    def sample(self, context: SampleContext, file: Array) -> Array:
        """The array."""
        array = _parse(file)
        if array.dtype != self.dtype and not self.converts:
            raise ValueError(f"a .npy file holds {array.dtype}, the first one {self.dtype}: dtype= converts all")
        if array.ndim != self.ndim:
            raise ValueError(f"a .npy file holds an array of {array.ndim} axes, not {self.ndim}")
        return np.asarray(cast_saturating(np, array, self.dtype), order="C")


def _parse(file: Array) -> Array:
    """The array in a file, in the machine's byte order.

    Raises:
        ValueError: there is none, or not one of numbers.
    """
    return parse_npy(file).copy()  # before memory is taken, it compares the header with the bytes that are there


@operator("decoders.numpy")
def numpy(data: DataNode, *, dtype: Any = None, ndim: Rank | None = None) -> DataNode:
    """Decode .npy files.

    Type and rank are known before the pipeline runs. Where they are not given, the first sample tells them: of a
    reader, an external source, or what operators without arguments make of these, such as `fn.io.file.read`.

    Args:
        data: the bytes of each file.
        dtype: element type to which arrays are converted, as `fn.cast` does. None: they have that of the first one.
        ndim: the number of axes of the arrays; None: as many as the first one has.

    Returns:
        The arrays, in `dtype`.

    Raises:
        DefinitionError: the input is no vector of bytes; the first sample is asked for, and cannot be known.
        SampleError: bytes that are no .npy file, or one that holds objects, or has another rank or type.

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
    given = None if dtype is None else as_dtype(dtype)
    if given is None or ndim is None:
        value = as_value(data)
        _check(value.spec)
        first = first_sample(value, _SAY)
        try:
            array = _parse(first)
        except ValueError as error:
            raise DefinitionError(
                "fn.decoders.numpy: the first sample is no .npy file", given=error, fix=_SAY
            ) from None
        ndim = array.ndim if ndim is None else ndim
        return apply(DecodeNumpy(given or array.dtype, int(ndim), given is not None), data)
    return apply(DecodeNumpy(given, int(ndim), converts=True), data)


def _check(file: Spec) -> None:
    if file.dtype != np.uint8 or len(file.shape) != 1:
        raise DefinitionError("fn.decoders.numpy takes the bytes of .npy files", given=file, expected="uint8[n]")
