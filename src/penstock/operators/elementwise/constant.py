"""constant: one value for all samples."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from penstock.core import Spec
from penstock.core.constant import narrowed
from penstock.core.dataclass import dataclass
from penstock.errors import ArgumentTypeError, DefinitionError, dali_object_hint, short_repr
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    DType,
    Operator,
    apply,
    check_layout,
    common_arguments,
    current_trace,
    operator,
)
from penstock.graph.arguments.argument_groups import CommonArguments
from penstock.types import FLOAT, INT32, Constant


@dataclass(frozen=True, eq=False)
class ConstantValue(Operator, BatchKernel):
    """One array for all rows."""

    value: np.ndarray[Any, Any]
    layout: str

    def infer(self) -> Spec:
        """Return the spec of the array."""
        return Spec(self.value.dtype, self.value.shape, self.layout)

    def batch(self, context: BatchContext) -> Any:
        """Broadcast the array to all rows, without copying on the host."""
        return context.xp.broadcast_to(context.xp.asarray(self.value), (context.rows, *self.value.shape))


@operator("constant")
def constant(
    value: Any = None,
    *,
    fdata: float | Sequence[float] | None = None,
    idata: int | Sequence[int] | None = None,
    dtype: DType = None,
    shape: int | Sequence[int] | None = None,
    layout: str | None = "",
) -> DataNode:
    """Create a node with one value for all samples. Operators do so for each number or array among their inputs.

    Set exactly one of `value`, `fdata` and `idata`. The last two are DALI's arguments; a single number there becomes a
    vector of one element.

    Args:
        value: A number, a nested list of numbers, an array, or a `types.Constant`.
        fdata: Numbers, by default float32.
        idata: Integers, by default int32.
        dtype: Element type. By default, 64-bit numbers, such as Python's, become 32-bit, and other arrays keep their
            type. Integers are rounded and saturate.
        shape: Shape of a sample; a single number fills it.
        layout: Layout of a sample, or "" for none.

    Returns:
        A node with the shape of the value.

    Raises:
        ArgumentTypeError: The value does not consist of numbers, or their count does not match the shape.
        DefinitionError: None or more than one of the three is set.

    Example:
        >>> import penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.constant([1, 2]), fn.constant(fdata=0.5, shape=[2]))
        >>> [output.as_array().tolist() for output in pipeline.run()]
        [[[1, 2], [1, 2]], [[0.5, 0.5], [0.5, 0.5]]]
    """
    names = [name for name, data in (("value", value), ("fdata", fdata), ("idata", idata)) if data is not None]
    if len(names) > 1:
        raise DefinitionError("the numbers are set twice", given=", ".join(names), expected="one of them")
    if fdata is not None:
        value, dtype = np.atleast_1d(np.asarray(fdata, np.float32)), FLOAT if dtype is None else dtype
    elif idata is not None:
        value, dtype = np.atleast_1d(np.asarray(idata).astype(np.int64)), INT32 if dtype is None else dtype
    # With eager execution, `value` may be a batch that was computed before.
    eager = current_trace().eager
    batch = eager.batch(value) if eager is not None else None
    if batch is not None:
        return batch
    if value is None or isinstance(value, str | bytes | dict):
        raise ArgumentTypeError(
            "expected a value that a pipeline can compute with",
            given=f"{short_repr(cast(Any, value))} of type {type(cast(Any, value)).__name__}",
            expected="a node, a number, an array or types.Constant",
        )
    wrapped = value if isinstance(value, Constant) else Constant(value, dtype, shape, layout or "")
    common = common_arguments()
    if wrapped.device is not None:
        common = cast(CommonArguments, {**common, "device": wrapped.device})
    # Bare Python and NumPy values become 32-bit, as in DALI. A `Constant` or an explicit dtype keeps 64 bits.
    array = narrowed(wrapped.array()) if wrapped is not value and wrapped.dtype is None else wrapped.array()
    # "V" is the kind of bfloat16.
    if array.dtype.kind not in "biufV":
        description = f"{short_repr(value)} of dtype {array.dtype}"
        # NumPy makes an array of objects of a node.
        function = (
            "fn.python_function(node, function=f), whose function gets arrays" if "DataNode" in description else None
        )
        fix = dali_object_hint(value) or function
        raise ArgumentTypeError("a constant must consist of numbers", given=description, fix=fix)
    checked = check_layout(wrapped.layout or "", Spec(array.dtype, array.shape), array.ndim)
    return apply(ConstantValue(array, checked), common=common)
