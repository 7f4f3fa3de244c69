"""Interpolation arguments of resizing operators, under DALI's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import numpy as np

from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph import Argument, DataNode, Default, Doc, PerformanceHint
from penstock.types import INTERP_LANCZOS3, INTERP_LINEAR, DALIInterpType

Interpolation = int | DALIInterpType | DataNode

# The example is a valid filter, used for planning while the values of a node are unknown.
FILTER_SCHEMA: Mapping[str, Argument] = {
    name: Argument(np.int32, low=0, high=5, example=INTERP_LANCZOS3) for name in ("min_filter", "mag_filter")
}


class FilterArguments(TypedDict, total=False):
    """Interpolation of pixels."""

    interp_type: Annotated[
        Interpolation,
        Default(INTERP_LINEAR),
        Doc("Interpolation for all axes, a `types.INTERP_...`; may be a node."),
    ]
    min_filter: Annotated[Interpolation, Doc("Interpolation for axes that shrink; by default `interp_type`.")]
    mag_filter: Annotated[Interpolation, Doc("Interpolation for axes that grow; by default `interp_type`.")]
    antialias: Annotated[
        bool,
        Default(True),
        Doc("If True, filters widen with the scale where an image shrinks; INTERP_LINEAR then is INTERP_TRIANGULAR."),
    ]
    minibatch_size: PerformanceHint[Annotated[int, Default(32), Doc("DALI's hint; it has no effect.")]]
    temp_buffer_hint: PerformanceHint[Annotated[int, Default(0), Doc("DALI's hint; it has no effect.")]]


def filter_arguments(filters: FilterArguments, kind: str) -> dict[str, Any]:
    """Return the per-sample arguments `min_filter` and `mag_filter`.

    Raises:
        ArgumentTypeError: The interpolation does not exist.
    """
    both = filters.get("interp_type", INTERP_LINEAR)
    result: dict[str, Any] = {name: filters.get(name, both) for name in ("min_filter", "mag_filter")}
    for name, value in result.items():
        # Values of nodes are checked at run time, against the limits of FILTER_SCHEMA.
        if not isinstance(value, DataNode) and value not in list(DALIInterpType):
            raise ArgumentTypeError(
                "no such interpolation",
                given=f"{name}={short_repr(value)}",
                expected=", ".join(f"types.{known.name}" for known in DALIInterpType),
            )
    return {name: value if isinstance(value, DataNode) else int(value) for name, value in result.items()}
