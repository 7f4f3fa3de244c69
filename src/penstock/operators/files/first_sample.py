"""What the first sample of a value is, while a definition is traced: for types that only the data tell."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from penstock.data.source import Array
from penstock.errors import DefinitionError, PenstockError
from penstock.graph.node import Value
from penstock.graph.operator import BatchContext, BatchKernel, Feed, Reader, SampleContext, SampleKernel
from penstock.graph.trace import current_trace


def first_sample(value: Value, fix: str) -> Array:
    """Compute sample 0 of a value, where it comes from a data set or a source by operators without arguments.

    Args:
        value: it.
        fix: what the user can say instead.

    Raises:
        DefinitionError: it comes from something else, or cannot be computed.
    """
    try:
        computing = current_trace().computing
        return np.asarray(_computed(value) if computing is None else computing.get(value).at(0))
    except Exception as error:
        said = f"the first sample of {value} is not known while the definition is traced"
        raise DefinitionError(said, given=_said(error), fix=fix) from error


def _said(error: BaseException) -> str:
    return str(error.args[0]) if isinstance(error, PenstockError) else str(error) or type(error).__name__


def _computed(value: Value) -> Any:
    node, operator = value.node, value.node.operator
    if isinstance(operator, Reader):
        return operator.source.read(np.zeros(1, np.int64), [None] * len(node.specs))[value.index][0]
    if isinstance(operator, Feed):
        return operator.stream.probe()[value.index][0]
    if node.arguments or operator.random_bits:
        raise ValueError(f"{node} depends on more than its inputs")
    inputs = [_computed(each) for each in node.inputs]
    if isinstance(operator, SampleKernel):
        return _output(operator.sample(SampleContext(), *inputs), value)
    if isinstance(operator, BatchKernel):
        return _output(operator.batch(BatchContext(np, 1), *(each[None] for each in inputs)), value)[0]
    raise ValueError(f"{node} computes whole batches, or on the device")


def _output(made: Any, value: Value) -> Any:
    return cast(tuple[Any, ...], made)[value.index] if isinstance(made, tuple) else made
