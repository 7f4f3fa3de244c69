"""`fn.lookup_table`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from penstock.core import Spec
from penstock.errors import DefinitionError
from penstock.graph import Argument, BatchContext, BatchKernel, DataNode, DType, Input, Operator, apply, operator
from penstock.image.kernels.table_rows import look_up_bytes
from penstock.numerics.casting import cast_saturating, result_dtype
from penstock.operators.elementwise.bfloat16_results import rounds_to_bfloat16

# Largest key. DALI has the same limit.
_MAX_KEY = 0xFFFF


@dataclass(frozen=True)
class LookupTable(Operator, BatchKernel):
    """Dense table of the values from 0 to the largest key.

    Args:
        dtype: Dtype of the result.
    """

    dtype: np.dtype[Any]
    pixel_aligned: ClassVar[bool] = True

    def infer(self, numbers: Spec, **_arguments: Any) -> Spec:
        """Return the spec of the input with the dtype of the result."""
        return replace(numbers, dtype=self.dtype)

    def batch(self, context: BatchContext, numbers: Any, *, keys: Any, values: Any, default_value: Any) -> Any:
        """Look up each element; the last entry of the table is the default value."""
        xp, limits = context.xp, np.iinfo(numbers.dtype)
        # The table covers only keys that the dtype can hold. The arguments do not vary, so it is built while tracing.
        count = min(int(np.max(keys[0], initial=-1)), limits.max) + 1
        table = np.full(count + 1, default_value[0], np.float32)
        for key, value in zip(keys[0].tolist(), values[0].tolist(), strict=True):
            if key < count:
                table[key] = value
        entries = cast_saturating(np, table, self.dtype)
        if numbers.dtype == np.uint8 and xp is np:
            # 256 entries cover every byte, so the kernel needs no bounds check.
            entries = entries[np.minimum(np.arange(256), count)]
            out = context.out
            if out is None or not out.flags.c_contiguous:
                out = np.empty(numbers.shape, self.dtype)
            # The kernel moves bits without reading them: one compiled loop per item size instead of one per dtype.
            bits = f"u{self.dtype.itemsize}"
            look_up_bytes(np.ascontiguousarray(numbers).reshape(-1), entries.view(bits), out.view(bits).reshape(-1))
            return out
        outside = numbers < 0
        # If the table covers the whole dtype, `count` itself would overflow in the comparison.
        if count <= limits.max:
            outside = outside | (numbers >= xp.asarray(count, numbers.dtype))
        index = xp.where(outside, count, numbers.astype(np.int64 if xp is np else np.int32))
        return xp.asarray(entries)[index]


@operator("lookup_table")
@rounds_to_bfloat16
def lookup_table(
    data: Annotated[DataNode, Input(("integer",))],
    *,
    keys: Annotated[int | Sequence[int], Argument(np.int32, (None,), low=0, high=_MAX_KEY, varies=False)] = (),
    values: Annotated[float | Sequence[float], Argument(np.float32, (None,), varies=False)] = (),
    default_value: Annotated[float, Argument(np.float32, varies=False)] = 0.0,
    dtype: DType = None,
    output_dtype: DType = None,
) -> DataNode:
    """Replace integers by the values of a lookup table.

    Args:
        data: Integers of any dtype, shape and layout, such as images or labels.
        keys: Keys of the table, from 0 to 65535. For a repeated key, the last value is used.
        values: Value of each key.
        default_value: Value for all integers that are not keys.
        dtype: Dtype of the result; FLOAT by default. Integers are rounded and clipped.
        output_dtype: Deprecated name of `dtype`.

    Returns:
        Values with the shape and layout of the input.

    Raises:
        DefinitionError: If there are more or fewer keys than values, a key is out of range, or the input is not of an
            integer dtype.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn, types
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     labels = fn.readers.arrays(np.uint8([[7, 24, 9, 255]]))
        ...     pipeline.set_outputs(
        ...         fn.lookup_table(labels, keys=[7, 24], values=[0, 1], default_value=-1, dtype=types.INT32)
        ...     )
        >>> pipeline.run()[0].as_array().tolist()
        [[0, 1, -1, -1]]
    """
    if np.size(keys) != np.size(values):
        raise DefinitionError(
            "keys and values must have the same length",
            given=f"{np.size(keys)} keys and {np.size(values)} values",
        )
    kernel = LookupTable(result_dtype(np.dtype(np.float32), dtype, output_dtype))
    return apply(
        kernel,
        data,
        keys=np.ravel(keys).tolist(),
        values=np.ravel(values).tolist(),
        default_value=default_value,
    )
