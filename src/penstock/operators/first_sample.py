"""What the first sample of a value is, while a definition is traced: for types that only the data tell."""

from __future__ import annotations

import numpy as np

from penstock.core.columns import Array
from penstock.engine.sample_probe import probe_sample
from penstock.errors import DefinitionError, PenstockError
from penstock.graph.ir.node import Value
from penstock.graph.tracing.trace import DataNode, current_trace


def first_sample(value: Value, fix: str) -> Array:
    """Compute sample 0 of a value.

    Args:
        value: the value.
        fix: what the user can say instead.

    Raises:
        DefinitionError: it cannot be computed, or only on the device.
    """
    try:
        computing = current_trace().eager
        return np.asarray(probe_sample(value) if computing is None else computing.get(value).at(0))
    except Exception as error:
        said = f"the first sample of {value} is not known while the definition is traced"
        raise DefinitionError(said, given=_said(error), fix=fix) from error


def _said(error: BaseException) -> str:
    return str(error.args[0]) if isinstance(error, PenstockError) else str(error) or type(error).__name__


def vector_length(vector: DataNode, what: str) -> int:
    """How many numbers each sample of a vector has: if nothing says so, as many as the first one.

    Args:
        vector: a node.
        what: what messages call it, such as "fn.reshape: a shape".

    Raises:
        DefinitionError: it is no vector, or its first sample is not known while the definition is traced.
    """
    if vector.ndim != 1:
        raise DefinitionError(f"{what} is a vector", given=vector.spec)
    known = vector.spec.shape[0]
    if known is not None:
        return known
    try:
        return len(first_sample(vector.value, "a vector of known length, such as fn.stack makes"))
    except DefinitionError:
        if not current_trace().journal.open:
            raise
        return 1  # the definition is traced again when it is fed
