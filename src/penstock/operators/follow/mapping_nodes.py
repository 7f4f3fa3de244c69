"""The nodes that compute where pixels have gone, beside the nodes that move them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.graph.ir.node import Value
from penstock.graph.ir.operator import BatchContext, HostBatchKernel, Operator, SampleContext, SampleKernel
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.trace import DataNode
from penstock.image.describe.steps import ImageInfo
from penstock.image.image_operator import ImageDecoder, ImageOperator
from penstock.operators.follow.image_lineage import ImageLineage, PathSegment, image_layout_of
from penstock.operators.follow.pixel_mapping import EXTENTS, begin, moved

PLACES = 17
"""What is known of places at the end, float32: the columns 0 to 14 of a geometry, height and width."""


def pixel_mapping_node(images: DataNode, since: DataNode | None, kind: str) -> DataNode:
    """Where the pixels of images have gone, float32 (`PLACES`,), for kernels on the host or the device.

    Args:
        images: the end of the path.
        since: the images where it begins; None for what a reader or decoder gave.
        kind: the operator that follows, for messages.

    Raises:
        DefinitionError: on the path is something that cannot be followed.
    """
    start = None if since is None else since.value
    geometry, layout = _path(kind, start).to(images.value)
    return apply(MappingSummary(layout), geometry)


def begun(images: Value, kind: str) -> DataNode:
    """The geometry of images to which nothing has been done, from headers where they are decoded."""
    node, operator = images.node, images.node.operator
    layout = image_layout_of(images, kind)
    if isinstance(operator, ImageDecoder):
        return apply(MappingFromHeader(operator), DataNode(node.inputs[0]), beside=node)
    if isinstance(operator, ImageOperator):  # its result need not be there to know its size
        try:
            before, _ = _path(kind, None).to(images)
        except DefinitionError:
            pass
        else:
            return apply(RestartMapping(layout), before, beside=node)
    return apply(InitialMapping(layout), DataNode(images), beside=node)


def _path(kind: str, since: Value | None) -> ImageLineage:
    def go(stretch: PathSegment, before: DataNode) -> DataNode:
        if not stretch.operator.is_matrix_map:
            raise DefinitionError(
                f"fn.{kind} cannot follow images through fn.{stretch.node.kind}: it moves each pixel its own way",
                given=f"{stretch.node}, made at {stretch.node.where}",
                expected="what a matrix can say",
                fix="fn.follow.masks, which can",
            )
        operator = ComposedMapping(stretch.operator, stretch.layout, stretch.given.dtype)
        return apply(operator, before, beside=stretch.node, **stretch.arguments)

    return ImageLineage(kind, since, lambda value: begun(value, kind), go)


def _geometry(layout: str) -> Spec:
    return Spec(np.dtype(np.float64), (EXTENTS + len(layout),))


@dataclass(frozen=True)
class InitialMapping(Operator, HostBatchKernel):
    """The geometry of images that are there."""

    layout: str
    accepts_ragged: ClassVar[bool] = True

    def infer(self, images: Spec) -> Spec:
        """A geometry."""
        return _geometry(self.layout)

    def batch(self, context: BatchContext, images: Any) -> Any:
        """From their shapes."""
        return begin(np.array([each.shape for each in images]), self.layout)


@dataclass(frozen=True)
class MappingFromHeader(Operator, SampleKernel):
    """The geometry of images that a decoder will give."""

    decoder: ImageDecoder

    def infer(self, data: Spec) -> Spec:
        """A geometry."""
        return _geometry("HWC")

    def sample(self, context: SampleContext, data: Array) -> Array:
        """From the header of a file."""
        del context
        header = self.decoder.read_header(data)
        return begin(np.array([[header.height, header.width, header.channels]]), "HWC")[0]


@dataclass(frozen=True)
class RestartMapping(Operator, HostBatchKernel):
    """The geometry of images, begun anew."""

    layout: str

    def infer(self, geometry: Spec) -> Spec:
        """A geometry."""
        return geometry

    def batch(self, context: BatchContext, geometry: Any) -> Any:
        """From its extents."""
        return begin(geometry[:, EXTENTS:], self.layout)


@dataclass(frozen=True)
class ComposedMapping(Operator, HostBatchKernel):
    """The geometry after an image operator, which describes what it does once more, from the same numbers.

    Args:
        operator: the image operator.
        layout: of the images that it takes.
        dtype: of these.
    """

    operator: ImageOperator
    layout: str
    dtype: np.dtype[Any]

    @property
    def schema(self) -> Mapping[str, Argument]:  # pyright: ignore[reportIncompatibleVariableOverride]  # another's
        """The image operator's."""
        return self.operator.schema

    @property
    def random_bits(self) -> int:
        """As many as the image operator, and the same."""
        return self.operator.random_bits

    def infer(self, geometry: Spec, **_arguments: Any) -> Spec:
        """A geometry."""
        return geometry

    def batch(self, context: BatchContext, geometry: Any, **arguments: Any) -> Any:
        """Described, and the steps followed."""
        sizes = list(geometry[:, EXTENTS:].astype(np.int64).T)
        images = ImageInfo(np, context.rows, sizes, self.dtype)
        return moved(geometry, self.layout, self.operator.describe(images, context.bits, **arguments))


@dataclass(frozen=True)
class MappingSummary(Operator, HostBatchKernel):
    """What kernels need of a geometry."""

    layout: str

    def infer(self, geometry: Spec) -> Spec:
        """Numbers for the device, too."""
        return Spec(np.dtype(np.float32), (PLACES,))

    def batch(self, context: BatchContext, geometry: Any) -> Any:
        """Without the extents of other axes."""
        extents = [EXTENTS + self.layout.index(letter) for letter in "HW"]
        return geometry[:, [*range(EXTENTS), *extents]].astype(np.float32)
