"""Eager execution: operators that compute as they are called, on arrays, lists of arrays and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.eager.batch import Batch as Batch
from penstock.eager.generator import Generator as Generator
from penstock.graph import OperatorFunction


def _call_on_data(operator: OperatorFunction[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Compute the first call on data; see `penstock.eager.eager_call.call_on_data`."""
    # Programs that only define pipelines need none of it, and it takes longer to import than `penstock.fn`.
    from penstock.eager.eager_call import call_on_data  # noqa: PLC0415  # slow to import

    OperatorFunction.call_on_data = staticmethod(call_on_data)
    return call_on_data(operator, args, kwargs)


OperatorFunction.call_on_data = staticmethod(_call_on_data)
