"""Lineage of an image: the operators between its reader or decoder and a given node.

For each image operator on the path, a follower adds a node that uses the operator's arguments and random bits, so that
a random window is the same for an image and for its boxes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core import Spec
from penstock.engine.graph_program import GivenColumn
from penstock.errors import DefinitionError
from penstock.graph import DataNode, Input, Node, Operator, StreamInput, Value, apply, assumed_layout
from penstock.graph.ir.branch_operators import BranchSelect
from penstock.image.image_operator import ImageDecoder, ImageOperator
from penstock.operators.cropping.border_window import BorderWindow
from penstock.operators.cropping.pad import PadToLargest
from penstock.operators.elementwise.constant import ConstantValue
from penstock.operators.tensors.transpose import Transpose

# What to do if one of these operators cannot be followed.
_FIXES: Mapping[type[Operator], str] = {
    PadToLargest: "set shape=, or shape=1 to only align extents: otherwise the result depends on the batch",
    BorderWindow: 'out_of_bounds_policy="pad"; border modes show pixels more than once',
}

# Creates the follower's data for the images at which a path begins.
Begin = Callable[[Value], DataNode]

# Advances the follower's data over one image operator.
Go = Callable[["PathSegment", DataNode], DataNode]


@dataclass(frozen=True)
class PathSegment:
    """An image operator on the path.

    Args:
        node: The operator's node.
        operator: The operator.
        layout: Layout of its input images.
        diagonal: True if rows become columns: the operator exchanges the axes of height and width, and the letters keep
            their places.
    """

    node: Node
    operator: ImageOperator
    layout: str
    diagonal: bool

    @property
    def images(self) -> Spec:
        """Spec of the input images."""
        return self.node.inputs[0].spec

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments in the form that `apply` takes."""
        return {n: DataNode(v) if isinstance(v, Value) else v for n, v in self.node.arguments.items()}


@dataclass
class ImageLineage:
    """Traversal from images back to their origin, which builds the follower's nodes.

    Args:
        since: Images at which paths begin; None for the output of a reader or decoder.
        begin: Creates the data at the beginning of a path.
        go: Advances the data over an image operator.
    """

    since: Value | None
    begin: Begin
    go: Go
    # Without this cache, paths that share operators would be followed once per path, and their nodes would differ.
    _cache: dict[Value, tuple[DataNode, str]] = field(default_factory=dict[Value, tuple[DataNode, str]])

    def to(self, images: Value) -> tuple[DataNode, str]:
        """Return the follower's data for the images, and the layout of the images.

        Raises:
            DefinitionError: An operator on the path may move pixels in an unknown way.
        """
        if images not in self._cache:
            self._cache[images] = self._to(images)
        return self._cache[images]

    def _to(self, images: Value) -> tuple[DataNode, str]:
        node, operator = images.node, images.node.operator
        if images == self.since:
            return self.begin(images), image_layout_of(images)
        if operator.pixel_aligned:
            return self._together(node, images)
        if isinstance(operator, ImageOperator):
            before, layout = self.to(node.inputs[0])
            result = images.spec.layout or layout
            return self.go(PathSegment(node, operator, layout, _is_diagonal(node, layout, result)), before), result
        if isinstance(operator, BranchSelect):
            return self._select(node, operator)
        # Inputs with fewer than two axes hold no pixels: this operator creates the image, for example from bytes.
        if isinstance(operator, StreamInput) and isinstance(operator.stream, GivenColumn):
            raise DefinitionError(
                "the operators that computed the images are unknown: they are an array",
                fix="the call in a pipeline, on the node of the images",
            )
        creates_image = isinstance(operator, ImageDecoder) or all(len(value.spec.shape) < 2 for value in node.inputs)
        if creates_image and self.since is None:
            return self.begin(images), image_layout_of(images)
        raise self._refusal(node, operator)

    def _together(self, node: Node, images: Value) -> tuple[DataNode, str]:
        """Return the follower's data for a pixel-aligned operator, whose inputs must all share one path."""
        # Comparing by identity is enough: `to` caches, so equal paths return the same node.
        results = [self.to(value) for value in node.inputs if _has_places_of(images.spec, value)]
        if not results or any(result is not results[0][0] for result, _ in results):
            raise self._refusal(node, node.operator)
        return results[0][0], images.spec.layout or results[0][1]

    def _select(self, node: Node, operator: BranchSelect) -> tuple[DataNode, str]:
        """Follow the branches of a condition and select among the results with the same guards."""
        guards, values = node.inputs[: operator.branches], node.inputs[operator.branches :]
        followed, layouts = zip(*map(self.to, values), strict=True)
        # No branch moves pixels, so there is nothing to select.
        if all(result is followed[0] for result in followed):
            return followed[0], layouts[0]
        return apply(operator, *map(DataNode, guards), *followed, beside=node), layouts[0]

    def _refusal(self, node: Node, operator: Operator) -> DefinitionError:
        if self.since is not None and not node.inputs:
            return DefinitionError(
                "the images are not derived from the images in since=",
                given=f"since={self.since}, created at {self.since.node.where}",
                expected="images from which image operators computed these",
            )
        reason = "mixes images" if operator.pixel_aligned else "may move pixels in an unknown way"
        return DefinitionError(
            f"images cannot be followed through fn.{node.kind}: it {reason}",
            given=f"{node}, created at {node.where}",
            expected="image operators, and operators that only change values",
            fix=_FIXES.get(
                type(operator),
                "pass the images before it; or, if the data refer to the images after it, pass those as since=",
            ),
        )


def _has_places_of(images: Spec, value: Value) -> bool:
    """Return True if the value has pixels of its own and is not a constant or broadcast over the image."""
    if len(value.spec.shape) != len(images.shape) or isinstance(value.node.operator, ConstantValue):
        return False
    extents = zip(value.spec.shape, images.shape, strict=True)
    return not any(own == 1 != other for own, other in extents)


def _is_diagonal(node: Node, layout: str, result: str) -> bool:
    """Return True if an operator exchanges the axes of height and width, but not their letters.

    Args:
        node: The operator's node.
        layout: Layout of its input.
        result: Layout of its result.

    Raises:
        DefinitionError: Other letters do not stay with their axes.
    """
    if not isinstance(node.operator, Transpose):
        return False
    permuted = "".join(layout[axis] for axis in node.operator.perm)
    if permuted == result:
        return False
    if permuted.translate(str.maketrans("HW", "WH")) == result:
        return True
    raise DefinitionError(
        f"images cannot be followed through fn.{node.kind}: letters of the layout do not stay with their axes",
        given=f"axes {permuted} as {result}, {node}, created at {node.where}",
        expected=f"axes {permuted} as {permuted}, or with H and W exchanged",
        fix="set layout= where the images are read, and leave out transpose_layout= and output_layout=",
    )


def image_layout_of(images: Value) -> str:
    """Return the layout of images, by default HW, HWC, or FHWC by the number of axes.

    Raises:
        DefinitionError: The value is not an image.
    """
    Input(axes="HW", without="D", needs="images").check("images", images.spec)
    return assumed_layout(images.spec)
