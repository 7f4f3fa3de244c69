"""Interpolation arguments of resizing operators, under DALI's names."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from typing_extensions import TypedDict

from penstock.graph import Argument, DataNode, Default, PerformanceHint, Range
from penstock.types import INTERP_LANCZOS3, INTERP_LINEAR, DALIInterpType

Interpolation = Annotated[int | DALIInterpType | DataNode, Range(0, 5)]
# The example is a valid filter, used for planning while the values of a node are unknown.
Filter = Annotated[Interpolation, Argument(np.int32, low=0, high=5, example=INTERP_LANCZOS3)]


class FilterArguments(TypedDict, total=False):
    """Interpolation of pixels.

    Args:
        interp_type: Interpolation for all axes, a `types.INTERP_...`; may be a node.
        min_filter: Interpolation for axes that shrink; by default `interp_type`.
        mag_filter: Interpolation for axes that grow; by default `interp_type`.
        antialias: If True, filters widen with the scale where an image shrinks; INTERP_LINEAR then is
            INTERP_TRIANGULAR.
        minibatch_size: DALI's hint; it has no effect.
        temp_buffer_hint: DALI's hint; it has no effect.
    """

    interp_type: Annotated[Interpolation, Default(INTERP_LINEAR)]
    min_filter: Filter
    mag_filter: Filter
    antialias: Annotated[bool, Default(True)]
    minibatch_size: PerformanceHint[Annotated[int, Default(32)]]
    temp_buffer_hint: PerformanceHint[Annotated[int, Default(0)]]


def filter_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the per-sample arguments `min_filter` and `mag_filter`."""
    both = arguments.get("interp_type", INTERP_LINEAR)
    return {name: arguments.get(name, both) for name in ("min_filter", "mag_filter")}
