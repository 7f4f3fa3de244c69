"""Operator of `jax_function`: abstract evaluation for specs, and tracing in the device program."""
# pyright: basic
# Much of what JAX exports has no or only partial types, which strict mode rejects.

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

from penstock.core import Array, Spec
from penstock.errors import DefinitionError, PenstockError, UsageError
from penstock.graph import DeviceContext, DeviceKernel, Operator, Value, check_layout
from penstock.operators.first_sample import first_sample
from penstock.operators.user_code.function_identity import FunctionIdentity
from penstock.operators.user_code.outputs import list_outputs

# Two values for unknown extents in abstract evaluation. An output extent that differs between them is unknown, too.
# Both are multiples of 32, so that functions that halve their inputs a few times accept them.
_FILLERS = (96, 160)


@dataclass(frozen=True)
class JaxProgram(Operator, DeviceKernel):
    """A JAX function from arrays to arrays.

    Args:
        code: The function.
        num_outputs: Number of arrays that it returns.
        layouts: Layout of a sample per output, or None to take that of the input of the same index.
        whole: True if the function sees the rows of all devices as one global array; False for those of one device.
        initial_state: Leaves of its initial state; empty without a state.
        structure: Tree structure of the state; None without a state.
        sharding: Sharding over the mesh of a function that sees all rows; None leaves it to the compiler.
        rows: Number of rows in abstract evaluation.
        samples: Shapes of the first samples of the inputs, for a function that rejects other extents.
    """

    code: FunctionIdentity
    num_outputs: int
    layouts: tuple[str | None, ...]
    whole: bool
    initial_state: tuple[Array, ...] = ()
    structure: Any = None
    sharding: Any = field(default=None, compare=False)
    rows: int = field(default=1, compare=False)
    samples: tuple[tuple[int, ...], ...] = field(default=(), compare=False)

    @property
    def needs_one_shape(self) -> bool:
        """True: the function takes dense arrays."""
        return True

    @property
    def joins_names(self) -> bool:
        """True if a row of the output depends on the same row of each input."""
        return not self.whole

    @property
    def mixes_rows(self) -> bool:
        """True if the function sees all rows and so may mix them."""
        return self.whole

    def resolve_shapes(self, inputs: Sequence[Value]) -> Self:
        """Return the operator, with the shapes of the first samples if the function rejects the filler extents.

        Raises:
            DefinitionError: JAX cannot trace it for the first samples either, or they are not known.
        """
        specs = [value.spec for value in inputs]
        if all(spec.dense for spec in specs):
            return self
        try:
            self.infer(*specs)
        except DefinitionError as error:
            try:
                samples = tuple([first_sample(value, "fn.resize, fn.crop, fn.pad").shape for value in inputs])
            except DefinitionError:
                raise error from None  # the function's failure helps more than the unknown sample
            return replace(self, samples=samples)
        return self

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """Return the specs of the outputs, by abstract evaluation of the function."""
        dense = all(spec.dense for spec in inputs)
        if self.samples and not dense:
            known = [Spec(s.dtype, shape, s.layout) for s, shape in zip(inputs, self.samples, strict=True)]
            return tuple([replace(spec, shape=(None,) * len(spec.shape)) for spec in self.infer(*known)])
        results = [self._evaluate(inputs, filler) for filler in _FILLERS[: 1 if dense else 2]]
        specs: list[Spec] = []
        for number, arrays in enumerate(zip(*results, strict=True)):
            shapes = [array.shape[1:] for array in arrays]
            if len({len(shape) for shape in shapes}) > 1:
                raise DefinitionError(f"the rank of output {number} depends on the extents of the inputs")
            shape = tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))
            specs.append(Spec(np.dtype(arrays[0].dtype), shape, self._layout(number, inputs, len(shape))))
        return tuple(specs)

    def _layout(self, number: int, inputs: Sequence[Spec], ndim: int) -> str:
        like = inputs[number] if number < len(inputs) else Spec(np.dtype(np.uint8), ())
        return check_layout(self.layouts[number], like, ndim)

    def _evaluate(self, inputs: Sequence[Spec], filler: int) -> Sequence[jax.ShapeDtypeStruct]:
        """Return shapes and dtypes of the outputs, without data and without compilation."""
        arrays = [
            jax.ShapeDtypeStruct(
                (self.rows, *(filler if size is None else size for size in spec.shape)),
                jax.dtypes.canonicalize_dtype(spec.dtype),
            )
            for spec in inputs
        ]
        state = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in self.initial_state)
        call = self._on_all if self.whole else self._call
        try:
            _, outputs = jax.eval_shape(call, state, *arrays)
        except PenstockError:
            raise
        except Exception as error:
            seen = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
            ragged = [spec for spec in inputs if not spec.dense]
            raise DefinitionError(
                f"JAX cannot trace {self.code}: {type(error).__name__}: {error}",
                given=f"arrays {seen or 'none'}" + (f", where {filler} stands for an unknown extent" if ragged else ""),
                fix="compute with jax.numpy; code that needs NumPy arrays or other libraries can run on the host, "
                "sample by sample, in fn.python_function",
            ) from error
        self._check_rows(outputs)
        return cast(Sequence[jax.ShapeDtypeStruct], outputs)

    def _call(self, state: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Call the function, and return the leaves of its new state and a tuple of its outputs."""
        if self.structure is None:
            return (), self._outputs(self.code(*arrays))
        result = self.code(jax.tree.unflatten(self.structure, state), *arrays)
        if not isinstance(result, tuple) or len(cast(tuple[Any, ...], result)) != 2:
            raise DefinitionError(f"with state=, {self.code} must return (new state, outputs)", given=result)
        new_state, outputs = cast(tuple[Any, Any], result)
        return self._state_leaves(new_state), self._outputs(outputs)

    def _state_leaves(self, new_state: Any) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(new_state)
        kinds = [(np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in leaves]
        if structure != self.structure or kinds != [(leaf.shape, leaf.dtype) for leaf in self.initial_state]:
            raise DefinitionError(
                f"{self.code} returns a state of another structure, shape or dtype than it received",
                given=jax.tree.unflatten(structure, [f"{dtype}{list(shape)}" for shape, dtype in kinds]),
                expected=jax.tree.unflatten(self.structure, [f"{i.dtype}{list(i.shape)}" for i in self.initial_state]),
            )
        # Python numbers and weakly typed arrays would change the type of the next call, and so compile it again.
        return tuple(
            jax.lax.convert_element_type(leaf, old.dtype) for leaf, old in zip(leaves, self.initial_state, strict=True)
        )

    def _outputs(self, result: Any) -> tuple[Any, ...]:
        return tuple(list_outputs(self.code, result, self.num_outputs, DefinitionError))

    def _check_rows(self, outputs: Sequence[Any]) -> None:
        for number, output in enumerate(outputs):
            if not isinstance(output, jax.ShapeDtypeStruct):
                raise DefinitionError(
                    f"{self.code} must return arrays, one per output",
                    given=f"a {type(output).__name__}",
                    fix="return a tuple of arrays, and pass num_outputs= to fn.jax_function with their number",
                )
            if jax.numpy.issubdtype(output.dtype, jax.dtypes.extended):
                raise DefinitionError(f"output {number} of {self.code} is not an array of numbers", given=output.dtype)
            if output.shape[:1] != (self.rows,):
                raise DefinitionError(
                    f"output {number} of {self.code} needs a leading axis of rows, like its inputs",
                    given=f"shape {list(output.shape)}",
                    expected=f"[{self.rows}, ...]",
                )

    def trace(
        self, context: DeviceContext, state: tuple[Any, ...], *inputs: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Trace the function on the global array, or on the rows of each device."""
        if self.whole:
            self._check_devices(context.devices)
            return self._on_all(state, *inputs)
        if not context.axes:
            return self._call(state, *inputs)
        rows = PartitionSpec(context.axes)
        # The user's function does not know the mesh, so its types need not satisfy JAX's check of varying axes.
        outputs = jax.shard_map(
            lambda *arrays: self._call((), *arrays)[1],
            mesh=context.mesh,
            in_specs=rows,
            out_specs=rows,
            check_vma=False,
        )(*inputs)
        return (), outputs

    def _on_all(self, state: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Call the function on global arrays, under the mesh of its sharding."""
        if self.sharding is None:
            return self._call(state, *arrays)
        mesh, batch = self.sharding.mesh, PartitionSpec(*self.sharding.spec[:1])
        kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
        # The program around it is compiled with Auto axes. `explicit_axes` switches the axes of a mesh that the user
        # made with Explicit ones for the function alone, so that it sees the shardings in its types.
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
                "its sharding must have the devices of the batches, in the same order",
                given=", ".join(map(str, mine)),
                expected=", ".join(map(str, devices)),
                fix="give data_iterator and jax_function the same sharding",
            )
