"""Operator that moves masks together with their images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, cast

import numpy as np

from penstock.core import Shape, Spec, bounds_or_none
from penstock.errors import DefinitionError
from penstock.graph import Argument, DataNode, Input, Value, apply, assumed_layout, common_arguments, operator
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
from penstock.operators.follow.mapping_nodes import geometries
from penstock.operators.follow.pixel_mapping import EXTENTS
from penstock.operators.tensors.copy import Copy
from penstock.types import INTERP_NN

# Axes along which masks follow images; masks keep their own channels.
_SHARED = "FHW"


@dataclass(frozen=True)
class CheckedMasks(ImageOperator):
    """Check that masks have the size of their images.

    Args:
        axes: Axes of height and width of the masks.
        columns: Columns of height and width in the geometry of the images.
    """

    axes: tuple[int, ...]
    columns: tuple[int, ...]
    schema: ClassVar[Mapping[str, Argument]] = {"geometry": Argument(np.float64, (None,))}

    @property
    def traceable(self) -> bool:
        """False: only the host knows sizes that vary."""
        return False

    def infer(self, masks: Spec, **_geometry: Any) -> Spec:
        """Return the spec of the input."""
        return masks

    def describe(self, images: ImageInfo, bits: Any, *, geometry: Any) -> Sequence[Step]:
        """Return no steps."""
        sizes = np.stack([images.sizes[axis] for axis in self.axes], axis=1)
        expected = geometry[:, list(self.columns)].astype(int)
        for row in np.flatnonzero((sizes != expected).any(axis=1))[:1]:
            mask, image = (" x ".join(map(str, size[row])) for size in (sizes, expected))
            raise ValueError(f"the mask is {mask}, and its image {image}")
        return []


@dataclass(frozen=True)
class FollowMasks(ImageOperator):
    """Geometric steps of an image operator, applied to masks with the same arguments and random numbers.

    Args:
        operator: The image operator.
        arguments: Declarations of its arguments.
        images: Spec of its input images.
        layout: Layout of these images.
        own: Layout of the masks.
        fill: Value of pixels outside the image.
        measured: True if `geometry` is an argument, which has the extents of the images.
        diagonal: True if the result of the operator takes rows for columns.
    """

    operator: ImageOperator
    arguments: Mapping[str, Argument]
    images: Spec
    layout: str
    own: str
    fill: float
    measured: bool
    diagonal: bool

    @property
    def schema(self) -> Mapping[str, Argument]:  # pyright: ignore[reportIncompatibleVariableOverride]  # another's
        """Declarations of the arguments of the image operator, and of the geometry."""
        return {**self.arguments, **(CheckedMasks.schema if self.measured else {})}

    @property
    def assumed_layout(self) -> str:
        """The layout of the masks: nearest neighbors along W are computed in another way than along H."""
        return self.own

    @property
    def random_bits(self) -> int:
        """Number of random words per row: the image operator's, so that both receive the same bits."""
        return self.operator.random_bits

    @property
    def traceable(self) -> bool:
        """True if the image operator is traceable. Only the host knows extents that vary."""
        return self.operator.traceable and not self.measured

    def infer(self, masks: Spec, *, geometry: Any = None, **arguments: Any) -> Spec:
        """Return the spec of the masks, in the size of the resulting images."""
        del geometry
        # Images of the size of the masks, of which more may be known.
        shape, bounds = (
            _with_shared(self.layout, mine, self.own, theirs)
            for mine, theirs in ((self.images.shape, masks.shape), (self.images.shape, _bounds_of(masks)))
        )
        bounds = bounds_or_none(bounds) if None in shape else ()
        result = cast(Spec, self.operator.infer(replace(self.images, shape=shape, bounds=bounds), **arguments))
        layout = result.layout or self.layout
        most = result.storage_shape or result.shape
        shape = _with_shared(self.own, masks.shape, layout, result.shape)
        bounds = bounds_or_none(_with_shared(self.own, _bounds_of(masks), layout, most)) if None in shape else ()
        return replace(masks, shape=shape, layout=masks.layout or self.own, bounds=bounds)

    def describe(self, images: ImageInfo, bits: Any, *, geometry: Any = None, **arguments: Any) -> Sequence[Step]:
        """Return the steps that move pixels, along the axes of the masks."""
        if geometry is None:
            # Extents along the axes that masks do not share are known.
            extents = [np.full(len(images.sizes[0]), extent or 1, np.int32) for extent in self.images.shape]
        else:
            extents = list(geometry[:, EXTENTS:].astype(np.int32).T)
        sizes = _with_shared(self.layout, extents, self.own, images.sizes)
        described = ImageInfo(images.xp, images.rows, list(sizes), self.images.dtype)
        return self._steps(images, self.operator.describe(described, bits, **arguments))

    def _steps(self, images: ImageInfo, steps: Sequence[Step]) -> list[Step]:
        layout, result, outside = self.layout, list[Step](), FillStep(np.array([[self.fill]], images.dtype))

        def own_axis(axis: int) -> int:
            """Return the axis of the masks, or -1."""
            return self.own.find(layout[axis]) if layout[axis] in _SHARED else -1

        for step in steps:
            match step:
                case CropStep(axis) | MirrorStep(axis):
                    if own_axis(axis) >= 0:
                        result.append(replace(step, axis=own_axis(axis)))
                case ResampleStep(parts):
                    nearest = {own_axis(axis): _nearest(part) for axis, part in parts.items() if own_axis(axis) >= 0}
                    result += [ResampleStep(nearest, False, 0.5), CastStep(images.dtype)]
                case FillStep():
                    result.append(outside)
                case TransposeStep(order):
                    layout = "".join(layout[axis] for axis in order)
                case CustomStep(transform, sizes, terms):
                    twin = transform.nearest_twin(self.own, terms, self.fill)
                    if twin is not None:
                        extents = _with_shared(self.own, images.sizes, layout, sizes)
                        result += custom_steps(twin[0], images, extents, twin[1], images.dtype)
                case _:
                    pass
        if any(isinstance(step, CropStep) and step.may_exceed for step in result) and outside not in result:
            result.append(outside)
        if self.diagonal:
            exchanged = self.own.translate(str.maketrans("HW", "WH"))
            result.append(TransposeStep(tuple(map(self.own.index, exchanged))))
        return result


def _bounds_of(masks: Spec) -> Shape:
    """Return the largest extents of masks, None where they are unknown."""
    return masks.storage_shape or (None,) * len(masks.shape)


def _with_shared(layout: str, extents: Sequence[Any], other: str, others: Sequence[Any]) -> tuple[Any, ...]:
    """Return extents, with those of another array along the axes that masks and images share."""
    theirs = {letter: extent for letter, extent in zip(other, others, strict=True) if letter in _SHARED}
    return tuple(theirs.get(letter, extent) for letter, extent in zip(layout, extents, strict=True))


def _unshared(layout: str, extents: Shape) -> Shape:
    """Return the extents of images along the axes that masks do not share."""
    return tuple(extent for letter, extent in zip(layout, extents, strict=True) if letter not in _SHARED)


def _nearest(part: ResampleAxis) -> ResampleAxis:
    return replace(part, filters=np.full(len(part.size), int(INTERP_NN), np.int32))


_DTYPES = ("uint8", "int16", "uint16", "int32", "float32")


@operator("follow.masks")
def masks(
    data: Annotated[DataNode, Input(_DTYPES, axes="HW", without="D", needs="masks")],
    images: DataNode,
    *,
    fill_value: float = 0,
    since: DataNode | None = None,
) -> DataNode:
    """Apply the crops, resizes, flips, padding, rotations, and warps of images to their masks.

    The operator traces the images back to their decoder or reader and repeats each geometric step on the masks with the
    same arguments and random numbers. Pixels are selected by nearest neighbor and not interpolated, so that each is a
    value of the mask. Operators that only change values, such as those on colors and blurs, leave masks unchanged.

    Args:
        data: Masks of the size of the images as decoded or read: uint8, int16, uint16, float32, or int32 with values
            below 16 million; the layout needs H and W and defaults to HWC, for two axes to HW.
        images: The transformed images. Pass the output of an image operator, not of `fn.reshape` or of a function
            of your own.
        fill_value: Value of pixels outside the image, such as next to a padded or rotated one; a value of their dtype.
        since: The images that the masks refer to; by default the images as decoded or read.

    Returns:
        The masks in the size of the images, in their own layout and dtype.

    Raises:
        DefinitionError: The data are not masks, or the images come from an operator that may move pixels in an unknown
            way.
        SampleError: At run time, a mask does not have the size of its image.

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
    own, origin = assumed_layout(data.spec), None if since is None else since.value
    geometry, dtype = geometries(origin), data.spec.dtype
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    if limits and not (float(fill_value).is_integer() and limits.min <= fill_value <= limits.max):
        raise DefinitionError(
            "fill_value must be a value of the masks",
            given=fill_value,
            expected=f"an integer from {limits.min} to {limits.max}, as the masks are {dtype}",
        )

    def begin(start: Value) -> DataNode:
        layout = image_layout_of(start)
        axes, columns = (tuple(names.index(letter) for letter in "HW") for names in (own, layout))
        sizes = [data.spec.shape[axis] for axis in axes], [start.spec.shape[axis] for axis in columns]
        if None in sizes[0] + sizes[1]:
            kernel = CheckedMasks(axes, tuple(EXTENTS + axis for axis in columns))
            return apply(kernel, data, beside=start.node, geometry=geometry(start))
        if sizes[0] != sizes[1]:
            raise DefinitionError(
                "masks must have the size of their images", given=f"masks {data.spec}, images {start.spec}"
            )
        return data

    def go(segment: PathSegment, before: DataNode) -> DataNode:
        schema, images, layout = segment.node.schema, segment.images, segment.layout
        # The image operator may check the extents that masks do not have, such as the number of channels.
        measured = None in _unshared(layout, images.shape)
        arguments = segment.arguments
        if measured:
            arguments["geometry"] = geometry(segment.node.inputs[0])
        fill, diagonal = float(fill_value), segment.diagonal
        kernel = FollowMasks(segment.operator, schema, images, layout, own, fill, measured, diagonal)
        return apply(kernel, before, beside=segment.node, **arguments)

    followed, _ = ImageLineage(origin, begin, go).to(images.value)
    return apply(Copy(), followed) if common_arguments() else followed
