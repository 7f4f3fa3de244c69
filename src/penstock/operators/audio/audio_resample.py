"""audio_resample: signals at another rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.operator import Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.numerics.casting import cast_saturating, result_dtype
from penstock.operators.audio.signal_checks import check_signal
from penstock.operators.audio.sinc_resampling import resample, resampled_length

_POSITIVE = Argument(np.float64, low=1e-9)


@dataclass(frozen=True)
class AudioResample(Operator, SampleKernel):
    """A signal at another rate.

    Args:
        quality: of the sinc.
        dtype: of the result.
    """

    quality: float
    dtype: np.dtype[Any]
    schema: ClassVar[Mapping[str, Argument]] = {
        "in_rate": _POSITIVE,
        "out_rate": _POSITIVE,
        "scale": _POSITIVE,
        "out_length": Argument(np.int64, low=0),
    }

    def infer(self, data: Spec, **arguments: Any) -> Spec:
        """As many elements as the rate asks for."""
        check_signal("audio_resample", data)
        if len(data.shape) > 2:
            raise DefinitionError("fn.audio_resample takes one axis, or one and channels", given=data)
        extents = list(data.shape)
        varies = extents[0] is None or any(isinstance(argument, Spec) for argument in arguments.values())
        length = None if varies else _target(extents[0] or 0, arguments)[1]
        return Spec(self.dtype, (length, *extents[1:]), data.layout)

    def sample(self, context: SampleContext, data: Array, **arguments: Any) -> Array:
        """The resampled signal."""
        scale, length = _target(len(data), arguments)
        values = normalised(data, signed=self.dtype.kind != "u")
        return denormalised(resample(values, 1 / scale, length, self.quality), self.dtype)


def _target(length: int, arguments: Mapping[str, Any]) -> tuple[float, int]:
    """The scale, and the length of the result."""
    given = {name: np.asarray(value).reshape(()).item() for name, value in arguments.items()}
    if "out_length" in given:
        scale = given["out_length"] / max(length, 1)
        return scale or 1.0, int(given["out_length"])
    scale = given["scale"] if "scale" in given else given["out_rate"] / given["in_rate"]
    return scale, resampled_length(length, scale)


def normalised(data: Array, *, signed: bool) -> Array:
    """Numbers as parts of the largest, float32: integers of the whole range become -1 to 1, or 0 to 1.

    Args:
        data: integers, or floats from -1 to 1.
        signed: whether the result is from -1 to 1.
    """
    values = data.astype(np.float32)
    if data.dtype.kind in "iu":
        values *= np.float32((2 if data.dtype.kind == "u" and signed else 1) / np.iinfo(data.dtype).max)
    if data.dtype.kind == "u":
        return values - np.float32(1) if signed else values
    return values if signed else (values + np.float32(1)) * np.float32(0.5)


def denormalised(data: Array, dtype: np.dtype[Any]) -> Array:
    """Float32 as integers of which the largest stands for 1. DALI also computes in float32."""
    if dtype.kind == "f":
        return data.astype(dtype)
    return cast_saturating(np, data * np.float32(np.iinfo(dtype).max), dtype)


@operator("audio_resample")
def audio_resample(
    data: DataNode,
    *,
    in_rate: float | DataNode | None = None,
    out_rate: float | DataNode | None = None,
    scale: float | DataNode | None = None,
    out_length: int | DataNode | None = None,
    quality: float = 50.0,
    dtype: Any = None,
) -> DataNode:
    """Give signals another sampling rate. The rate is given in one of three ways.

    Args:
        data: signals of one axis, or of elements and channels.
        in_rate: the rate of `data`, with `out_rate`; nodes give each sample its own.
        out_rate: the rate of the result.
        scale: the rate of the result over that of `data`, instead.
        out_length: the number of elements of the result, instead.
        quality: from 0 to 100: 0 takes 3 lobes of a windowed sinc, 50 takes 16, 100 takes 64.
        dtype: element type; None keeps that of `data`. The largest integer stands for 1. Between an unsigned type and
            another, 0 of the unsigned type stands for -1, and the middle of its range for 0.

    Returns:
        The signals at the new rate, in `dtype`.

    Raises:
        DefinitionError: none or several of the three ways, more than two axes, a quality that is out of range.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     signal = fn.readers.arrays(np.zeros((1, 100), np.float32))
        ...     pipeline.set_outputs(fn.audio_resample(signal, in_rate=16000, out_rate=8000))
        >>> pipeline.run()[0].as_array().shape
        (1, 50)
    """
    rates = (in_rate is not None) + (out_rate is not None)
    if rates == 1 or (rates == 2) + (scale is not None) + (out_length is not None) != 1:
        raise DefinitionError(
            "fn.audio_resample: the rate is given in one way",
            given=f"in_rate={in_rate}, out_rate={out_rate}, scale={scale}, out_length={out_length}",
            fix="in_rate and out_rate, or scale, or out_length",
        )
    if not 0 <= quality <= 100:
        raise DefinitionError("fn.audio_resample: quality lies between 0 and 100", given=quality)
    given = {"in_rate": in_rate, "out_rate": out_rate, "scale": scale, "out_length": out_length}
    arguments: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    kernel = AudioResample(float(quality), result_dtype(data.dtype, dtype))
    return apply(kernel, data, **arguments)
