"""Mathematical functions of values, element by element, as DALI's module `math` has them.

They take nodes and constants, and broadcast as arithmetic does. `abs`, `min`, `max`, `pow` and `clamp` keep integers;
the others give float32 for integers, and for floats their own type.

>>> import numpy as np, penstock
>>> from penstock import fn, math
>>> pipeline = penstock.Pipeline(batch_size=3)
>>> with pipeline:
...     numbers = fn.readers.arrays(np.float32([-4.0, 1.0, 9.0]))
...     pipeline.set_outputs(math.sqrt(math.abs(numbers)), math.clamp(numbers, 0, 5), math.max(numbers, 2.5))
>>> [output.as_array().tolist() for output in pipeline.run()]
[[2.0, 1.0, 3.0], [0.0, 1.0, 5.0], [2.5, 2.5, 9.0]]
"""

from __future__ import annotations

from typing import Any

from penstock.graph.tracing.registry import lookup
from penstock.graph.tracing.trace import DataNode
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
    """Absolute value of every element, in its own type."""
    return lookup("arithmetic.abs")(input)


def sqrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Square root of every element."""
    return lookup("math.sqrt")(input)


def rsqrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """One over the square root of every element; infinity at 0."""
    return lookup("math.rsqrt")(input)


def cbrt(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Cube root of every element."""
    return lookup("math.cbrt")(input)


def exp(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """The exponential function of every element."""
    return lookup("math.exp")(input)


def log(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Natural logarithm of every element."""
    return lookup("math.log")(input)


def log2(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Logarithm to base 2 of every element."""
    return lookup("math.log2")(input)


def log10(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Logarithm to base 10 of every element."""
    return lookup("math.log10")(input)


def fabs(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Absolute value of every element, as a float."""
    return lookup("math.fabs")(input)


def floor(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Every element rounded down, as a float."""
    return lookup("math.floor")(input)


def ceil(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Every element rounded up, as a float."""
    return lookup("math.ceil")(input)


def sin(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Sine of every element, an angle in radians."""
    return lookup("math.sin")(input)


def cos(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Cosine of every element, an angle in radians."""
    return lookup("math.cos")(input)


def tan(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Tangent of every element, an angle in radians."""
    return lookup("math.tan")(input)


def asin(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse sine of every element, in radians."""
    return lookup("math.asin")(input)


def acos(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse cosine of every element, in radians."""
    return lookup("math.acos")(input)


def atan(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse tangent of every element, in radians."""
    return lookup("math.atan")(input)


def sinh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Hyperbolic sine of every element."""
    return lookup("math.sinh")(input)


def cosh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Hyperbolic cosine of every element."""
    return lookup("math.cosh")(input)


def tanh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Hyperbolic tangent of every element."""
    return lookup("math.tanh")(input)


def asinh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse hyperbolic sine of every element."""
    return lookup("math.asinh")(input)


def acosh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse hyperbolic cosine of every element."""
    return lookup("math.acosh")(input)


def atanh(input: Any) -> DataNode:  # noqa: A002  # DALI's name
    """Inverse hyperbolic tangent of every element."""
    return lookup("math.atanh")(input)


def min(left: Any, right: Any) -> DataNode:  # noqa: A001  # DALI's name
    """The lesser of two values, in their combined type."""
    return lookup("arithmetic.min")(left, right)


def max(left: Any, right: Any) -> DataNode:  # noqa: A001  # DALI's name
    """The greater of two values, in their combined type."""
    return lookup("arithmetic.max")(left, right)


def pow(base: Any, exponent: Any) -> DataNode:  # noqa: A001  # DALI's name
    """A power, in the combined type: of integers an integer."""
    return lookup("arithmetic.pow")(base, exponent)


def fpow(base: Any, exponent: Any) -> DataNode:
    """A power, in floats."""
    return lookup("arithmetic.fpow")(base, exponent)


def atan2(x: Any, y: Any) -> DataNode:
    """Inverse tangent of ``x / y``, in radians, in the quadrant of the point at ordinate `x` and abscissa `y`."""
    return lookup("arithmetic.atan2")(x, y)


def clamp(value: Any, lo: Any, hi: Any) -> DataNode:
    """The nearest value from `lo` to `hi`, in the combined type of all three."""
    return lookup("math.clamp")(value, lo, hi)
