"""Base of the displacement operators `jitter`, `sphere` and `water`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypedDict

import numpy as np

from penstock.core import Spec
from penstock.graph import Argument, DataNode, Doc, apply, assumed_layout
from penstock.image.describe.steps import ImageInfo, Step
from penstock.image.image_operator import ImageOperator
from penstock.image.kernels.border_modes import Border
from penstock.image.passes.sampling_coordinates import CoordinateMap
from penstock.operators.warping.warp_options import WarpOptions, fill_color, warp_interpolation
from penstock.types import INTERP_NN, DALIInterpType


class DisplacementArguments(TypedDict, total=False):
    """Arguments of all displacements."""

    mask: Annotated[
        int | DataNode,
        Doc("1 (default) to displace the image, 0 to leave it unchanged; a number, or a node with one per sample."),
    ]
    fill_value: Annotated[float, Doc("Value of pixels outside the image, in the input's range; by default 0.")]
    interp_type: Annotated[DALIInterpType | int, Doc("INTERP_NN (default) or INTERP_LINEAR.")]


@dataclass(frozen=True)
class Displacement(ImageOperator):
    """Warp in which each pixel of the result samples the image at a displaced position.

    Args:
        warping: Interpolation, border and dtype.
        places: Map from pixels of the result to coordinates in the image.
    """

    warping: WarpOptions
    places: CoordinateMap
    # No matrix describes a displacement: masks can follow images through it, boxes and points cannot.
    is_matrix_map: ClassVar[bool] = False
    schema: ClassVar[Mapping[str, Argument]] = {"mask": Argument(np.int32)}

    def infer(self, images: Spec, *, mask: Any) -> Spec:
        """Return the spec of the input."""
        return self.warping.spec(images, None)

    def describe(self, images: ImageInfo, bits: Any, *, mask: Any) -> Sequence[Step]:
        """Return one warp, with the mask as its number per row."""
        # Maps take float32 numbers; a row with the mask 0 keeps its pixels.
        enabled = (mask != 0).astype(np.float32)
        return self.warping.steps(images, self.places, enabled[:, None])


def apply_displacement(
    operator: type[Displacement],
    places: CoordinateMap,
    data: DataNode,
    kind: str,
    arguments: DisplacementArguments,
    seed: int = -1,
) -> DataNode:
    """Apply a displacement operator to images.

    Raises:
        DefinitionError: The input is a volume, or the interpolation is neither linear nor nearest.
    """
    layout, own, fill = assumed_layout(data.spec), data.spec.dtype, arguments.get("fill_value", 0.0)
    # DALI truncates the fill values of displacements and rounds those of warps.
    fill = fill_color(data, layout, kind, np.trunc(fill) if own.kind in "iu" else fill)
    options = WarpOptions(
        layout,
        warp_interpolation(arguments.get("interp_type", INTERP_NN), kind),
        Border.CONSTANT,
        fill,
        data.spec.dtype,
    )
    return apply(operator(options, places), data, seed=seed, mask=arguments.get("mask", 1))
