"""Arithmetic and comparisons of tensors and batches of dynamic mode."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np

from penstock.core import with_call_site
from penstock.core.user_callbacks import call_user
from penstock.dynamic.body_call import ElementwiseUse
from penstock.dynamic.dynamic_tensor import Batch, Tensor
from penstock.dynamic.loop_capture import active_step
from penstock.dynamic.tensor_base import Elementwise
from penstock.dynamic.tensor_conversion import as_tensor
from penstock.eager.batch import Batch as Samples
from penstock.errors import DefinitionError


def _operand(value: Any) -> Any:
    if isinstance(value, Batch | Tensor | int | float | np.generic):
        return cast(Any, value)
    return as_tensor(value)


def apply_elementwise(function: Callable[..., Any], *operands: Any) -> Any:
    """Compute an elementwise function; a tensor beside a batch stands for all samples."""
    values = [_operand(value) for value in operands]
    rows = common_batch_size(values)
    step = active_step()
    if step is not None and (captured := step.apply(ElementwiseUse(function, tuple(values)))) is not None:
        return captured
    samples = [to_samples(value, rows) if isinstance(value, Elementwise) else value for value in values]
    # Tensors are data, also while a definition is traced, in which operators record what they compute.
    result = call_user(function, *samples)
    is_batch = any(isinstance(value, Batch) for value in values)
    return Batch.of(result) if is_batch else Tensor.of(result[0], result.layout)


def common_batch_size(values: Iterable[Any], batch_size: int | None = None) -> int:
    """Return the size of the batches among some values, and of the call if it has one; 1 without any.

    Raises:
        DefinitionError: They differ.
    """
    sizes = {value.batch_size for value in values if isinstance(value, Batch)}
    if batch_size is not None:
        sizes.add(batch_size)
    if len(sizes) > 1:
        raise DefinitionError("the batch sizes differ", given=" and ".join(map(str, sorted(sizes))))
    return sizes.pop() if sizes else 1


def to_samples(value: Any, rows: int) -> Samples:
    """Return a batch as operators take it; a tensor is repeated."""
    return value.samples if isinstance(value, Batch) else Samples([value.array] * rows, value.layout)


def _method(function: Callable[..., Any], *, reflected: bool = False) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*operands: Any) -> Any:
        return apply_elementwise(function, *(reversed(operands) if reflected else operands))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _function = getattr(operator, f"__{_name}__")
    setattr(Elementwise, f"__{_name}__", with_call_site(_method(_function)))
    setattr(Elementwise, f"__r{_name}__", with_call_site(_method(_function, reflected=True)))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "invert"):
    setattr(Elementwise, f"__{_name}__", with_call_site(_method(getattr(operator, f"__{_name}__"))))
