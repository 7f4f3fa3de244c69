"""Nodes that compute the pixel mapping of images, in parallel to the image operators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core import Array, Spec
from penstock.errors import DefinitionError
from penstock.graph import (
    Argument,
    BatchContext,
    DataNode,
    HostBatchKernel,
    Operator,
    SampleContext,
    SampleKernel,
    Value,
    apply,
)
from penstock.image.describe.steps import ImageInfo
from penstock.image.image_operator import ImageDecoder, ImageOperator
from penstock.operators.follow.image_lineage import ImageLineage, PathSegment, image_layout_of
from penstock.operators.follow.pixel_mapping import EXTENTS, begin, moved

# Size of a mapping summary, float32: columns 0 to 14 of a geometry, then height and width.
PLACES = 17


def pixel_mapping_node(images: DataNode, since: DataNode | None) -> DataNode:
    """Return a node with the pixel mapping of images, float32 (`PLACES`,), for host and device kernels.

    Args:
        images: The end of the path.
        since: The images at which it begins; None for the output of a reader or decoder.

    Raises:
        DefinitionError: An operator on the path cannot be followed.
    """
    geometry, layout = ImageLineage(None if since is None else since.value, initial_geometry, _compose).to(images.value)
    return apply(MappingSummary(layout), geometry)


def geometries(since: Value | None) -> Callable[[Value], DataNode]:
    """Return a function from the images of a path to nodes with a geometry that has their extents.

    Args:
        since: The images at which the path begins; None for the output of a reader or decoder.
    """
    lineage = ImageLineage(since, initial_geometry, _compose)

    def geometry(images: Value) -> DataNode:
        try:
            return lineage.to(images)[0]
        except DefinitionError:
            # An operator before them has no matrix, so the extents are those of the images as computed.
            return initial_geometry(images)

    return geometry


def initial_geometry(images: Value) -> DataNode:
    """Return a node with the identity geometry of images, from file headers if the images are decoded."""
    node, operator = images.node, images.node.operator
    layout = image_layout_of(images)
    # Only the header is read: the image itself may be decoded on another path, or fused and never stored.
    if isinstance(operator, ImageDecoder):
        return apply(MappingFromHeader(operator), DataNode(node.inputs[0]), beside=node)
    # The extents follow from the operators before, so a fused chain does not need to store this intermediate image.
    if isinstance(operator, ImageOperator):
        try:
            before, _ = ImageLineage(None, initial_geometry, _compose).to(images)
        except DefinitionError:
            pass
        else:
            return apply(RestartMapping(layout), before, beside=node)
    return apply(InitialMapping(layout), DataNode(images), beside=node)


def _compose(segment: PathSegment, before: DataNode) -> DataNode:
    """Return the geometry after an image operator."""
    if not segment.operator.is_matrix_map:
        raise DefinitionError(
            f"images cannot be followed through fn.{segment.node.kind}: it moves each pixel differently",
            given=f"{segment.node}, created at {segment.node.where}",
            expected="operators whose mapping is a matrix",
            fix="use masks and fn.follow.masks, which supports it",
        )
    schema, dtype = segment.node.schema, segment.images.dtype
    operator = ComposedMapping(segment.layout, segment.operator, schema, dtype, segment.diagonal)
    return apply(operator, before, beside=segment.node, **segment.arguments)


@dataclass(frozen=True)
class GeometryOperator(Operator, HostBatchKernel):
    """Base of kernels whose result is a geometry.

    Args:
        layout: Layout of the images.
    """

    layout: str

    def infer(self, *_inputs: Spec, **_arguments: Any) -> Spec:
        """Return the spec of a geometry."""
        return Spec(np.dtype(np.float64), (EXTENTS + len(self.layout),))


@dataclass(frozen=True)
class InitialMapping(GeometryOperator):
    """Kernel that creates the identity geometry from images."""

    accepts_ragged: ClassVar[bool] = True

    def batch(self, context: BatchContext, images: Any) -> Any:
        """Read the extents from the images' shapes."""
        return begin(np.array([image.shape for image in images]), self.layout)


@dataclass(frozen=True)
class RestartMapping(GeometryOperator):
    """Kernel that resets a geometry to the identity and keeps its extents."""

    def batch(self, context: BatchContext, geometry: Any) -> Any:
        """Start again from the extents of the present image."""
        return begin(geometry[:, EXTENTS:], self.layout)


@dataclass(frozen=True)
class ComposedMapping(GeometryOperator):
    """Kernel that advances a geometry over an image operator.

    It calls the operator's `describe` with the same arguments and random bits as the image path.

    Args:
        operator: The image operator.
        arguments: Declarations of its arguments.
        dtype: Dtype of its input images.
        diagonal: True if its result takes rows for columns.
    """

    operator: ImageOperator
    arguments: Mapping[str, Argument]
    dtype: np.dtype[Any]
    diagonal: bool

    @property
    def schema(self) -> Mapping[str, Argument]:  # pyright: ignore[reportIncompatibleVariableOverride]  # another's
        """Declarations of the arguments of the image operator."""
        return self.arguments

    @property
    def random_bits(self) -> int:
        """Number of random words per row: the image operator's, so that both receive the same bits."""
        return self.operator.random_bits

    def batch(self, context: BatchContext, geometry: Any, **arguments: Any) -> Any:
        """Compute the operator's steps from the extents and apply them to the geometry."""
        sizes = list(geometry[:, EXTENTS:].astype(np.int64).T)
        images = ImageInfo(np, context.rows, sizes, self.dtype)
        steps = self.operator.describe(images, context.bits, **arguments)
        return moved(geometry, self.layout, steps, diagonal=self.diagonal)


@dataclass(frozen=True)
class MappingFromHeader(Operator, SampleKernel):
    """Kernel that creates the identity geometry from the headers of encoded images."""

    decoder: ImageDecoder

    def infer(self, data: Spec) -> Spec:
        """Return the spec of a geometry."""
        return Spec(np.dtype(np.float64), (EXTENTS + len("HWC"),))

    def sample(self, context: SampleContext, data: Array) -> Array:
        """Read the extents from the header of a file."""
        del context
        (header,) = self.decoder.read_headers([data])
        return begin(np.array([[header.height, header.width, header.channels]]), "HWC")[0]


@dataclass(frozen=True)
class MappingSummary(Operator, HostBatchKernel):
    """Kernel that reduces a geometry to the columns that followers use."""

    layout: str

    def infer(self, geometry: Spec) -> Spec:
        """Return a float32 spec, which the device program can also use."""
        return Spec(np.dtype(np.float32), (PLACES,))

    def batch(self, context: BatchContext, geometry: Any) -> Any:
        """Drop the extents of axes other than height and width."""
        extents = [EXTENTS + self.layout.index(letter) for letter in "HW"]
        # Steps are composed in float64; one rounding to float32 at the end keeps long chains accurate.
        return geometry[:, [*range(EXTENTS), *extents]].astype(np.float32)
