"""Which values must have one shape for all samples, though the definition does not tell that they do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.core.spec import ShapeKind, Spec
from penstock.errors import PenstockError
from penstock.graph.ir.node import Graph, Node, Value, infer_specs

Shapes = Mapping[Value, tuple[int, ...]]


def values_needing_one_shape(graph: Graph, *, dense_outputs: bool) -> tuple[Value, ...]:
    """The ragged values of which a consumer needs one shape.

    Two kinds of consumer do: an iterator, which delivers arrays, and an operator that says so (`needs_one_shape`: a
    reshape to a fixed shape). Of what only the device program computes, the inputs are meant: sample 0 of them can be
    looked at.

    Args:
        graph: the definition.
        dense_outputs: whether its outputs must be dense.
    """
    todo = list(graph.outputs) if dense_outputs else []
    todo += [value for node in graph.nodes if node.operator.needs_one_shape for value in node.inputs]
    found: dict[Value, None] = {}
    while todo:
        value = todo.pop()
        if value.spec.extent is not ShapeKind.RAGGED:
            continue
        if value.node.device_only:
            todo += value.node.sources
        else:
            found[value] = None
    return tuple(found)


def ragged_sources(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The values and all ragged values that they are computed from."""
    found: dict[Value, None] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in found and value.spec.extent is ShapeKind.RAGGED:
            found[value] = None
            todo += value.node.sources
    return tuple(found)


def propagate_shapes(values: tuple[Value, ...], shapes: Shapes) -> Shapes:
    """The shapes that are assumed for all samples: of the values demanded, and of what these pin down.

    If samples of a flipped image have one shape, so have the images, and are better known to. A padded image says
    nothing of the image it came from. So a demand passes to an input only where another extent of it would give another
    shape.

    Args:
        values: those of which one shape is demanded.
        shapes: what sample 0 showed of these and of all ragged values that they are computed from.
    """
    found: dict[Value, tuple[int, ...]] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in found:
            found[value] = shapes[value]
            todo += [source for source in dict.fromkeys(value.node.sources) if _pinned(value, source, shapes)]
    return found


def _pinned(value: Value, source: Value, shapes: Shapes) -> bool:
    """Whether another shape of a source would give another shape of the value, for all samples of the source."""
    if source not in shapes or source.node.guard != value.node.guard:
        return False

    def shape(changed: tuple[int, ...]) -> tuple[int | None, ...] | None:
        known = {each: each.spec.probe(shapes[each]) for each in value.node.sources if each in shapes}
        known[source] = source.spec.probe(changed)
        try:
            return infer_specs(value.node.operator, value.node.inputs, value.node.arguments, known)[value.index].shape
        except PenstockError:
            return None

    own = shapes[source]
    at_sample_0 = shape(own)
    if at_sample_0 is None or None in at_sample_0:
        return False
    unknown = [at for at, extent in enumerate(source.spec.shape) if extent is None]
    others = [(at, own[at] + by) for at in unknown for by in (-1, 1) if own[at] + by > 0]
    return all(shape((*own[:at], extent, *own[at + 1 :])) not in (None, at_sample_0) for at, extent in others)


def apply_shapes(graph: Graph, shapes: Shapes) -> Graph:
    """The graph with the shapes that are assumed for all samples, and all specs that follow from them.

    Raises:
        DefinitionError: an operator cannot work on what sample 0 is.
    """
    probed = {(value.node.id, value.index): shape for value, shape in shapes.items()}

    def with_specs(node: Node) -> Node:
        try:
            specs = infer_specs(node.operator, node.inputs, node.arguments)
        except PenstockError as error:
            error.where = error.where or node.where
            raise
        return replace(node, specs=tuple(_seen(spec, probed.get((node.id, n))) for n, spec in enumerate(specs)))

    return graph.rewrite(with_specs)


def _seen(spec: Spec, shape: tuple[int, ...] | None) -> Spec:
    return spec if shape is None or spec.dense else spec.probe(shape)
