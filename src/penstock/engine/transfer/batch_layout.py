"""How a batch lies on devices.

A layout says which rows of the global batch this process computes, hands their buffers to JAX, and compiles the device
program. Nothing here waits for a device, and nothing writes to a buffer that was handed over.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.core.columns import Array, Indices
from penstock.core.spec import Spec
from penstock.errors import UsageError, short_repr

Compute = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[tuple[Any, ...], tuple[Any, ...]]]
"""A device program: from its state, which all devices hold whole, and arrays with a leading axis of rows, to the new
state and as many outputs as it has."""


class BatchLayout(ABC):
    """How the rows of a batch are spread over devices.

    Attributes:
        blocks: into how many blocks of rows the batch is cut, over all processes.
        shards: the numbers of those that this process computes, ascending.
        devices: the local devices that batches lie on.
        mesh: the mesh on which the device program runs, its axes all Auto.
        axes: the axes of that mesh that cut the batch.
    """

    blocks: int
    shards: tuple[int, ...]
    devices: tuple[Any, ...]
    mesh: Mesh
    axes: tuple[str, ...]

    @property
    def all_devices(self) -> tuple[Any, ...]:
        """The devices of all processes that batches lie on."""
        return self.devices if self.mesh.empty else tuple(self.mesh.devices.flat)

    @property
    def processes(self) -> int:
        """How many processes have a part of each batch."""
        return len({device.process_index for device in self.all_devices}) or 1

    @property
    def platform(self) -> str:
        """JAX's name of the kind of device."""
        return self.devices[0].platform

    def local_rows(self, rows: int) -> Indices:
        """The numbers of the rows that this process computes, in the order in which its buffers hold them."""
        return _row_numbers(rows, self.blocks, self.shards)

    def check_rows(self, rows: int, what: str) -> None:
        """Check that a batch of `rows` rows can be cut evenly.

        Raises:
            UsageError: it cannot; the message has the nearest sizes that can.
        """
        if rows % self.blocks or not rows:
            below, above = rows - rows % self.blocks, rows + -rows % self.blocks or self.blocks
            valid = f"{below} or {above}" if below else f"{above}"
            raise UsageError(f"{what} is cut into {self.blocks} equal parts", given=f"{rows} rows", expected=valid)

    def check_outputs(self, specs: Sequence[Spec], names: Sequence[str], rows: int) -> None:  # noqa: B027  # most need none
        """Check that the outputs can lie as they should, before any data is read.

        Raises:
            UsageError: an output has too few axes, or one that cannot be cut.
        """

    @abstractmethod
    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """Outputs that the host computed, by number, and the mask of the rows under None, as the user receives them."""

    @abstractmethod
    def put_rows(self, column: Array) -> jax.Array:
        """A value with a leading axis of rows, as the device program takes it."""

    @abstractmethod
    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """What the user receives for output `number`, or for the mask, of the given global shape: no data."""

    @abstractmethod
    def put_replicated(self, array: Array) -> jax.Array:
        """An array that every device holds whole, as the device program's state is."""

    @abstractmethod
    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """A device program over all devices, whose outputs are those with `numbers`, as the user receives them."""


@lru_cache(maxsize=64)
def _row_numbers(rows: int, blocks: int, shards: tuple[int, ...]) -> Indices:
    size = rows // blocks
    numbers = np.concatenate([np.arange(shard * size, (shard + 1) * size) for shard in shards])
    numbers.flags.writeable = False
    return numbers


def local_device(device_id: int | None) -> Any:
    """The local device with a number; the first one for None. Where a process has one device, any number means that.

    So a program with ``device_id=rank`` runs in processes that JAX gave a device each, and on a machine with one.

    Raises:
        UsageError: there is none.
    """
    devices = jax.local_devices()
    if len(devices) == 1:
        return devices[0]
    if device_id is not None and not 0 <= device_id < len(devices):
        raise UsageError(
            "device_id is no local device",
            given=device_id,
            expected=f"0 to {len(devices) - 1}",
            fix="leave it out, for the default device; jax.local_devices() lists those of this process",
        )
    return devices[device_id or 0]


class SingleDevice(BatchLayout):
    """Whole batches on one device.

    Args:
        device_id: the number of the local device. Without one, and for 0, arrays are uncommitted on JAX's default
            device: JAX moves them to where a computation needs them.

    Raises:
        UsageError: there is no such device.
    """

    blocks = 1
    shards = (0,)
    axes = ()

    def __init__(self, device_id: int | None = None) -> None:
        self.devices = (local_device(device_id),)
        self._device = None if self.devices[0] == jax.local_devices()[0] else self.devices[0]
        self.mesh = Mesh(np.empty((), object), ())

    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """On the device, by one call of JAX: a call costs as much as three columns."""
        return dict(zip(columns, jax.device_put(list(columns.values()), self._device), strict=True))

    def put_rows(self, column: Array) -> jax.Array:
        """The column, on the device."""
        return jax.device_put(column, self._device)

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """The shape as it is; JAX may move the array."""
        return jax.ShapeDtypeStruct(shape, dtype)

    def put_replicated(self, array: Array) -> jax.Array:
        """The array, on the device."""
        return jax.device_put(array, self._device)

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """The program under `jax.jit`."""
        return _outside_meshes(jax.jit(compute), self.mesh)


class ShardedLayout(BatchLayout):
    """Global arrays, laid out by a `NamedSharding` for each output.

    Args:
        shardings: one per output. The first entry of its spec says along which axes of the mesh the batch is cut; none
            means that every device holds all rows.

    Raises:
        UsageError: a sharding is no NamedSharding, or they do not fit each other.
    """

    def __init__(self, shardings: Sequence[NamedSharding]) -> None:
        self._shardings = tuple(shardings)
        if not shardings:
            raise UsageError("sharding has an entry for each output", given="none")
        parts = [_parts(sharding) for sharding in shardings]
        self.blocks = max(parts)
        if any(self.blocks % part for part in parts):
            raise UsageError("the outputs cut the batch into parts that do not nest", given=f"{parts} parts")
        if len({frozenset(sharding.device_set) for sharding in self._shardings}) > 1:
            raise UsageError(
                "the outputs lie on different sets of devices", fix="use one set of devices for all outputs"
            )
        finest = self._shardings[parts.index(self.blocks)]
        self.mesh = with_auto_axes(finest.mesh)
        self.axes = _axes(finest)
        self._rows = NamedSharding(self.mesh, PartitionSpec(*finest.spec[:1]))
        self._whole = NamedSharding(self.mesh, PartitionSpec())
        self._mask = NamedSharding(finest.mesh, PartitionSpec(*finest.spec[:1]))
        held = (index for index in self._rows.addressable_devices_indices_map((self.blocks,)).values() if index)
        self.shards = tuple(sorted({block for (rows,) in held for block in range(*rows.indices(self.blocks))}))
        self.devices = tuple(self.mesh.local_devices)
        if not self.devices:
            raise UsageError("the sharding has no device of this process", fix="a mesh over jax.devices()")

    def check_outputs(self, specs: Sequence[Spec], names: Sequence[str], rows: int) -> None:
        """Check ranks, and the axes after the first that a spec cuts."""
        for spec, name, sharding in zip(specs, names, self._shardings, strict=False):  # the mask may be one more
            shape = (rows, *spec.fixed_shape)
            try:
                if any(sharding.spec[len(shape) :]):
                    raise ValueError(f"the spec names {len(sharding.spec)} axes, the output has {len(shape)}")
                sharding.shard_shape(shape)
            except ValueError as error:
                raise UsageError(
                    f"the sharding of output {name!r} does not fit it: {error}",
                    given=f"{sharding.spec} on {dict(sharding.mesh.shape)} for shape {shape}",
                    fix="shorten the spec to P(batch axis), or choose a shape that the mesh divides",
                ) from None

    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """The global arrays of which this process holds the columns' rows."""
        return {number: self._assemble(column, self._sharding(number)) for number, column in columns.items()}

    def put_rows(self, column: Array) -> jax.Array:
        """The global array, cut along its rows only, on a mesh whose axes are all Auto."""
        return self._assemble(column, self._rows)

    def put_replicated(self, array: Array) -> jax.Array:
        """The array, on every device."""
        return jax.make_array_from_callback(array.shape, self._whole, array.__getitem__)

    def _assemble(self, column: Array, sharding: NamedSharding) -> jax.Array:
        if len(self.shards) == self.blocks:  # all rows are ours
            return jax.make_array_from_callback(column.shape, sharding, column.__getitem__)
        rows = len(column) // len(self.shards) * self.blocks
        numbers = self.local_rows(rows)

        def piece(index: Any) -> Array:
            start, stop, _ = index[0].indices(rows)
            first = int(np.searchsorted(numbers, start))
            return column[(slice(first, first + stop - start), *index[1:])]

        return jax.make_array_from_callback((rows, *column.shape[1:]), sharding, piece)

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """The global shape, with the output's sharding."""
        return jax.ShapeDtypeStruct(shape, dtype, sharding=self._sharding(number))

    def _sharding(self, number: int | None) -> NamedSharding:
        return self._mask if number is None else self._shardings[number]

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """The program under `jax.jit`, on Auto axes; its outputs then get the user's own shardings."""
        wanted = [self._shardings[number] for number in numbers]
        inner = tuple(NamedSharding(with_auto_axes(sharding.mesh), sharding.spec) for sharding in wanted)
        program = _outside_meshes(jax.jit(compute, out_shardings=(self._whole, inner)), self.mesh)

        def run(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            state, outputs = program(state, arrays)
            return state, tuple(map(with_sharding, outputs, wanted))

        return run


class PmapLayout(BatchLayout):
    """The layout of `jax.pmap`: a leading axis of blocks, and then each block's own rows.

    Args:
        devices: local devices, one per block, in the order of the leading axis; or one for all blocks.
        blocks: how many blocks there are.

    Raises:
        UsageError: a device stands twice, or belongs to another process.
    """

    def __init__(self, devices: Sequence[Any], blocks: int) -> None:
        if len(set(devices)) != len(devices) or len(devices) not in (1, blocks):
            raise UsageError("devices must be distinct", given=list(devices), fix="jax.local_devices()")
        if any(device.process_index != jax.process_index() for device in devices):
            raise UsageError(
                "devices= gives the layout of jax.pmap, which one process makes for its own devices",
                given=f"{len(devices)} devices of several processes",
                fix="use sharding= for a job of several processes",
            )
        self.blocks = blocks
        self.shards = tuple(range(blocks))
        self.devices = tuple(devices)
        self.mesh = Mesh(np.array(devices), ("device",), axis_types=(AxisType.Auto,))
        self.axes = ("device",)
        self._sharding = NamedSharding(self.mesh, PartitionSpec("device"))
        self._whole = NamedSharding(self.mesh, PartitionSpec())

    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """The columns as `(blocks, rows of a block, ...)`."""
        stacked = {number: column.reshape(self.blocks, -1, *column.shape[1:]) for number, column in columns.items()}
        return {number: self.put_rows(column) for number, column in stacked.items()}

    def put_rows(self, column: Array) -> jax.Array:
        """The column, cut along its first axis."""
        return jax.make_array_from_callback(column.shape, self._sharding, column.__getitem__)

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """The shape with its leading axis of blocks."""
        stacked = (self.blocks, shape[0] // self.blocks, *shape[1:])
        return jax.ShapeDtypeStruct(stacked, dtype, sharding=self._sharding)

    def put_replicated(self, array: Array) -> jax.Array:
        """The array, on every device."""
        return jax.make_array_from_callback(array.shape, self._whole, array.__getitem__)

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """The program under `jax.jit`, its outputs cut at their block boundaries."""

        def stacked(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            state, outputs = compute(state, arrays)
            return state, tuple(output.reshape(self.blocks, -1, *output.shape[1:]) for output in outputs)

        return _outside_meshes(jax.jit(stacked, out_shardings=(self._whole, self._sharding)), self.mesh)


def _parts(sharding: Any) -> int:
    """Into how many parts a sharding cuts the first axis."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        raise UsageError(
            "sharding must be a jax.sharding.NamedSharding over a Mesh of devices",
            given=f"{short_repr(sharding)} of type {type(sharding).__name__}",
            fix='NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))',
        )
    axes = _axes(sharding)
    if PartitionSpec.UNCONSTRAINED in axes:
        raise UsageError("the first entry of the spec leaves the batch unconstrained", given=sharding.spec)
    return math.prod(sharding.mesh.shape[axis] for axis in axes)


def _axes(sharding: NamedSharding) -> tuple[Any, ...]:
    """The axes of the mesh along which a sharding cuts the first axis."""
    first = sharding.spec[0] if len(sharding.spec) else None
    return first if isinstance(first, tuple) else () if first is None else (first,)


def with_auto_axes(mesh: Any) -> Mesh:
    """The same devices under the same names, with axes that let XLA choose: operators know nothing of shardings."""
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def with_sharding(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """The same buffers under the user's own mesh, whose axes may be Explicit. Copies nothing."""
    if array.sharding == sharding:
        return array
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)


def _outside_meshes(program: Compute, mesh: Mesh) -> Compute:
    """The program, called as if no mesh were set around it: a user's `jax.set_mesh` is not meant for ours."""

    def run(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        with jax.set_mesh(mesh):
            return program(state, arrays)

    return run
