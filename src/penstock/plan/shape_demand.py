"""Shape demand: ragged values that must have one shape for all samples."""

from collections.abc import Mapping
from dataclasses import replace

from penstock.core import ShapeKind, Spec
from penstock.errors import PenstockError
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.graph.ir.node import Graph, Node, Value, infer_specs
from penstock.graph.ir.operator import BatchKernel

Shapes = Mapping[Value, tuple[int, ...]]


def values_needing_one_shape(graph: Graph, *, dense_outputs: bool) -> tuple[Value, ...]:
    """Return the ragged values of which a consumer needs one shape.

    Consumers that need it are iterators, which deliver arrays, operators with `needs_one_shape`, such as a reshape to a
    fixed shape, and operators that compute from a JAX function's output, in a device program of dense arrays.

    Args:
        graph: The definition.
        dense_outputs: True if its outputs must be dense.
    """
    todo = list(graph.outputs) if dense_outputs else []
    todo += [value for node in graph.nodes if node.operator.needs_one_shape or _is_dense(node) for value in node.inputs]
    demanded: dict[Value, None] = {}
    while todo:
        value = todo.pop()
        if value.spec.extent is not ShapeKind.RAGGED:
            continue
        # Sample 0 is computed on the host, so its shape is known only up to the inputs of device-only nodes.
        if value.node.device_only:
            todo += value.node.sources
        else:
            demanded[value] = None
    return tuple(demanded)


def _is_dense(node: Node) -> bool:
    # Images of fused operators may be ragged: they have a canvas.
    operator = node.operator
    return node.device_only and isinstance(operator, BatchKernel) and not isinstance(operator, FusibleOperator)


def ragged_sources(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the values and all ragged values that they are computed from."""
    visited: dict[Value, None] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in visited and value.spec.extent is ShapeKind.RAGGED:
            visited[value] = None
            todo += value.node.sources
    return tuple(visited)


def propagate_shapes(values: tuple[Value, ...], shapes: Shapes) -> Shapes:
    """Return the shapes to assume for all samples: those of the values, and of the inputs that they determine.

    If all flipped images have one shape, so do the images. Padded images, however, say nothing about the images. So a
    demand propagates to an input only if another extent of the input would change the shape of the output.

    Args:
        values: The values that need one shape.
        shapes: The shapes of sample 0, of these and of all ragged values that they are computed from.
    """
    assumed: dict[Value, tuple[int, ...]] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if value not in assumed:
            assumed[value] = shapes[value]
            todo += [source for source in dict.fromkeys(value.node.sources) if _determines(value, source, shapes)]
    return assumed


def _determines(value: Value, source: Value, shapes: Shapes) -> bool:
    """True if any other shape of a source would change the shape of the value."""
    # A value in a branch says nothing about rows outside of the branch.
    if source not in shapes or source.node.guard != value.node.guard:
        return False

    def shape(changed: tuple[int, ...]) -> tuple[int | None, ...] | None:
        known = {item: item.spec.probe(shapes[item]) for item in value.node.sources if item in shapes}
        known[source] = source.spec.probe(changed)
        try:
            return infer_specs(value.node.operator, value.node.inputs, value.node.arguments, known)[value.index].shape
        except PenstockError:
            return None

    own = shapes[source]
    at_sample_0 = shape(own)
    if at_sample_0 is None or None in at_sample_0:
        return False
    # One more and one less in each open extent stand for all other shapes.
    unknown = [at for at, extent in enumerate(source.spec.shape) if extent is None]
    others = [(at, own[at] + by) for at in unknown for by in (-1, 1) if own[at] + by > 0]
    return all(shape((*own[:at], extent, *own[at + 1 :])) not in (None, at_sample_0) for at, extent in others)


def apply_shapes(graph: Graph, shapes: Shapes) -> Graph:
    """Return the graph with the assumed shapes, and all specs that follow from them.

    Raises:
        DefinitionError: an operator does not accept the shape of sample 0.
    """
    probed = {(value.node.id, value.index): shape for value, shape in shapes.items()}

    def with_specs(node: Node) -> Node:
        try:
            specs = infer_specs(node.operator, node.inputs, node.arguments)
        except PenstockError as error:
            error.where = error.where or node.where
            raise
        return replace(node, specs=tuple(_with_shape(spec, probed.get((node.id, n))) for n, spec in enumerate(specs)))

    return graph.rewrite(with_specs)


def _with_shape(spec: Spec, shape: tuple[int, ...] | None) -> Spec:
    return spec if shape is None or spec.dense else spec.probe(shape)
