"""Device program: the nodes placed on the device, traced into one jitted, sharded function."""

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from penstock.core.thread_clock import ThreadClock, count_compilation
from penstock.engine.transfer.batch_layout import BatchLayout
from penstock.errors import DefinitionError, InternalError, PenstockError
from penstock.graph import BatchContext, BatchKernel, DeviceContext, DeviceKernel, Node, Value
from penstock.graph.ir.fusion_contract import FusibleOperator
from penstock.numerics.random_bits import random_bits
from penstock.plan.engine_operators import HostDescription
from penstock.plan.plan import Plan

# The arrays of each stateful node, replicated on all devices. They are never donated, so snapshots need no copy.
State = tuple[tuple[jax.Array, ...], ...]


class DeviceProgram:
    """Computes the outputs that come from the device. JAX compiles it once per number of rows.

    Args:
        plan: The plan; its device part is not empty.
        seed: Seed of the definition's random numbers.
        layout: Layout of inputs and outputs on the devices.
    """

    def __init__(self, plan: Plan, seed: int, layout: BatchLayout) -> None:
        self._plan = plan
        self._seed = seed
        self._layout = layout
        self._context = DeviceContext(layout.mesh, layout.axes, layout.all_devices)
        self._stateful = stateful(plan)
        self._traced = False
        groups = {node: nodes for nodes in plan.fusion_groups for node in nodes}
        members = [groups.get(node, (node,)) for node in plan.device]
        self._groups = [nodes for nodes, node in zip(members, plan.device, strict=True) if node is nodes[-1]]
        self.numbers = tuple(n for n, value in enumerate(plan.graph.outputs) if plan.on_device(value))
        # The compiled function must not keep this object alive: the two would form a cycle.
        this = weakref.ref(self)

        def compute(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            program = this()
            assert program is not None  # it is being called
            return program._compute(state, arrays)  # noqa: SLF001  # same class

        self._run = layout.compile(compute, self.numbers)

    def place(self, state: Sequence[Sequence[Any]]) -> State:
        """Put a state that the host holds on all devices."""
        return tuple(tuple(map(self._layout.put_replicated, arrays)) for arrays in state)

    def __call__(self, state: State, arrays: Sequence[jax.Array]) -> tuple[State, tuple[jax.Array, ...]]:
        """Dispatch the program on values of the host, followed by the mask if rows may be skipped.

        Call it on the consumer's thread only. Does not wait for the device.
        """
        self._traced = False
        clock = ThreadClock()
        result = self._run(state, tuple(arrays))
        # JAX traces and compiles in the call, and returns without waiting for the computation.
        if self._traced:
            count_compilation(clock)
        return result

    def _compute(self, state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        self._traced = True
        arrays, mask = (arrays[:-1], arrays[-1]) if self._plan.masks_bad_rows else (arrays, None)
        values: dict[Value, Any] = dict(zip(self._plan.crossing, arrays, strict=True))
        states = dict(zip(self._stateful, state, strict=True))
        rows = arrays[0].shape[0]
        for nodes in self._groups:
            node = nodes[-1]
            # Profilers show operators by these names.
            with jax.named_scope(node.kind):
                if len(nodes) > 1 or not isinstance(node.operator, BatchKernel | DeviceKernel):
                    columns = [self._compute_group(nodes, rows, values)]
                else:
                    columns = self._compute_node(node, rows, values, states)
            for value, column in zip(node.values, columns, strict=True):
                # The spec of a jax_function was traced for one number of rows; the last batch may have fewer.
                if column.shape != (rows, *value.spec.fixed_shape) or column.dtype != value.spec.dtype:
                    raise _shape_error(value, column, rows)
                values[value] = column
        outputs = tuple(values[self._plan.graph.outputs[number]] for number in self.numbers)
        if mask is not None:
            outputs = tuple(_masked(output, mask) for output in outputs)
        return tuple(states.values()), outputs

    def _compute_group(self, nodes: Sequence[Node], rows: int, values: dict[Value, Any]) -> Any:
        """Trace a group of fused operators. Returns the output of the last one."""
        description = self._plan.host_descriptions.get(nodes[-1])
        if description is not None:  # the host computed the numbers, and perhaps put ragged images on canvases
            numbers, *canvas = description.values
            data = values[canvas[0] if canvas else nodes[0].inputs[0]]
            with jax.numpy_dtype_promotion("standard"):
                return cast(HostDescription, description.operator).canvas.trace(data, values[numbers])
        arguments = [_arguments(node, rows, values, described=True) for node in nodes]
        bits = [self._bits(node, values) for node in nodes]
        chain = cast(FusibleOperator, nodes[0].operator).fusion_group([node.as_fused for node in nodes])
        with jax.numpy_dtype_promotion("standard"):
            return chain.trace(values[nodes[0].inputs[0]], arguments, bits)

    def _bits(self, node: Node, values: dict[Value, Any]) -> Any:
        """Return the random bits of a node for all rows; None if it draws none."""
        counters, count = self._plan.counters, node.operator.random_bits
        if not count or counters is None:
            return None
        # The same generator and counters as on the host, so that placement does not change random numbers.
        return random_bits(jnp, *node.key(self._seed), values[counters], count)

    def _compute_node(self, node: Node, rows: int, values: dict[Value, Any], states: dict[Node, Any]) -> Sequence[Any]:
        """Trace a node. Returns its outputs and replaces its state in `states`."""
        inputs = [values[value] for value in node.inputs]
        arguments = _arguments(node, rows, values)
        if isinstance(node.operator, DeviceKernel):
            state, outputs = node.operator.trace(self._context, states.get(node, ()), *inputs, **arguments)
            if node in states:
                states[node] = state
            return outputs
        kernel, random = node.operator, self._bits(node, values)
        assert isinstance(kernel, BatchKernel)
        # Kernels state every conversion, so that NumPy and XLA agree. Strict promotion reports a missing one.
        with jax.numpy_dtype_promotion("strict"):
            result = kernel.batch(BatchContext(jnp, rows, random, specs=node.specs), *inputs, **arguments)
        return result if isinstance(result, tuple) else (result,)


def _arguments(node: Node, rows: int, values: Mapping[Value, Any], *, described: bool = False) -> dict[str, Any]:
    """Return the arguments of a node. Arguments in its schema have an entry per row.

    Args:
        node: The node.
        rows: Number of rows.
        values: Values computed so far.
        described: True for fused operators, which describe their work with NumPy: constants then have one entry.
    """
    # Fused operators describe windows and tables with NumPy while tracing, so their constants stay NumPy arrays.
    arguments: dict[str, Any] = {}
    for name, value in node.arguments.items():
        schema = node.schema.get(name)
        varying = isinstance(value, Value)
        column = values[value] if isinstance(value, Value) else value
        if schema is not None:
            constant = described and not varying
            column = schema.broadcast_rows(np if constant else jnp, column, 1 if constant else rows, varying=varying)
        arguments[name] = column
    return arguments


def stateful(plan: Plan) -> tuple[Node, ...]:
    """Return the nodes of a plan that carry a state from batch to batch."""
    return tuple(
        node for node in plan.device if isinstance(node.operator, DeviceKernel) and node.operator.initial_state
    )


def _masked(output: Any, valid: Any) -> Any:
    """Return an output with zeros in skipped rows. The host filled their inputs with zeros, so results may be NaN."""
    return jnp.where(valid.reshape(-1, *[1] * (output.ndim - 1)), output, jnp.zeros((), output.dtype))


def _shape_error(value: Value, column: Any, rows: int) -> PenstockError:
    actual = f"{column.dtype}{list(column.shape[1:])}, {column.shape[0]} rows"
    if not isinstance(value.node.operator, DeviceKernel):
        return InternalError(f"the kernel of {value} does not give what its spec rule says", given=actual)
    return DefinitionError(
        f"{value} has a different shape for {rows} rows than when it was traced first",
        given=actual,
        expected=value.spec,
        where=value.node.where,
    )
