"""jax_function: JAX functions of the user in the device program."""
# pyright: basic
# Much of what JAX exports has no or only partial types, which strict mode rejects.

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from penstock.core import Array
from penstock.errors import ArgumentTypeError, DefinitionError, short_repr
from penstock.graph import OperatorFunction, PerformanceHint, Range, apply_many, common_arguments, operator
from penstock.graph.identity.call_record import current_call
from penstock.graph.tracing.trace import DataNode, as_value, defining_trace
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.jax_program import JaxProgram
from penstock.operators.user_code.outputs import per_output

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
    """Make an operator of a JAX function. Use it as a decorator, with or without arguments, or call it.

    The function becomes part of the device program: XLA compiles it together with the operators around it. It takes and
    returns arrays with a leading axis of rows. Operators that follow it run on the device, too, so its outputs cannot
    be inputs of operators that run on the host.

    Without `sharding`, the function sees the rows of one device, as if there were no other devices. With `sharding`, it
    sees the global array, laid out over all devices and processes, and may use collectives under `jax.jit`,
    `jax.shard_map` and `jax.vmap`. If a function mixes the rows of a shard, its results depend on how batches are
    divided: the guarantee that batches do not depend on the number of devices does not hold for it.

    The function runs a few times while the program is traced, not once per batch, and so do its Python side effects.
    For a side effect per batch, use a callback of JAX (`jax.debug.callback`). Code that JAX cannot trace belongs in
    `fn.python_function`. For random numbers, pass `fn.random.keys()` as an input: a key per sample that depends only on
    the position of the sample in the epoch.

    With `state`, the function carries values from batch to batch: it is called as ``function(state, *arrays)`` and
    returns ``(new state, outputs)``. It then sees the global array, and every device holds the whole state. The state
    is part of `iterator.get_state()`. An iterator over such a definition needs it to move to another step.

    Args:
        function: Function of one array per input, (rows, ...). Returns as many arrays as `num_outputs`, with as many
            rows.
        num_outputs: 1 for an array, more for a tuple or list of arrays, 0 for None.
        output_layouts: Layout of the samples of all outputs, or a list with one per output. By default, an output has
            the layout of the input of the same index if it has as many axes.
        sharding: A `NamedSharding` over the devices of the iterator's batches.
        state: State before the first batch, a pytree of arrays and numbers.

    Returns:
        A function of nodes, arrays and numbers that returns a node, or a list of nodes unless `num_outputs` is 1.
        Without `function`, a decorator.

    Raises:
        DefinitionError: While the definition is traced, JAX cannot trace the function, or it returns other values than
            it should.

    Example:
        >>> import jax, numpy as np, penstock
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
    device = common.get("device")
    if device not in (None, "cpu", "gpu"):
        raise ArgumentTypeError("unknown device", given=short_repr(device), expected='"cpu", "gpu" or None')
    if sharding is not None and not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)):
        raise DefinitionError(
            "sharding must be a jax.sharding.NamedSharding over a Mesh of devices",
            given=f"{short_repr(sharding)} of type {type(sharding).__name__}",
        )
    leaves, structure = _initial_state(state)
    program = JaxProgram(
        code=FunctionIdentity(function),
        num_outputs=num_outputs,
        layouts=tuple(per_output("output_layouts", output_layouts, num_outputs)),
        whole=sharding is not None or state is not None,
        initial_state=leaves,
        structure=structure,
        sharding=sharding,
    )

    def call(*inputs: DataNode) -> Any:
        resolved = _with_rows(program).resolve_shapes(list(map(as_value, inputs)))
        nodes = apply_many(resolved, *inputs)
        return nodes[0] if num_outputs == 1 else nodes

    call.__name__, call.__doc__ = program.code.name, function.__doc__
    return OperatorFunction(_KIND, call, maker=current_call(), defaults=common)


def _with_rows(program: JaxProgram) -> JaxProgram:
    """Return the operator with the number of rows that the function will see, for abstract evaluation."""
    trace = defining_trace()
    rows = trace.rows
    if program.whole:
        rows = trace.batch
        # A trace of one shard knows the rows of its block only. A multiple of the mesh lets shard_map divide them.
        if program.sharding is not None and rows % program.sharding.mesh.size:
            rows *= program.sharding.mesh.size
    return replace(program, rows=rows)


def _initial_state(state: Any) -> tuple[tuple[Array, ...], Any]:
    """Return the leaves of a state as copied NumPy arrays, and the tree structure."""
    if state is None:
        return (), None
    leaves, structure = jax.tree.flatten(state)
    if not leaves:
        raise DefinitionError("the state holds no arrays", given=state, fix="leave state= out")
    arrays: list[Array] = []
    for leaf in leaves:
        # Typed PRNG keys have no NumPy form, which saved states need.
        if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise DefinitionError("a state must hold arrays of numbers", given=leaf, fix="jax.random.key_data")
        try:
            array = np.asarray(leaf)
        except Exception:  # noqa: BLE001  # array-likes of other libraries may raise anything
            array = np.empty(0, object)
        if array.dtype.kind not in "biufcV":
            raise DefinitionError("a state must hold arrays and numbers", given=short_repr(leaf))
        # Without x64, JAX would narrow the leaves in the first step, and the state would change its dtype.
        narrow = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
        if array.dtype.kind in "iu" and (narrow != array).any():
            raise DefinitionError(
                f"a number of the state does not fit {narrow.dtype}, the dtype that JAX gives it",
                given=short_repr(leaf),
                fix="floats or smaller numbers, or jax_enable_x64",
            )
        arrays.append(narrow)
    return tuple(arrays), structure
