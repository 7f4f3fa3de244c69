"""What the first sample of a value is, while a definition is traced: for types that only the data tell."""

from __future__ import annotations

import numpy as np

from penstock.data.source import Array
from penstock.errors import DefinitionError, PenstockError
from penstock.graph.node import Value
from penstock.graph.trace import current_trace
from penstock.host.probe import sample_zero


def first_sample(value: Value, fix: str) -> Array:
    """Compute sample 0 of a value.

    Args:
        value: it.
        fix: what the user can say instead.

    Raises:
        DefinitionError: it cannot be computed, or only on the device.
    """
    try:
        computing = current_trace().computing
        return np.asarray(sample_zero(value) if computing is None else computing.get(value).at(0))
    except Exception as error:
        said = f"the first sample of {value} is not known while the definition is traced"
        raise DefinitionError(said, given=_said(error), fix=fix) from error


def _said(error: BaseException) -> str:
    return str(error.args[0]) if isinstance(error, PenstockError) else str(error) or type(error).__name__
