"""Limits of arguments: numbers that memory or time grows with, and dtypes. Tracing rejects others."""

from typing import Annotated, Any

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph import Range
from penstock.types import as_dtype

# Sample rate in Hz. Sound cards end at 768,000; hydrophones and bat detectors also stay below the limit.
MAX_RATE = 10_000_000

# Elements of a resampled signal: six hours at 48 kHz.
MAX_SIGNAL = 1 << 30

# Number of axes. NumPy supports at most 64.
Rank = Annotated[int, Range(0, 64)]

# Elements of a window, a transform or a sequence.
Length = Annotated[int, Range(1, 1 << 24)]

# Rows of a filter bank, which is multiplied with every spectrum.
Bands = Annotated[int, Range(1, 1 << 16)]

# Quality of resampling, which determines the length of the filter.
Quality = Annotated[float, Range(0, 100)]

# Random draws per sample.
Attempts = Annotated[int, Range(high=100_000)]

# Dtypes whose values float32 represents exactly, for passes that compute in float32.
FLOAT32_EXACT = ("uint8", "float32", "bool", "int8", "int16", "uint16", "float16")

# Element types of sounds. In those of integers, the largest integer is full scale; in float32 it is 1.
SOUND_DTYPES = ("float32", "int16", "int32")


def supported_dtype(dtype: Any, names: tuple[str, ...]) -> np.dtype[Any]:
    """Return the dtype that the user set, one of those that an operator supports.

    Raises:
        DefinitionError: It is another one.
    """
    element = as_dtype(dtype)
    if element.name not in names:
        raise DefinitionError("dtype is not supported", given=element, expected=", ".join(names), fix="fn.cast(...)")
    return element
