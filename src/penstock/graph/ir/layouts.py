"""Layouts: the meaning of the axes of images."""

from typing import Any

import numpy as np

from penstock.core import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.ir.node import NodeHandle

# The spatial axes of images and volumes, outermost first.
SPATIAL = "DHW"


def assumed_layout(spec: Spec, rank_4: str = "FHWC") -> str:
    """Return the layout of a value, or the one that DALI assumes by rank; for rank 4 it depends on the operator."""
    return spec.layout or {2: "HW", 3: "HWC", 4: rank_4, 5: "FDHWC"}.get(len(spec.shape), "")


def spatial_layout(spec: Spec) -> str:
    """Return the layout like `assumed_layout`, but three unnamed axes are a volume, as for filters of DALI."""
    return "DHW" if not spec.layout and len(spec.shape) == 3 else assumed_layout(spec)


def by_axis(numbers: Any, layout: str) -> Any:
    """Reorder numbers per spatial axis from the order of the layout, which users write, to that of `SPATIAL`.

    Args:
        numbers: (rows, spatial axes).
        layout: The layout of the images.
    """
    own = [axis for axis in layout if axis in SPATIAL]
    return numbers[:, np.array([own.index(axis) for axis in SPATIAL if axis in own])]


def axis_numbers(axes: Any, names: str | None, spec: Spec) -> tuple[int, ...]:
    """Return the axes that the user named by number or by letter; all axes by default.

    Raises:
        DefinitionError: an axis does not exist or is named twice, or both numbers and letters are set.
    """
    ndim = len(spec.shape)
    if axes is not None and names is not None:
        raise DefinitionError("axes and axis_names cannot be combined", given=f"axes={axes}, axis_names={names!r}")
    if isinstance(axes, NodeHandle):
        raise DefinitionError("axes must be the same for all samples", given="a node", expected="numbers")
    if names is not None:
        # DALI takes three axes without a layout as an image.
        layout = spec.layout or ("HWC" if ndim == 3 else "")
        missing = [name for name in names if name not in layout]
        if missing:
            raise DefinitionError(
                f"the layout has no axis {', '.join(missing)}",
                given=f"axis_names={short_repr(names)}, layout {spec.layout!r}",
                fix="axes=[...], by number",
            )
        return tuple(layout.index(name) for name in names)
    numbers = [axes] if isinstance(axes, int) else list(axes or range(ndim))
    if not all(-ndim <= axis < ndim for axis in numbers) or len({axis % ndim for axis in numbers}) < len(numbers):
        raise DefinitionError(
            "axes must name each axis once", given=axes, expected=f"numbers from {-ndim} to {ndim - 1}"
        )
    return tuple(axis % ndim for axis in numbers)


def check_layout(layout: str | None, spec: Spec, ndim: int) -> str:
    """Check a layout that the user set for a value of `ndim` axes.

    Raises:
        DefinitionError: the layout has another number of axes, or one axis twice.
    """
    if layout is None:
        return spec.layout if len(spec.shape) == ndim else ""
    if not isinstance(layout, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users are not type-checked
        raise ArgumentTypeError("layout must be a string", given=short_repr(layout), expected='such as "HWC"')
    names = layout.replace("*", "")  # DALI's letter for axes without a name
    if layout and (len(layout) != ndim or len(set(names)) != len(names)):
        raise DefinitionError(
            "layout must name each axis once",
            given=short_repr(layout),
            expected=f"{ndim} different letters, or ''; * for an axis without a name",
        )
    return layout
