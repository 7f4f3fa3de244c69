"""jax_function: a user's own function for JAX as an operator of the device program."""
# pyright: basic
# what JAX exports is typed in part only

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.data.source import Array
from penstock.data.spec import Spec
from penstock.errors import ArgumentTypeError, DefinitionError, PenstockError, UsageError
from penstock.graph.call import Hint, running
from penstock.graph.operator import DeviceContext, DeviceKernel, Operator
from penstock.graph.registry import named, operator
from penstock.graph.trace import DataNode, apply_many, current_trace
from penstock.operators.axes import check_layout
from penstock.operators.user_code.code import UserCode

_FILLERS = (96, 160)
"""Extents that stand for an unknown one while a function is tried: what differs between the two is unknown after it."""

_KIND = "jax_function"


@dataclass(frozen=True)
class JaxFunction(Operator, DeviceKernel):
    """A function from arrays to arrays.

    Args:
        code: the function.
        num_outputs: how many arrays it returns.
        layouts: per output the layout of a sample, or None where the input of the same number tells it.
        whole: whether it sees the rows of all devices as one global array, or those of one device.
        initial: the leaves of the state that it carries, if it carries one.
        structure: how the leaves form that state; None where there is none.
        sharding: over which mesh a function that sees everything computes; None leaves that to the compiler.
        rows: with how many rows it is tried while the definition is traced.
    """

    code: UserCode
    num_outputs: int
    layouts: tuple[str | None, ...]
    whole: bool
    initial: tuple[Array, ...] = ()
    structure: Any = None
    sharding: Any = field(default=None, compare=False)
    rows: int = field(default=1, compare=False)

    @property
    def needs_one_shape(self) -> bool:
        """It takes arrays."""
        return True

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """What JAX says of the function, which is traced for it."""
        results = [self._tried(inputs, filler) for filler in _FILLERS[: 1 if all(s.dense for s in inputs) else 2]]
        specs: list[Spec] = []
        for number, arrays in enumerate(zip(*results, strict=True)):
            shapes = [array.shape[1:] for array in arrays]
            if len({len(shape) for shape in shapes}) > 1:
                raise DefinitionError(f"fn.{_KIND}: the rank of output {number} depends on the extents of the inputs")
            shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))
            specs.append(Spec(np.dtype(arrays[0].dtype), shape, self._layout(number, inputs, len(shape))))
        return tuple(specs)

    def _layout(self, number: int, inputs: Sequence[Spec], ndim: int) -> str:
        like = inputs[number] if number < len(inputs) else Spec(np.dtype(np.uint8), ())
        return check_layout(self.layouts[number], like, ndim, f"fn.{_KIND}, output {number}")

    def _tried(self, inputs: Sequence[Spec], filler: int) -> Sequence[jax.ShapeDtypeStruct]:
        """The outputs of the function on arrays that have no contents."""
        given = [
            jax.ShapeDtypeStruct(
                (self.rows, *(filler if size is None else size for size in spec.shape)),
                jax.dtypes.canonicalize_dtype(spec.dtype),
            )
            for spec in inputs
        ]
        state = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in self.initial)
        call = self._on_all if self.whole else self._call
        try:
            _, outputs = jax.eval_shape(call, state, *given)
        except PenstockError:
            raise
        except Exception as error:
            seen = ", ".join(f"{array.dtype}{list(array.shape)}" for array in given)
            ragged = [spec for spec in inputs if not spec.dense]
            raise DefinitionError(
                f"fn.{_KIND}: {self.code} cannot be traced by JAX: {type(error).__name__}: {error}",
                given=f"arrays {seen or 'none'}" + (f", where {filler} stands for an unknown extent" if ragged else ""),
                fix="compute with jax.numpy; what needs NumPy arrays or other libraries can run on the host, sample by "
                "sample, in fn.python_function",
            ) from error
        self._check_rows(outputs)
        return cast(Sequence[jax.ShapeDtypeStruct], outputs)

    def _call(self, state: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The function, with what it returns brought into one form."""
        if self.structure is None:
            return (), self._outputs(self.code(*arrays))
        result = self.code(jax.tree.unflatten(self.structure, state), *arrays)
        if not isinstance(result, tuple) or len(cast(tuple[Any, ...], result)) != 2:
            raise DefinitionError(f"fn.{_KIND}: with state=, {self.code} returns (new state, outputs)", given=result)
        new, outputs = cast(tuple[Any, Any], result)
        return self._state(new), self._outputs(outputs)

    def _state(self, new: Any) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(new)
        kinds = [(np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in leaves]
        if structure != self.structure or kinds != [(leaf.shape, leaf.dtype) for leaf in self.initial]:
            raise DefinitionError(
                f"fn.{_KIND}: {self.code} returns a state of another kind than it was given",
                given=jax.tree.unflatten(structure, [f"{dtype}{list(shape)}" for shape, dtype in kinds]),
                expected=jax.tree.unflatten(self.structure, [f"{i.dtype}{list(i.shape)}" for i in self.initial]),
            )
        return tuple(
            jax.lax.convert_element_type(leaf, old.dtype) for leaf, old in zip(leaves, self.initial, strict=True)
        )

    def _outputs(self, result: Any) -> tuple[Any, ...]:
        if self.num_outputs == 0:
            return ()
        outputs = tuple(cast(Sequence[Any], result)) if isinstance(result, tuple | list) else (result,)
        if len(outputs) != self.num_outputs or any(output is None for output in outputs):
            count = 0 if result is None else len(outputs)
            raise DefinitionError(
                f"fn.{_KIND}: {self.code} returns another number of outputs than num_outputs says",
                given=f"{count} outputs",
                expected=f"{self.num_outputs}",
            )
        return outputs

    def _check_rows(self, outputs: Sequence[Any]) -> None:
        for number, output in enumerate(outputs):
            if jax.numpy.issubdtype(output.dtype, jax.dtypes.extended):
                raise DefinitionError(
                    f"fn.{_KIND}: output {number} of {self.code} is no array of numbers", given=output.dtype
                )
            if output.shape[:1] != (self.rows,):
                raise DefinitionError(
                    f"fn.{_KIND}: output {number} of {self.code} needs a leading axis of rows, as its inputs have",
                    given=f"shape {list(output.shape)}",
                    expected=f"[{self.rows}, ...]",
                )

    def trace(
        self, context: DeviceContext, state: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The function on the rows of all devices, or on those of each device by itself."""
        if self.whole:
            self._check_devices(context.devices)
            return self._on_all(state, *inputs)
        if not context.axes:
            return self._call(state, *inputs)
        rows = PartitionSpec(context.axes)
        outputs = jax.shard_map(
            lambda *arrays: self._call((), *arrays)[1],
            mesh=context.mesh,
            in_specs=rows,
            out_specs=rows,
            check_vma=False,
        )(*inputs)
        return (), outputs

    def _on_all(self, state: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The function on global arrays, under the mesh of its own sharding, whatever the kind of its axes."""
        if self.sharding is None:
            return self._call(state, *arrays)
        mesh, batch = self.sharding.mesh, PartitionSpec(*self.sharding.spec[:1])
        kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
        explicit = tuple(name for name, kind in kinds if kind is AxisType.Explicit)
        auto = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))
        with jax.sharding.use_abstract_mesh(auto.abstract_mesh):
            if not explicit:
                return self._call(state, *arrays)
            specs = (tuple(PartitionSpec() for _ in state), *(batch for _ in arrays))
            call: Any = jax.sharding.explicit_axes(self._call, axes=explicit, in_sharding=specs)
            return call(state, *arrays)

    def _check_devices(self, devices: Sequence[Any]) -> None:
        mine = () if self.sharding is None else tuple(self.sharding.mesh.devices.flat)
        if mine not in ((), tuple(devices)):
            raise UsageError(
                f"fn.{_KIND}: its sharding lies on other devices, or in another order, than the batches",
                given=", ".join(map(str, mine)),
                expected=", ".join(map(str, devices)),
                fix="give data_iterator and jax_function the same sharding",
            )


@operator(_KIND)
def jax_function(
    function: Callable[..., Any] | None = None,
    *,
    num_outputs: int = 1,
    output_layouts: str | Sequence[str] | None = None,
    sharding: Hint[Any] = None,
    device: str | None = None,
    preserve: bool = True,
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
    those that shall happen with each batch need a callback of JAX's (`jax.debug.callback`). What JAX cannot trace
    belongs in `fn.python_function`. For random numbers, give it `fn.random.keys()` as one more input: a key per
    sample, that depends on the sample's place in the epoch and on nothing else.

    With `state`, the function carries something from batch to batch: it is called as ``function(state, *arrays)``
    and returns ``(new state, outputs)``. It then sees the global array, and every device holds the whole state. The
    state is part of `iterator.state()`; an iterator over such a definition cannot go to a step without it.

    Args:
        function: from arrays `(rows, ...)`, one per input, to as many arrays as `num_outputs` says, with as many rows.
        num_outputs: 1 for an array, more for a tuple or list of arrays, 0 for None.
        output_layouts: the layout of the outputs' samples, one for all or one per output. Without it an output has the
            layout of the input of the same number, if it has as many axes.
        sharding: a `NamedSharding` over the devices of the iterator's batches.
        device: "cpu" or "gpu", a wish that needs no answer: the function runs where batches are delivered.
        preserve: whether it runs though nothing uses its outputs.
        state: the state before the first batch, a pytree of arrays and numbers.

    Returns:
        A function of nodes, arrays and numbers that returns a node, a tuple of nodes, or None. Without `function`, a
        decorator.

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
    if function is None:
        return lambda function: jax_function(
            function,
            num_outputs=num_outputs,
            output_layouts=output_layouts,
            sharding=sharding,
            device=device,
            preserve=preserve,
            state=state,
        )
    if not callable(function):
        raise ArgumentTypeError(f"fn.{_KIND} takes a function", given=repr(function))
    if num_outputs < 0:
        raise DefinitionError(f"fn.{_KIND}: num_outputs counts outputs", given=num_outputs)
    if device not in (None, "cpu", "gpu"):
        raise ArgumentTypeError(f"fn.{_KIND}: no such device", given=repr(device), expected='"cpu", "gpu" or None')
    if sharding is not None and not (isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)):
        raise DefinitionError(
            f"fn.{_KIND}: sharding must be a jax.sharding.NamedSharding over a Mesh of devices",
            given=f"{sharding!r} of type {type(sharding).__name__}",
        )
    leaves, structure = _initial(state)
    made = JaxFunction(
        code=UserCode(function),
        num_outputs=num_outputs,
        layouts=_layouts(output_layouts, num_outputs),
        whole=sharding is not None or state is not None,
        initial=leaves,
        structure=structure,
        sharding=sharding,
    )
    common = {"device": device, "preserve": preserve}

    def call(*inputs: DataNode) -> Any:
        nodes = apply_many(_for_rows(made), *inputs, common=cast(Any, common))
        return nodes[0] if num_outputs == 1 else nodes or None

    call.__name__, call.__doc__ = made.code.name, function.__doc__
    return named(_KIND, call, running())


def _for_rows(made: JaxFunction) -> JaxFunction:
    """The operator, to be tried with as many rows as it will see."""
    trace = current_trace()
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
        array = np.asarray(leaf)
        if array.dtype.kind not in "biufcV":
            raise DefinitionError(f"fn.{_KIND}: a state holds arrays and numbers", given=repr(leaf))
        arrays.append(array.astype(jax.dtypes.canonicalize_dtype(array.dtype)))
    return tuple(arrays), structure
