"""The path of an image through a definition, walked back to where it begins.

What follows an image makes a node of its own for each image operator on the path, with the operator's arguments and
random bits: a random window is not drawn a second time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.operator import Operator
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.trace import DataNode
from penstock.image.image_operator import ImageDecoder, ImageOperator
from penstock.operators.elementwise.constant import ConstantValue

Begin = Callable[[Value], DataNode]
"""What follows from the beginning of a path: the images there."""

Go = Callable[["PathSegment", DataNode], DataNode]
"""What follows after a stretch of the path, from what follows before it."""


@dataclass(frozen=True)
class PathSegment:
    """An image operator on the path.

    Args:
        node: the node.
        operator: what it does.
        layout: of the images that it takes.
    """

    node: Node
    operator: ImageOperator
    layout: str

    @property
    def given(self) -> Spec:
        """The images that it takes."""
        return self.node.inputs[0].spec

    @property
    def arguments(self) -> dict[str, Any]:
        """Its arguments as `apply` takes them."""
        return {n: DataNode(v) if isinstance(v, Value) else v for n, v in self.node.arguments.items()}


@dataclass
class ImageLineage:
    """Walks back from images.

    Args:
        kind: the operator that follows, for messages.
        since: the images where paths begin; None for what a reader or decoder gives.
        begin: says what follows at the beginning.
        go: says what follows after an image operator.
    """

    kind: str
    since: Value | None
    begin: Begin
    go: Go
    _found: dict[Value, tuple[DataNode, str]] = field(default_factory=dict[Value, tuple[DataNode, str]])

    def to(self, images: Value) -> tuple[DataNode, str]:
        """What follows the images, and their layout.

        Raises:
            DefinitionError: on the path is something of which nobody knows where it moves pixels.
        """
        if images not in self._found:
            self._found[images] = self._to(images)
        return self._found[images]

    def _to(self, images: Value) -> tuple[DataNode, str]:
        node, operator = images.node, images.node.operator
        if images == self.since:
            return self.begin(images), image_layout_of(images, self.kind)
        if operator.pixel_aligned:
            return self._together(node, images)
        if isinstance(operator, ImageOperator):
            before, layout = self.to(node.inputs[0])
            stretch = PathSegment(node, operator, layout)
            return self.go(stretch, before), images.spec.layout or layout
        if isinstance(operator, BranchSelect):
            return self._select(node, operator)
        made_here = isinstance(operator, ImageDecoder) or all(len(value.spec.shape) < 2 for value in node.inputs)
        if made_here and self.since is None:
            return self.begin(images), image_layout_of(images, self.kind)
        raise self._refusal(node, operator)

    def _together(self, node: Node, images: Value) -> tuple[DataNode, str]:
        """What follows images that are computed from others, each of which it follows to the same place."""
        found = [self.to(value) for value in node.inputs if _has_places_of(images.spec, value)]
        if not found or any(each is not found[0][0] for each, _ in found):
            raise self._refusal(node, node.operator)
        return found[0][0], images.spec.layout or found[0][1]

    def _select(self, node: Node, operator: BranchSelect) -> tuple[DataNode, str]:
        """What follows the branches of a condition, chosen as the images are."""
        guards, values = node.inputs[: operator.branches], node.inputs[operator.branches :]
        followed, layouts = zip(*map(self.to, values), strict=True)
        if all(each is followed[0] for each in followed):
            return followed[0], layouts[0]
        return apply(operator, *map(DataNode, guards), *followed, beside=node), layouts[0]

    def _refusal(self, node: Node, operator: Operator) -> DefinitionError:
        if self.since is not None and not node.inputs:
            return DefinitionError(
                f"fn.{self.kind}: the images do not come from those that since= names",
                given=f"since={self.since}, made at {self.since.node.where}",
                expected="images that became these by image operators",
            )
        what = "mixes images" if operator.pixel_aligned else "may move pixels, and does not say where"
        return DefinitionError(
            f"fn.{self.kind} cannot follow images through fn.{node.kind}: it {what}",
            given=f"{node}, made at {node.where}",
            expected="image operators, and what changes values alone",
            fix="give the images from before it; or, where data belong to images from after it, name these by since=",
        )


def _has_places_of(images: Spec, value: Value) -> bool:
    """Whether what images are computed from has pixels in places, and not the same number for all of them."""
    if len(value.spec.shape) != len(images.shape) or isinstance(value.node.operator, ConstantValue):
        return False
    extents = zip(value.spec.shape, images.shape, strict=True)
    return not any(own == 1 != other for own, other in extents)


def image_layout_of(images: Value, kind: str) -> str:
    """The layout of images, or the usual one for as many axes.

    Raises:
        DefinitionError: they are none.
    """
    spec = images.spec
    layout = spec.layout or {2: "HW", 3: "HWC", 4: "FHWC"}.get(len(spec.shape), "")
    if not {"H", "W"} <= set(layout) or "D" in layout:
        raise DefinitionError(f"fn.{kind} follows images", given=f"{images}: {spec}", expected="a layout with H and W")
    return layout
