"""Element-wise mathematical functions, as in DALI's module `math`.

They take nodes and constants, and broadcast like arithmetic. `abs`, `min`, `max`, `pow` and `clamp` keep integers;
the others return float32 for integers, and the input's dtype for floats.

>>> import numpy as np, penstock
>>> from penstock import fn, math
>>> pipeline = penstock.Pipeline(batch_size=3)
>>> with pipeline:
...     numbers = fn.readers.arrays(np.float32([-4.0, 1.0, 9.0]))
...     pipeline.set_outputs(math.sqrt(math.abs(numbers)), math.clamp(numbers, 0, 5), math.max(numbers, 2.5))
>>> [output.as_array().tolist() for output in pipeline.run()]
[[2.0, 1.0, 3.0], [0.0, 1.0, 5.0], [2.5, 2.5, 9.0]]
"""

from typing import Any

from penstock.eager import Batch as _Batch  # noqa: F401  # it makes them compute on data at once
from penstock.graph import DataNode, lookup
from penstock.operators.elementwise import math_functions as _functions  # noqa: F401  # it registers them

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "exp",
    "fabs",
    "floor",
    "fpow",
    "log",
    "log2",
    "log10",
    "max",
    "min",
    "pow",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def abs(input: Any) -> DataNode:  # noqa: A001, A002  # DALI's names
    """Return the absolute value, in the input's dtype."""
    return lookup("arithmetic.abs")(input)


def sqrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the square root of each element."""
    return lookup("math.sqrt")(input)


def rsqrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the reciprocal of the square root; infinity at 0."""
    return lookup("math.rsqrt")(input)


def cbrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the cube root of each element."""
    return lookup("math.cbrt")(input)


def exp(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the exponential of each element."""
    return lookup("math.exp")(input)


def log(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the natural logarithm of each element."""
    return lookup("math.log")(input)


def log2(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the logarithm to base 2 of each element."""
    return lookup("math.log2")(input)


def log10(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the logarithm to base 10 of each element."""
    return lookup("math.log10")(input)


def fabs(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the absolute value of each element, as a float."""
    return lookup("math.fabs")(input)


def floor(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Round each element down, to a float."""
    return lookup("math.floor")(input)


def ceil(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Round each element up, to a float."""
    return lookup("math.ceil")(input)


def sin(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the sine of each element, an angle in radians."""
    return lookup("math.sin")(input)


def cos(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the cosine of each element, an angle in radians."""
    return lookup("math.cos")(input)


def tan(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the tangent of each element, an angle in radians."""
    return lookup("math.tan")(input)


def asin(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse sine of each element, in radians."""
    return lookup("math.asin")(input)


def acos(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse cosine of each element, in radians."""
    return lookup("math.acos")(input)


def atan(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse tangent of each element, in radians."""
    return lookup("math.atan")(input)


def sinh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the hyperbolic sine of each element."""
    return lookup("math.sinh")(input)


def cosh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the hyperbolic cosine of each element."""
    return lookup("math.cosh")(input)


def tanh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the hyperbolic tangent of each element."""
    return lookup("math.tanh")(input)


def asinh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse hyperbolic sine of each element."""
    return lookup("math.asinh")(input)


def acosh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse hyperbolic cosine of each element."""
    return lookup("math.acosh")(input)


def atanh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Return the inverse hyperbolic tangent of each element."""
    return lookup("math.atanh")(input)


def min(left: Any, right: Any) -> DataNode:  # noqa: A001  # DALI's name
    """Return the lesser of two values, in their promoted dtype."""
    return lookup("arithmetic.min")(left, right)


def max(left: Any, right: Any) -> DataNode:  # noqa: A001  # DALI's name
    """Return the greater of two values, in their promoted dtype."""
    return lookup("arithmetic.max")(left, right)


def pow(base: Any, exponent: Any) -> DataNode:  # noqa: A001  # DALI's name
    """Return a power, in the promoted dtype: an integer for integers, which is 0 if the exponent is negative."""
    return lookup("arithmetic.pow")(base, exponent)


def fpow(base: Any, exponent: Any) -> DataNode:
    """Return a power, as a float."""
    return lookup("arithmetic.fpow")(base, exponent)


def atan2(x: Any, y: Any) -> DataNode:
    """Return the inverse tangent of ``x / y``, in radians, in the quadrant of the point (`y`, `x`)."""
    return lookup("arithmetic.atan2")(x, y)


def clamp(value: Any, lo: Any, hi: Any) -> DataNode:
    """Limit a value to `lo` to `hi`, in the promoted dtype of all three."""
    return lookup("math.clamp")(value, lo, hi)
