"""How pixels are interpolated: DALI's arguments for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import numpy as np

from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph.arguments.argument_marks import Default, PerformanceHint
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.tracing.trace import DataNode
from penstock.types import INTERP_LANCZOS3, INTERP_LINEAR, DALIInterpType

Interpolation = int | DALIInterpType | DataNode

FILTER_SCHEMA: Mapping[str, Argument] = {
    name: Argument(np.int32, low=0, high=5, example=INTERP_LANCZOS3) for name in ("min_filter", "mag_filter")
}


class FilterArguments(TypedDict, total=False):
    """How pixels are interpolated.

    interp_type: an interpolation of `penstock.types`, linear if none is given. min_filter, mag_filter: the same, for
    axes that shrink and axes that grow. antialias: whether filters are stretched where the image shrinks; there
    INTERP_LINEAR becomes INTERP_TRIANGULAR. minibatch_size, temp_buffer_hint: hints of DALI's without effect here.
    """

    interp_type: Annotated[Interpolation, Default(INTERP_LINEAR)]
    min_filter: Interpolation
    mag_filter: Interpolation
    antialias: Annotated[bool, Default(True)]
    minibatch_size: PerformanceHint[int]
    temp_buffer_hint: PerformanceHint[int]


def filter_arguments(filters: FilterArguments, kind: str) -> dict[str, Any]:
    """The operator arguments `min_filter` and `mag_filter`.

    Raises:
        ArgumentTypeError: there is no such interpolation.
    """
    both = filters.get("interp_type", INTERP_LINEAR)
    chosen: dict[str, Any] = {name: filters.get(name, both) for name in ("min_filter", "mag_filter")}
    for name, value in chosen.items():
        if not isinstance(value, DataNode) and value not in list(DALIInterpType):
            raise ArgumentTypeError(
                f"fn.{kind}: no such interpolation",
                given=f"{name}={short_repr(value)}",
                expected=", ".join(f"types.{known.name}" for known in DALIInterpType),
            )
    return {name: value if isinstance(value, DataNode) else int(value) for name, value in chosen.items()}
