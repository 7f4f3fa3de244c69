"""What `jax_function` records: a function for JAX, tried on arrays without contents, traced in the device program."""
# pyright: basic
# what JAX exports is typed in part only

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, PartitionSpec

from penstock.core.columns import Array
from penstock.core.spec import Spec
from penstock.errors import DefinitionError, PenstockError, UsageError
from penstock.graph.ir.node import Value
from penstock.graph.ir.operator import DeviceContext, DeviceKernel, Operator
from penstock.graph.layouts import check_layout
from penstock.operators.first_sample import first_sample
from penstock.operators.user_code.function_identity import FunctionIdentity

_FILLERS = (96, 160)
"""Extents that stand for an unknown one while a function is tried: what differs between the two is unknown after it."""

_KIND = "jax_function"


@dataclass(frozen=True)
class JaxProgram(Operator, DeviceKernel):
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
        samples: the shapes of the first samples of its inputs, where it does not take any other extents.
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
        """It takes arrays."""
        return True

    @property
    def mixes_rows(self) -> bool:
        """One that sees all rows may."""
        return self.whole

    def settled(self, inputs: Sequence[Value]) -> Self:
        """The function, with the shapes of the first samples if it refuses the extents that stand for unknown ones.

        Raises:
            DefinitionError: it cannot be traced for the first samples either, or these are not known.
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
                raise error from None
            return replace(self, samples=samples)
        return self

    def infer(self, *inputs: Spec) -> tuple[Spec, ...]:
        """What JAX says of the function, which is traced for it."""
        dense = all(spec.dense for spec in inputs)
        if self.samples and not dense:
            known = [Spec(s.dtype, shape, s.layout) for s, shape in zip(inputs, self.samples, strict=True)]
            return tuple([replace(spec, shape=(None,) * len(spec.shape)) for spec in self.infer(*known)])
        results = [self._tried(inputs, filler) for filler in _FILLERS[: 1 if dense else 2]]
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
        state = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in self.initial_state)
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
        if structure != self.structure or kinds != [(leaf.shape, leaf.dtype) for leaf in self.initial_state]:
            raise DefinitionError(
                f"fn.{_KIND}: {self.code} returns a state of another kind than it was given",
                given=jax.tree.unflatten(structure, [f"{dtype}{list(shape)}" for shape, dtype in kinds]),
                expected=jax.tree.unflatten(self.structure, [f"{i.dtype}{list(i.shape)}" for i in self.initial_state]),
            )
        return tuple(
            jax.lax.convert_element_type(leaf, old.dtype) for leaf, old in zip(leaves, self.initial_state, strict=True)
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
