"""jax_function: a user's own function for JAX as an operator of the device program."""
# pyright: basic
# what JAX exports is typed in part only

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from penstock.core.columns import Array
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph.arguments.argument_marks import PerformanceHint, Range
from penstock.graph.identity.call_record import current_call
from penstock.graph.tracing.apply import apply_many
from penstock.graph.tracing.registry import OperatorFunction, common_arguments, operator
from penstock.graph.tracing.trace import DataNode, as_value, defining_trace
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.jax_program import JaxProgram

_KIND = "jax_function"


@operator(_KIND, defaults={"preserve": True})
def jax_function(
    function: Callable[..., Any] | None = None,
    *,
    num_outputs: Annotated[int, Range(0, 1000)] = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: PerformanceHint[Any] = None,
    state: Any = None,
) -> Any:
    """Make an operator of a function for JAX. To be used as a decorator, with or without arguments, or called.

    The function becomes a part of the device program: XLA compiles it together with the operators around it. It takes
    and returns arrays with a leading axis of rows. What is computed from its outputs is on the device, too: they
    cannot be the inputs of operators that work on the host.

    Without `sharding`, the function sees the rows of one device, as if there were no others. With `sharding`, it sees
    the global array, laid out over all devices and processes, and may use collectives under `jax.jit`,
    `jax.shard_map` and `jax.vmap`. A function that mixes rows gives batches that depend on how they are cut: the
    promise that batches do not depend on the number of devices cannot hold for it.

    The function runs while the program is traced, a few times, not once per batch: side effects in Python happen then;
    those that are to happen with each batch need a callback of JAX's (`jax.debug.callback`). What JAX cannot trace
    belongs in `fn.python_function`. For random numbers, give it `fn.random.keys()` as one more input: a key per
    sample, that depends on the sample's place in the epoch and on nothing else.

    With `state`, the function carries something from batch to batch: it is called as ``function(state, *arrays)``
    and returns ``(new state, outputs)``. It then sees the global array, and every device holds the whole state. The
    state is part of `iterator.get_state()`; an iterator over such a definition cannot go to a step without it.

    Args:
        function: from arrays `(rows, ...)`, one per input, to as many arrays as `num_outputs` says, with as many rows.
        num_outputs: 1 for an array, more for a tuple or list of arrays, 0 for None.
        output_layouts: the layout of the outputs' samples, one for all or one per output. Without it an output has the
            layout of the input of the same number, if it has as many axes.
        sharding: a `NamedSharding` over the devices of the iterator's batches.
        state: the state before the first batch, a pytree of arrays and numbers.

    Returns:
        A function of nodes, arrays and numbers that returns a node, or a list of nodes where `num_outputs` is not 1.
        Without `function`, a decorator.

    Raises:
        DefinitionError: while the definition is traced: JAX cannot trace the function, or it returns something else
            than it should.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> @fn.jax_function
        ... def halve(numbers):
        ...     return numbers / 2
        >>> @fn.jax_function(state=np.float32(0))
        ... def relative(largest, numbers):
        ...     largest = jax.numpy.maximum(largest, numbers.max())
        ...     return largest, numbers / largest
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     numbers = fn.readers.arrays(np.float32([1, 4, 2, 2]))
        ...     pipeline.set_outputs(halve(numbers), relative(numbers))
        >>> [[output.as_array().tolist() for output in pipeline.run()] for _ in range(2)]
        [[[0.5, 2.0], [0.25, 1.0]], [[1.0, 1.0], [0.5, 0.5]]]
    """
    common = common_arguments()
    if function is None:
        return lambda function: jax_function(
            function,
            num_outputs=num_outputs,
            output_layouts=output_layouts,
            sharding=sharding,
            state=state,
            **cast(Any, common),
        )
    if not callable(function):
        raise ArgumentTypeError(f"fn.{_KIND} takes a function", given=short_repr(function))
    device = common.get("device")
    if device not in (None, "cpu", "gpu"):
        raise ArgumentTypeError(
            f"fn.{_KIND}: no such device", given=short_repr(device), expected='"cpu", "gpu" or None'
        )
    if sharding is not None and not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)):
        raise DefinitionError(
            f"fn.{_KIND}: sharding must be a jax.sharding.NamedSharding over a Mesh of devices",
            given=f"{short_repr(sharding)} of type {type(sharding).__name__}",
        )
    leaves, structure = _initial(state)
    made = JaxProgram(
        code=FunctionIdentity(function),
        num_outputs=num_outputs,
        layouts=_layouts(output_layouts, num_outputs),
        whole=sharding is not None or state is not None,
        initial_state=leaves,
        structure=structure,
        sharding=sharding,
    )

    def call(*inputs: DataNode) -> Any:
        settled = _for_rows(made).settled(list(map(as_value, inputs)))
        nodes = apply_many(settled, *inputs)
        return nodes[0] if num_outputs == 1 else nodes

    call.__name__, call.__doc__ = made.code.name, function.__doc__
    return OperatorFunction(_KIND, call, maker=current_call(), defaults=common)


def _for_rows(made: JaxProgram) -> JaxProgram:
    """The operator, to be tried with as many rows as it will see."""
    trace = defining_trace()
    rows = trace.rows
    if made.whole:
        rows = trace.batch
        if made.sharding is not None and rows % made.sharding.mesh.size:  # the rows of one block are known, not all
            rows *= made.sharding.mesh.size
    return replace(made, rows=rows)


def _layouts(given: str | Sequence[str] | None, count: int) -> tuple[str | None, ...]:
    if given is None or isinstance(given, str):
        return (given,) * count
    if len(given) != count:
        raise DefinitionError(
            f"fn.{_KIND}: output_layouts has one layout, or one per output",
            given=f"{len(given)} layouts",
            expected=f"{count}",
        )
    return tuple(given)


def _initial(state: Any) -> tuple[tuple[Array, ...], Any]:
    """The leaves of a state as arrays of the host, copied, and their structure."""
    if state is None:
        return (), None
    leaves, structure = jax.tree.flatten(state)
    if not leaves:
        raise DefinitionError(f"fn.{_KIND}: the state holds no arrays", given=state, fix="leave state= out")
    arrays: list[Array] = []
    for leaf in leaves:
        if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise DefinitionError(f"fn.{_KIND}: a state holds arrays of numbers", given=leaf, fix="jax.random.key_data")
        try:
            array = np.asarray(leaf)
        except Exception:  # noqa: BLE001  # whatever an array-like of somebody else's raises
            array = np.empty(0, object)
        if array.dtype.kind not in "biufcV":
            raise DefinitionError(f"fn.{_KIND}: a state holds arrays and numbers", given=short_repr(leaf))
        arrays.append(array.astype(jax.dtypes.canonicalize_dtype(array.dtype)))
    return tuple(arrays), structure
