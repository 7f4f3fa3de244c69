"""audio_resample: conversion of signals to another sampling rate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, DType, Input, Operator, SampleContext, SampleKernel, apply, operator
from penstock.numerics.casting import cast_saturating, result_dtype
from penstock.operators.argument_limits import Quality
from penstock.operators.audio.sinc_resampling import resample, resampled_length
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16

Rate = Annotated[float | DataNode | None, Argument(np.float64, low=1e-9)]


@dataclass(frozen=True)
class AudioResample(Operator, SampleKernel):
    """Conversion of a signal to another sampling rate.

    Args:
        quality: Quality of the sinc filter, from 0 to 100.
        dtype: Element type of the result.
    """

    quality: float
    dtype: np.dtype[Any]

    def infer(self, data: Spec, **arguments: Any) -> Spec:
        """Return the spec with the new length, which is unknown if arguments differ per sample."""
        extents = list(data.shape)
        varies = extents[0] is None or any(isinstance(argument, Spec) for argument in arguments.values())
        length = None if varies else _scale_and_length(extents[0] or 0, arguments)[1]
        return Spec(self.dtype, (length, *extents[1:]), data.layout)

    def sample(self, context: SampleContext, data: Array, **arguments: Any) -> Array:
        """Resample one signal."""
        scale, length = _scale_and_length(len(data), arguments)
        values = normalize_samples(data, signed=self.dtype.kind != "u")
        return denormalize_samples(resample(values, 1 / scale, length, self.quality), self.dtype)


def _scale_and_length(length: int, arguments: Mapping[str, Any]) -> tuple[float, int]:
    """Return the rate of the result over that of the input, and the length of the result."""
    numbers = {name: np.asarray(value).reshape(()).item() for name, value in arguments.items()}
    if "out_length" in numbers:
        scale = numbers["out_length"] / max(length, 1)
        # An empty result has scale 0, which the caller divides by.
        return scale or 1.0, int(numbers["out_length"])
    # DALI's arguments are float32, constants too, and its quotient is float64: 0.1 makes 201 samples of 2000.
    rates = {name: float(np.float32(number)) for name, number in numbers.items()}
    scale = rates["scale"] if "scale" in rates else rates["out_rate"] / rates["in_rate"]
    return scale, resampled_length(length, scale)


def normalize_samples(data: Array, *, signed: bool) -> Array:
    """Scale the range of the dtype to [-1, 1] or [0, 1], float32.

    Args:
        data: Integers, or floats from -1 to 1.
        signed: True for a result from -1 to 1.
    """
    # DALI converts between signed and unsigned dtypes the same way: the middle of an unsigned range is silence.
    values = data.astype(np.float32)
    if data.dtype.kind in "iu":
        values *= np.float32((2 if data.dtype.kind == "u" and signed else 1) / np.iinfo(data.dtype).max)
    if data.dtype.kind == "u":
        return values - np.float32(1) if signed else values
    return values if signed else (values + np.float32(1)) * np.float32(0.5)


def denormalize_samples(data: Array, dtype: np.dtype[Any]) -> Array:
    """Convert float32 to a dtype. For integers, 1 becomes the largest one."""
    if dtype.kind == "f":
        return data.astype(dtype)
    # DALI also scales in float32, where the largest int32 rounds up to 2**31.
    return cast_saturating(np, data * np.float32(np.iinfo(dtype).max), dtype)


@operator("audio_resample")
@rounds_to_bfloat16
def audio_resample(
    data: Annotated[DataNode, Input(("number",), ranks=(1, 2), needs="signals")],
    *,
    in_rate: Rate = None,
    out_rate: Rate = None,
    scale: Rate = None,
    out_length: Annotated[int | DataNode | None, Argument(np.int64, low=0)] = None,
    quality: Quality = 50.0,
    dtype: DType = None,
) -> DataNode:
    """Convert signals to another sampling rate.

    Set the rate in exactly one of three ways: `in_rate` and `out_rate`, `scale`, or `out_length`. The filter is that of
    DALI, a sinc under a Hann window.

    Args:
        data: Signals of shape (samples,) or (samples, channels).
        in_rate: Rate of `data` in Hz, or any other unit. A node sets it per signal.
        out_rate: Rate of the result, in the same unit. A node sets it per signal.
        scale: Rate of the result divided by that of `data`. A node sets it per signal.
        out_length: Number of samples of the result. A node sets it per signal.
        quality: From 0 to 100. The filter has 3 lobes for 0, 16 for 50, and 64 for 100.
        dtype: Element type; None keeps that of `data`. The largest integer represents 1. Between an unsigned and
            another type, 0 of the unsigned type represents -1, and the middle of its range 0.

    Returns:
        Signals at the new rate, of type `dtype`.

    Raises:
        DefinitionError: Not exactly one of the three ways is used, `data` has more than two axes, or `quality` is out
            of range.

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
            "set the rate in exactly one way",
            given=f"in_rate={in_rate}, out_rate={out_rate}, scale={scale}, out_length={out_length}",
            fix="in_rate and out_rate, or scale, or out_length",
        )
    rates_and_length = {"in_rate": in_rate, "out_rate": out_rate, "scale": scale, "out_length": out_length}
    arguments: dict[str, Any] = {name: value for name, value in rates_and_length.items() if value is not None}
    kernel = AudioResample(float(quality), result_dtype(data.dtype, dtype))
    return apply(kernel, data, **arguments)
