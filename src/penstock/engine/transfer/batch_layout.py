"""Batch layouts: which rows each device holds, and how host buffers become global arrays.

A layout selects the rows of the global batch that this process computes, passes their buffers to JAX, and compiles the
device program. It never waits for a device, and never writes to a buffer that JAX has received.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from penstock.core import Array, Indices, Spec
from penstock.engine.transfer.global_arrays import global_array
from penstock.errors import UsageError, short_repr

# A device program. Takes its state, replicated on all devices, and arrays with a leading axis of rows. Returns the new
# state and its outputs.
Compute = Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[tuple[Any, ...], tuple[Any, ...]]]


class BatchLayout(ABC):
    """Distribution of the rows of a batch over devices.

    Attributes:
        blocks: Number of equal blocks of rows in the batch, over all processes.
        shards: Numbers of the blocks that this process computes, ascending.
        devices: Local devices of a batch.
        mesh: Mesh of the device program, with Auto axes.
        axes: Axes of that mesh that split the batch.
    """

    blocks: int
    shards: tuple[int, ...]
    devices: tuple[Any, ...]
    mesh: Mesh
    axes: tuple[str, ...]
    _rows: NamedSharding
    _whole: NamedSharding

    @property
    def all_devices(self) -> tuple[Any, ...]:
        """Devices of a batch, over all processes."""
        return self.devices if self.mesh.empty else tuple(self.mesh.devices.flat)

    @property
    def processes(self) -> int:
        """Number of processes that hold a part of each batch."""
        return len({device.process_index for device in self.all_devices}) or 1

    @property
    def platform(self) -> str:
        """JAX's name for the kind of device, such as "cpu"."""
        return self.devices[0].platform

    def local_rows(self, rows: int) -> Indices:
        """Return the numbers of the rows that this process computes, in the order of its buffers."""
        return _row_numbers(rows, self.blocks, self.shards)

    def check_rows(self, rows: int, what: str) -> None:
        """Check that `rows` rows can be split into equal blocks.

        Raises:
            UsageError: They cannot; the message contains the nearest valid sizes.
        """
        if rows % self.blocks or not rows:
            below, above = rows - rows % self.blocks, rows + -rows % self.blocks or self.blocks
            valid = f"{below} or {above}" if below else f"{above}"
            raise UsageError(f"{what} must split into {self.blocks} equal parts", given=f"{rows} rows", expected=valid)

    def check_outputs(self, specs: Sequence[Spec], names: Sequence[str], rows: int) -> None:  # noqa: B027  # most layouts need no check
        """Check that the sharding of each output fits its shape, before any data is read.

        Raises:
            UsageError: An output has too few axes, or an axis that the mesh does not divide.
        """

    @abstractmethod
    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """Convert columns of the host to arrays as the user receives them.

        Keys are the numbers of outputs, and None for the row mask.
        """

    def row(self, array: jax.Array, number: int) -> Array:
        """Return a row of an array of `put_batch`, all of whose rows this process holds."""
        # Not `array[number]`: JAX refuses an index along an axis that an Explicit mesh splits.
        return jax.device_get(array)[number]

    def put_rows(self, column: Array) -> jax.Array:
        """Put a column on the devices as an input of the device program, split by rows only."""
        return self._assemble(column, self._rows)

    def _assemble(self, column: Array, sharding: NamedSharding) -> jax.Array:
        if len(self.shards) == self.blocks:  # this process holds all rows
            return global_array(column.shape, sharding, column.__getitem__)
        rows = len(column) // len(self.shards) * self.blocks
        numbers = self.local_rows(rows)

        # JAX asks for global rows; the buffer holds only the rows of this process, in ascending blocks.
        def piece(index: Any) -> Array:
            start, stop, _ = index[0].indices(rows)
            first = int(np.searchsorted(numbers, start))
            return column[(slice(first, first + stop - start), *index[1:])]

        return global_array((rows, *column.shape[1:]), sharding, piece)

    @abstractmethod
    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """Return shape, dtype and sharding of an output, or of the mask if `number` is None, given its global shape."""

    def put_replicated(self, array: Array) -> jax.Array:
        """Put an array on every device, as the state of the device program."""
        # device_put to a sharding over several processes would compare the values of all processes in each call.
        return global_array(array.shape, self._whole, array.__getitem__)

    @abstractmethod
    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """Compile a device program over all devices. `numbers` are the numbers of its outputs."""


@lru_cache(maxsize=64)
def _row_numbers(rows: int, blocks: int, shards: tuple[int, ...]) -> Indices:
    size = rows // blocks
    numbers = np.concatenate([np.arange(shard * size, (shard + 1) * size) for shard in shards])
    # The cache returns the same array to all callers.
    numbers.flags.writeable = False
    return numbers


def local_device(device_id: int | None) -> Any:
    """Return a local device by number; the first one for None.

    If the process has one device, any number selects it, so a program with ``device_id=rank`` runs on a machine
    with one device, and in jobs in which each process has one.

    Raises:
        UsageError: The device does not exist.
    """
    devices = jax.local_devices()
    if len(devices) == 1:
        return devices[0]
    if device_id is not None and not 0 <= device_id < len(devices):
        raise UsageError(
            "device_id is not the number of a local device",
            given=device_id,
            expected=f"0 to {len(devices) - 1}",
            fix="omit it for the default device; jax.local_devices() lists the devices of this process",
        )
    return devices[device_id or 0]


class SingleDevice(BatchLayout):
    """Layout of whole batches on one device.

    Args:
        device_id: Number of the local device. For None and 0, arrays are uncommitted on JAX's default device: JAX moves
            them to the device of a computation that uses them.

    Raises:
        UsageError: The device does not exist.
    """

    blocks = 1
    shards = (0,)
    axes = ()

    def __init__(self, device_id: int | None = None) -> None:
        self.devices = (local_device(device_id),)
        self._device = None if self.devices[0] == jax.local_devices()[0] else self.devices[0]
        self.mesh = Mesh(np.empty((), object), ())

    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """Put all columns on the device in one call."""
        # A call of device_put costs as much as three columns.
        return dict(zip(columns, jax.device_put(list(columns.values()), self._device), strict=True))

    def put_rows(self, column: Array) -> jax.Array:
        """Put a column on the device."""
        return jax.device_put(column, self._device)

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """Return the shape without a sharding, because JAX may move the array."""
        return jax.ShapeDtypeStruct(shape, dtype)

    def put_replicated(self, array: Array) -> jax.Array:
        """Put an array on the device."""
        return jax.device_put(array, self._device)

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """Compile with `jax.jit`."""
        return _outside_meshes(jax.jit(compute), self.mesh)


class ShardedLayout(BatchLayout):
    """Layout of global arrays, with a `NamedSharding` per output.

    Args:
        shardings: A sharding per output. The first entry of its spec names the axes of the mesh that split the batch.
            Without one, every device holds all rows.

    Raises:
        UsageError: A sharding is not a NamedSharding, or the shardings do not fit each other.
    """

    def __init__(self, shardings: Sequence[NamedSharding]) -> None:
        self._shardings = tuple(shardings)
        if not shardings:
            raise UsageError("sharding needs an entry for each output", given="none")
        parts = [_parts(sharding) for sharding in shardings]
        self.blocks = max(parts)
        if any(self.blocks % part for part in parts):
            raise UsageError("the shardings split the batch into parts that do not nest", given=f"{parts} parts")
        if len({frozenset(sharding.device_set) for sharding in self._shardings}) > 1:
            raise UsageError(
                "the outputs are on different sets of devices", fix="use one set of devices for all outputs"
            )
        finest = self._shardings[parts.index(self.blocks)]
        self.mesh = with_auto_axes(finest.mesh)
        self.axes = _axes(finest)
        self._rows = NamedSharding(self.mesh, PartitionSpec(*finest.spec[:1]))
        self._whole = NamedSharding(self.mesh, PartitionSpec())
        self._mask = NamedSharding(finest.mesh, PartitionSpec(*finest.spec[:1]))
        # The blocks of this process follow from its addressable devices: rows are in mesh order, and device ids of
        # several processes are not contiguous.
        held = (index for index in self._rows.addressable_devices_indices_map((self.blocks,)).values() if index)
        self.shards = tuple(sorted({block for (rows,) in held for block in range(*rows.indices(self.blocks))}))
        self.devices = tuple(self.mesh.local_devices)
        if not self.devices:
            raise UsageError("the sharding has no device of this process", fix="use a mesh over jax.devices()")

    def check_outputs(self, specs: Sequence[Spec], names: Sequence[str], rows: int) -> None:
        """Check ranks, and the axes after the first that a spec splits."""
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
        """Assemble global arrays from the rows of this process."""
        return {number: self._assemble(column, self._sharding(number)) for number, column in columns.items()}

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """Return the global shape with the sharding of the output."""
        return jax.ShapeDtypeStruct(shape, dtype, sharding=self._sharding(number))

    def _sharding(self, number: int | None) -> NamedSharding:
        return self._mask if number is None else self._shardings[number]

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """Compile with `jax.jit` on Auto axes, and give the outputs the user's shardings."""
        shardings = [self._shardings[number] for number in numbers]
        # A program of JAX has one order of devices. Transfers of the host's columns have no such limit.
        meshes = [with_auto_axes(sharding.mesh) for sharding in shardings]
        orders = {tuple(mesh.devices.flat): None for mesh in (self.mesh, *meshes)}
        if len(orders) > 1:
            raise UsageError(
                "the device program needs one order of devices for all outputs",
                given=" and ".join(str([device.id for device in order]) for order in orders),
                fix='meshes with the devices in the same order; or placement="host"',
            )
        inner = tuple(NamedSharding(mesh, sharding.spec) for mesh, sharding in zip(meshes, shardings, strict=True))
        program = _outside_meshes(jax.jit(compute, out_shardings=(self._whole, inner)), self.mesh)

        def run(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            state, outputs = program(state, arrays)
            return state, tuple(map(with_sharding, outputs, shardings))

        return run


class PmapLayout(BatchLayout):
    """Layout of `jax.pmap`: a leading axis of blocks, then the rows of each block.

    Args:
        devices: Local devices, one per block in the order of the leading axis, or one for all blocks.
        blocks: Number of blocks.

    Raises:
        UsageError: A device appears twice or belongs to another process.
    """

    def __init__(self, devices: Sequence[Any], blocks: int) -> None:
        if len(set(devices)) != len(devices) or len(devices) not in (1, blocks):
            raise UsageError("devices must be distinct", given=list(devices), fix="jax.local_devices()")
        if any(device.process_index != jax.process_index() for device in devices):
            raise UsageError(
                "devices= selects the layout of jax.pmap, which is limited to the devices of one process",
                given=f"{len(devices)} devices of several processes",
                fix="use sharding= in a job of several processes",
            )
        self.blocks = blocks
        self.shards = tuple(range(blocks))
        self.devices = tuple(devices)
        self.mesh = Mesh(np.array(devices), ("device",), axis_types=(AxisType.Auto,))
        self.axes = ("device",)
        self._rows = NamedSharding(self.mesh, PartitionSpec("device"))
        self._whole = NamedSharding(self.mesh, PartitionSpec())

    def put_batch(self, columns: Mapping[int | None, Array]) -> dict[int | None, jax.Array]:
        """Put columns on the devices in the shape `(blocks, rows per block, ...)`."""
        stacked = {number: column.reshape(self.blocks, -1, *column.shape[1:]) for number, column in columns.items()}
        return {number: self.put_rows(column) for number, column in stacked.items()}

    def row(self, array: jax.Array, number: int) -> Array:
        """Return a row of the batch, whose number counts the rows of all blocks."""
        return jax.device_get(array)[divmod(number, array.shape[1])]

    def shape_dtype_struct(self, number: int | None, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        """Return the shape with a leading axis of blocks."""
        stacked = (self.blocks, shape[0] // self.blocks, *shape[1:])
        return jax.ShapeDtypeStruct(stacked, dtype, sharding=self._rows)

    def compile(self, compute: Compute, numbers: Sequence[int]) -> Compute:
        """Compile with `jax.jit`, and split the outputs into blocks."""

        def stacked(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            state, outputs = compute(state, arrays)
            return state, tuple(output.reshape(self.blocks, -1, *output.shape[1:]) for output in outputs)

        return _outside_meshes(jax.jit(stacked, out_shardings=(self._whole, self._rows)), self.mesh)


def _parts(sharding: Any) -> int:
    """Return the number of parts into which a sharding splits the first axis."""
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        raise UsageError(
            "sharding must be a jax.sharding.NamedSharding over a Mesh of devices",
            given=f"{short_repr(sharding)} of type {type(sharding).__name__}",
            fix='NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))',
        )
    axes = _axes(sharding)
    if PartitionSpec.UNCONSTRAINED in axes:
        raise UsageError("the first entry of the spec must not be UNCONSTRAINED", given=sharding.spec)
    return math.prod(sharding.mesh.shape[axis] for axis in axes)


def _axes(sharding: NamedSharding) -> tuple[Any, ...]:
    """Return the axes of the mesh along which a sharding splits the first axis."""
    first = sharding.spec[0] if len(sharding.spec) else None
    return first if isinstance(first, tuple) else () if first is None else (first,)


def with_auto_axes(mesh: Any) -> Mesh:
    """Return the mesh with Auto axes."""
    # Explicit axes, the default of jax.make_mesh, would require every operator to state the shardings of its results.
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def with_sharding(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """Return an array with the same buffers and the user's sharding, whose axes may be Explicit. Copies nothing."""
    if array.sharding == sharding:
        return array
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)


def _outside_meshes(program: Compute, mesh: Mesh) -> Compute:
    """Return the program with its own mesh set: it must not run under the mesh of a user's `jax.set_mesh`."""

    def run(state: tuple[Any, ...], arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        with jax.set_mesh(mesh):
            return program(state, arrays)

    return run
