"""follow.masks: masks go where an image's pixels went, by nearest neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from penstock.core import Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, Value, apply, common_arguments, operator
from penstock.image.describe.custom_pass import custom_steps
from penstock.image.describe.steps import (
    CastStep,
    CropStep,
    CustomStep,
    FillStep,
    ImageInfo,
    MirrorStep,
    ResampleAxis,
    ResampleStep,
    Step,
    TransposeStep,
)
from penstock.image.image_operator import ImageOperator
from penstock.operators.follow.image_lineage import ImageLineage, PathSegment, image_layout_of
from penstock.operators.follow.mapping_nodes import begun
from penstock.operators.follow.pixel_mapping import EXTENTS
from penstock.operators.tensors.copy import Copy
from penstock.types import INTERP_NN

_MOVED = "FHW"
"""The axes along which masks follow; their channels are their own."""


@dataclass(frozen=True)
class CheckedMasks(ImageOperator):
    """Masks as they are, checked to be as large as their images.

    Args:
        axes: of height and width of the masks.
        columns: of the images' geometry that have theirs.
    """

    axes: tuple[int, int]
    columns: tuple[int, int]
    schema: ClassVar[Mapping[str, Argument]] = {"geometry": Argument(np.float64, (None,))}

    @property
    def traceable(self) -> bool:
        """Sizes are compared where they are known: on the host."""
        return False

    def infer(self, masks: Spec, **_geometry: Any) -> Spec:
        """The input's."""
        return masks

    def describe(self, images: ImageInfo, bits: Any, *, geometry: Any) -> Sequence[Step]:
        """Nothing is done."""
        height, width = (images.sizes[axis] for axis in self.axes)
        expected = geometry[:, list(self.columns)]
        for row in np.flatnonzero((height != expected[:, 0]) | (width != expected[:, 1]))[:1].tolist():
            high, wide = expected[row].astype(int).tolist()
            raise ValueError(f"the mask is {height[row]} x {width[row]}, and its image {high} x {wide}")
        return []


@dataclass(frozen=True)
class FollowMasks(ImageOperator):
    """Masks after an image operator, which describes what it does once more, from the same numbers.

    Args:
        operator: The image operator.
        arguments: Declarations of its arguments.
        given: the images that it takes.
        layout: of these.
        own: the layout of the masks.
        fill: the value of what lies outside.
    """

    operator: ImageOperator
    arguments: Mapping[str, Argument]
    given: Spec
    layout: str
    own: str
    fill: float

    @property
    def schema(self) -> Mapping[str, Argument]:  # pyright: ignore[reportIncompatibleVariableOverride]  # another's
        """Declarations of the arguments of the image operator."""
        return self.arguments

    @property
    def random_bits(self) -> int:
        """As many as the image operator, and the same."""
        return self.operator.random_bits

    @property
    def traceable(self) -> bool:
        """As the image operator is."""
        return self.operator.traceable

    def infer(self, masks: Spec, **arguments: Any) -> Spec:
        """The masks', in the size of the images."""
        shape, own = list(self.given.shape), masks.storage_shape
        most = shape.copy()
        for at, letter in self._moved():
            shape[at] = masks.shape[self.own.index(letter)]
            most[at] = own[self.own.index(letter)] if own else None
        images = replace(self.given, shape=tuple(shape), bounds=bounds_or_none(most) if None in shape else ())
        made = cast(Spec, self.operator.infer(images, **arguments))
        layout, shape = made.layout or self.layout, list(masks.shape)
        most = [*(own or (None,) * len(shape))]
        for letter in set(layout) & set(self.own) & set(_MOVED):
            at, there = self.own.index(letter), layout.index(letter)
            shape[at] = made.shape[there]
            most[at] = made.storage_shape[there] if made.storage_shape else made.shape[there]
        bounds = bounds_or_none(most) if None in shape else ()
        return replace(masks, shape=tuple(shape), layout=masks.layout or self.own, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, **arguments: Any) -> Sequence[Step]:
        """The steps that move pixels, along the masks' axes."""
        rows = len(images.sizes[0])
        sizes: list[Any] = [np.full(rows, extent or 1, np.int32) for extent in self.given.shape]
        for at, letter in self._moved():
            sizes[at] = images.sizes[self.own.index(letter)]
        described = ImageInfo(images.xp, images.rows, sizes, self.given.dtype)
        return list(self._steps(images, self.operator.describe(described, bits, **arguments)))

    def _moved(self) -> list[tuple[int, str]]:
        """The images' axes that the masks have, too."""
        return [(at, letter) for at, letter in enumerate(self.layout) if letter in _MOVED and letter in self.own]

    def _steps(self, images: ImageInfo, steps: Sequence[Step]) -> list[Step]:
        layout, made, outside = self.layout, list[Step](), FillStep(np.array([[self.fill]], images.dtype))

        def own(axis: int) -> int | None:
            return self.own.index(layout[axis]) if layout[axis] in _MOVED and layout[axis] in self.own else None

        for step in steps:
            match step:
                case CropStep(axis) | MirrorStep(axis):
                    if (at := own(axis)) is not None:
                        made.append(replace(step, axis=at))
                case ResampleStep(parts):
                    found = {own(axis): _nearest(part) for axis, part in parts.items()}
                    made.append(ResampleStep({at: part for at, part in found.items() if at is not None}, False, 0.5))
                    made.append(CastStep(images.dtype))
                case FillStep():
                    made.append(outside)
                case TransposeStep(order):
                    layout = "".join(layout[axis] for axis in order)
                case CustomStep(transform, sizes, terms):
                    picked = transform.nearest_twin(self.own, terms, self.fill)
                    if picked is not None:
                        mine = dict(zip(layout, sizes, strict=True))
                        extents = [
                            mine.get(n, s) if n in _MOVED else s for n, s in zip(self.own, images.sizes, strict=True)
                        ]
                        made += custom_steps(picked[0], images, extents, picked[1], images.dtype)
                case _:
                    pass
        if any(isinstance(step, CropStep) and step.may_exceed for step in made) and outside not in made:
            made.append(outside)
        return made


def _nearest(part: ResampleAxis) -> ResampleAxis:
    return replace(part, filters=np.full(len(part.size), int(INTERP_NN), np.int32))


@operator("follow.masks")
def masks(
    data: DataNode,
    images: DataNode,
    *,
    fill_value: float = 0,
    since: DataNode | None = None,
) -> DataNode:
    """Let masks go where the pixels of images went: cut, resized, mirrored, padded, turned, warped.

    The chain of operators that made the images is walked back to the decoder or reader. The masks go the same way, by
    the very numbers: nothing is drawn a second time. Their pixels are taken, not interpolated, so that each is one of
    the mask's values. What changes values alone, such as colours and blurs, leaves masks as they are.

    Args:
        data: masks as large as the images that were decoded or read: uint8, int16, uint16, float32, or int32 of values
            below 16 million; layout with H and W (HWC where none is named, HW where they have two axes).
        images: the images as they have become. Give them as image operators leave them: before `fn.reshape`, or a
            function of your own.
        fill_value: of what shows no pixel of the image, as beside one that is padded or turned.
        since: the images to which the masks belong, if not to what was decoded or read.

    Returns:
        The masks in the size of the images, in their own layout and dtype.

    Raises:
        DefinitionError: no masks, or images that came about by something that may move pixels and does not say where.
        SampleError: while running, a mask of another size than its image had.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 4, 4, 3), np.uint8), layout="HWC")
        ...     masks = fn.readers.arrays(np.eye(4, dtype=np.uint8)[None], layout="HW")
        ...     images = fn.crop_mirror_normalize(fn.crop(images, crop=(4, 2)), mirror=1)
        ...     pipeline.set_outputs(fn.follow.masks(masks, images))
        >>> pipeline.run()[0].as_array().tolist()
        [[[0, 0], [0, 1], [1, 0], [0, 0]]]
    """
    own = image_layout_of(data.value, "follow.masks")
    if data.spec.dtype.name not in ("uint8", "int16", "uint16", "int32", "float32"):
        raise DefinitionError("no masks have this dtype", given=data.spec, fix="fn.cast(masks, ...)")

    def begin(start: Value) -> DataNode:
        layout = image_layout_of(start, "follow.masks")
        axes = [[names.index(letter) for letter in "HW"] for names in (own, layout)]
        known = [[spec.shape[k] for k in at] for spec, at in zip((data.spec, start.spec), axes, strict=True)]
        if None not in known[0] + known[1]:
            if known[0] != known[1]:
                raise DefinitionError(
                    "masks are as large as the images that they belong to",
                    given=f"masks {data.spec}, images {start.spec}",
                )
            return data
        columns = [EXTENTS + at for at in axes[1]]
        checked = CheckedMasks((axes[0][0], axes[0][1]), (columns[0], columns[1]))
        return apply(checked, data, beside=start.node, geometry=begun(start, "follow.masks"))

    def go(stretch: PathSegment, before: DataNode) -> DataNode:
        kernel = FollowMasks(
            stretch.operator, stretch.node.schema, stretch.given, stretch.layout, own, float(fill_value)
        )
        return apply(kernel, before, beside=stretch.node, **stretch.arguments)

    followed, _ = ImageLineage("follow.masks", None if since is None else since.value, begin, go).to(images.value)
    return apply(Copy(), followed) if common_arguments() else followed
