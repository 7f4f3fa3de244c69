"""First sample of a value, computed while a definition is traced, for types that only the data can tell."""

import numpy as np

from penstock.core import Array
from penstock.engine.sample_probe import probe_sample
from penstock.errors import DefinitionError, PenstockError
from penstock.graph import DataNode, Value, current_trace


def first_sample(value: Value, fix: str) -> Array:
    """Compute sample 0 of a value.

    Args:
        value: The value.
        fix: What the user can write instead, for the message.

    Raises:
        DefinitionError: The sample cannot be computed, or only on the device.
    """
    try:
        # In debug mode values are computed as soon as they are defined.
        eager = current_trace().eager
        return np.asarray(probe_sample(value) if eager is None else eager.get(value).at(0))
    except Exception as error:
        message = f"the first sample of {value} is not known while the definition is traced"
        raise DefinitionError(message, given=_message(error), fix=fix) from error


def _message(error: BaseException) -> str:
    return str(error.args[0]) if isinstance(error, PenstockError) else str(error) or type(error).__name__


def vector_length(vector: DataNode, what: str) -> int:
    """Return the length of a vector: the static one, or that of the first sample.

    Args:
        vector: A node with one axis.
        what: Subject of the messages, such as "a shape".

    Raises:
        DefinitionError: The node is not a vector, or its first sample is not known while the definition is traced.
    """
    if vector.ndim != 1:
        raise DefinitionError(f"{what} must be a vector", given=vector.spec)
    known = vector.spec.shape[0]
    if known is not None:
        return known
    try:
        return len(first_sample(vector.value, "a vector of known length, such as fn.stack makes"))
    except DefinitionError:
        if not current_trace().journal.open:
            raise
        # Nothing was fed yet: any length will do, because the definition is traced again with the first batch.
        return 1
