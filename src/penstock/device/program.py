"""The device program: the nodes that the planner placed on the device, traced into one function for XLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from penstock.data.words import words
from penstock.errors import InternalError
from penstock.graph.node import Node, Value
from penstock.graph.operator import BatchContext, BatchKernel
from penstock.plan.plan import Plan
from penstock.transfer.layout import Layout


class DeviceProgram:
    """Computes the outputs that come from the device. JAX compiles it once for each number of rows.

    Args:
        plan: the plan; its device part is not empty.
        seed: what all random numbers of the definition derive from.
        layout: how its inputs and outputs lie on the devices.
    """

    def __init__(self, plan: Plan, seed: int, layout: Layout) -> None:
        self._plan = plan
        self._seed = seed
        self.numbers = tuple(n for n, value in enumerate(plan.graph.outputs) if plan.on_device(value))
        self._run = layout.compile(self._compute, self.numbers)

    def __call__(self, arrays: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        """Dispatch it on the crossing values. Called on the consumer's thread only; does not wait for the device."""
        return self._run(*arrays)

    def _compute(self, *arrays: Any) -> tuple[Any, ...]:
        values: dict[Value, Any] = dict(zip(self._plan.crossing, arrays, strict=True))
        rows = arrays[0].shape[0]
        with jax.numpy_dtype_promotion("strict"):  # kernels state every conversion, so that NumPy and XLA agree
            for node in self._plan.device:
                self._compute_node(node, rows, values)
        return tuple(values[self._plan.graph.outputs[number]] for number in self.numbers)

    def _compute_node(self, node: Node, rows: int, values: dict[Value, Any]) -> None:
        kernel = node.operator
        assert isinstance(kernel, BatchKernel)
        counters = self._plan.counters
        random = None
        if node.operator.words and counters is not None:
            random = words(jnp, *node.key(self._seed), values[counters], node.operator.words)
        arguments = {n: values[v] if isinstance(v, Value) else v for n, v in node.arguments.items()}
        context = BatchContext(jnp, rows, random)
        with jax.named_scope(node.kind):
            result = kernel.batch(context, *[values[value] for value in node.inputs], **arguments)
        for value, column in zip(node.values, result if isinstance(result, tuple) else (result,), strict=True):
            if column.shape != (rows, *value.spec.sizes) or column.dtype != value.spec.dtype:
                raise InternalError(
                    f"the batch kernel of {value} does not give what its spec rule says",
                    given=f"{column.dtype}{list(column.shape[1:])}",
                    expected=value.spec,
                )
            values[value] = column
