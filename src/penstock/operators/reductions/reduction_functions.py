"""Public reductions: min, max, sum, mean, mean_square, rms, std_dev, variance."""

from typing import Unpack

import numpy as np

from penstock.graph import DataNode, DType, operator
from penstock.numerics.casting import result_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16
from penstock.operators.reductions.reduction_operator import Numbers, ReductionArguments, reduce
from penstock.types import FLOAT


@operator("reductions.min")
def min(data: Numbers, **arguments: Unpack[ReductionArguments]) -> DataNode:  # noqa: A001  # DALI's name
    """Take the least element along axes.

    NaNs are ignored, as in DALI. If no other elements exist, the result is inf, or the greatest integer of the dtype.

    Args:
        data: Numbers, any shape.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them. Same dtype as `data`.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 4], [3, 2]]]))
        ...     pipeline.set_outputs(fn.reductions.min(numbers), fn.reductions.min(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[1.0], [[1.0, 2.0]]]
    """
    return reduce(data, arguments=arguments, dtype=data.dtype)


@operator("reductions.max")
def max(data: Numbers, **arguments: Unpack[ReductionArguments]) -> DataNode:  # noqa: A001  # DALI's name
    """Take the greatest element along axes.

    NaNs are ignored, as in DALI. If no other elements exist, the result is -inf, or the least integer of the dtype.

    Args:
        data: Numbers, any shape.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them. Same dtype as `data`.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 4], [3, 2]]]))
        ...     pipeline.set_outputs(fn.reductions.max(numbers), fn.reductions.max(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[4.0], [[3.0, 4.0]]]
    """
    return reduce(data, arguments=arguments, dtype=data.dtype)


@operator("reductions.sum")
@rounds_to_bfloat16
def sum(data: Numbers, *, dtype: DType = None, **arguments: Unpack[ReductionArguments]) -> DataNode:  # noqa: A001  # DALI's name
    """Add up the elements along axes.

    Floats are added in a fixed order, so the bits of the result do not depend on the batch size or number of devices.

    Args:
        data: Numbers, any shape.
        dtype: Element type of the result; None is int64 or uint64 for integers, and the type of `data` for floats.
            Values out of range saturate.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.sum(numbers), fn.reductions.sum(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[10.0], [[4.0, 6.0]]]
    """
    kind = data.dtype.kind
    default = np.dtype(f"{kind}8") if kind in "iu" else data.dtype
    return reduce(data, arguments=arguments, dtype=result_dtype(default, dtype))


@operator("reductions.mean")
@rounds_to_bfloat16
def mean(data: Numbers, *, dtype: DType = None, **arguments: Unpack[ReductionArguments]) -> DataNode:
    """Average the elements along axes.

    Computed in float32, or in float64 for 64-bit inputs, in a fixed order: the bits of the result do not depend on the
    batch size or number of devices.

    Args:
        data: Numbers, any shape.
        dtype: Element type of the result; None is float32. Integers are rounded and saturate.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.mean(numbers), fn.reductions.mean(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[2.5], [[2.0, 3.0]]]
    """
    return reduce(data, arguments=arguments, dtype=result_dtype(FLOAT.numpy, dtype))


@operator("reductions.mean_square")
@rounds_to_bfloat16
def mean_square(data: Numbers, *, dtype: DType = None, **arguments: Unpack[ReductionArguments]) -> DataNode:
    """Average the squares of the elements along axes.

    Computed in float32, or in float64 for 64-bit inputs, in a fixed order: the bits of the result do not depend on the
    batch size or number of devices.

    Args:
        data: Numbers, any shape.
        dtype: Element type of the result; None is float32. Integers are rounded and saturate.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 2], [3, 4]]]))
        ...     pipeline.set_outputs(fn.reductions.mean_square(numbers), fn.reductions.mean_square(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[7.5], [[5.0, 10.0]]]
    """
    return reduce(data, arguments=arguments, dtype=result_dtype(FLOAT.numpy, dtype))


@operator("reductions.rms")
@rounds_to_bfloat16
def rms(data: Numbers, *, dtype: DType = None, **arguments: Unpack[ReductionArguments]) -> DataNode:
    """Take the root mean square of the elements along axes.

    Computed in float32, or in float64 for 64-bit inputs, in a fixed order: the bits of the result do not depend on the
    batch size or number of devices.

    Args:
        data: Numbers, any shape.
        dtype: Element type of the result; None is float32. Integers are rounded and saturate.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the input is boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[[1, 7], [7, 1]]]))
        ...     pipeline.set_outputs(fn.reductions.rms(numbers), fn.reductions.rms(numbers, axes=0))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[5.0], [[5.0, 5.0]]]
    """
    return reduce(data, arguments=arguments, dtype=result_dtype(FLOAT.numpy, dtype))


@operator("reductions.std_dev")
def std_dev(data: Numbers, mean: Numbers, *, ddof: int = 0, **arguments: Unpack[ReductionArguments]) -> DataNode:
    """Take the standard deviation of the elements from a mean, along axes.

    Args:
        data: Numbers, any shape.
        mean: Result of `fn.reductions.mean` along the same axes, or one number.
        ddof: Number to subtract from the number of elements; 1 gives Bessel's correction.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them. float32.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the shape of `mean` does not match; the input is
            boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[1, 3, 5, 7]]))
        ...     mean = fn.reductions.mean(numbers)
        ...     pipeline.set_outputs(mean, fn.reductions.std_dev(numbers, mean))
        >>> [output.as_array().round(2).tolist() for output in pipeline.run()]
        [[4.0], [2.240000009536743]]
    """
    return reduce(data, mean, arguments=arguments, dtype=FLOAT.numpy, ddof=ddof)


@operator("reductions.variance")
def variance(data: Numbers, mean: Numbers, *, ddof: int = 0, **arguments: Unpack[ReductionArguments]) -> DataNode:
    """Take the variance of the elements about a mean, along axes.

    Args:
        data: Numbers, any shape.
        mean: Result of `fn.reductions.mean` along the same axes, or one number.
        ddof: Number to subtract from the number of elements; 1 gives Bessel's correction.
        **arguments: See `ReductionArguments`.

    Returns:
        Without the reduced axes, or with extent 1 for them. float32.

    Raises:
        DefinitionError: An axis does not exist or occurs twice; the shape of `mean` does not match; the input is
            boolean.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([[1, 3, 5, 7]]))
        ...     pipeline.set_outputs(fn.reductions.variance(numbers, 4.0))
        >>> pipeline.run()[0].as_array().tolist()
        [5.0]
    """
    return reduce(data, mean, arguments=arguments, dtype=FLOAT.numpy, ddof=ddof)
