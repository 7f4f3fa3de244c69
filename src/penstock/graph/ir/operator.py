"""The contract of an operator: a spec rule, and one or two ways to compute.

An operator is a frozen dataclass: its fields are what is the same for every sample, its methods are what it does.

* `infer` computes the specs of its outputs from those of its inputs, while the definition is traced.
* `FusibleOperator` (in `penstock.graph.ir.fusion`) is the base of operators whose work is described first and then
  computed together: fusion. Image operators are such a family (`penstock.image.image_operator`).
* `SampleKernel.sample` computes one sample with NumPy or compiled code, ragged values included.
* `BatchKernel.batch` computes a dense batch against an array namespace; it serves the host (`numpy`) and the XLA
  program (`jax.numpy`) alike.
* `DeviceKernel.trace` computes a dense batch in the XLA program only, and may see all of it at once.
* `WholeBatchKernel.whole_batch` computes a whole batch whose samples depend on each other.

Kernels get the inputs by position and the *arguments*, what may differ from sample to sample, by keyword: a constant
as the user gave it, or an array when a node was given, with one entry per sample (batch) or without (sample).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core.columns import Array, Column
from penstock.core.spec import Spec
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.source import Source
from penstock.sources.stream import Stream
from penstock.types import OnError


@dataclass(slots=True)
class SampleContext:
    """What a sample kernel gets besides inputs and arguments.

    Args:
        bits: uint32 `(n,)`, where the operator declares `random_bits` n; else None.
        out: where the first output may be written, an array of the shape and dtype that its spec promises; None where
            the kernel must make its own. A kernel may ignore it, and must where its result has another shape.
    """

    bits: NDArray[np.uint32] | None = None
    out: Array | None = None


@dataclass(slots=True)
class BatchContext:
    """What a batch kernel gets besides inputs and arguments.

    Args:
        xp: the array namespace to compute with, `numpy` or `jax.numpy`.
        rows: the number of samples in the batch.
        bits: uint32 `(rows, n)`, where the operator declares `random_bits` n; else None.
        out: under NumPy, where the first output may be written, as for a sample kernel; None under JAX.
        specs: under JAX, those of the results.
    """

    xp: Any
    rows: int
    bits: Any = None
    out: Array | None = None
    specs: tuple[Spec, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceContext:
    """What a device kernel gets besides inputs and arguments, while the device program is traced.

    Args:
        mesh: the `jax.sharding.Mesh` over which the batch is spread, its axes all Auto.
        axes: the names of the mesh axes that cut the batch into the rows of each device.
        devices: the devices of all processes that the batch lies on, in the order of the mesh.
    """

    mesh: Any
    axes: tuple[str, ...]
    devices: tuple[Any, ...]


class Operator(ABC):
    """What one node computes. Subclasses are frozen dataclasses and derive from one or two kernel classes."""

    reads_content: ClassVar[bool] = False
    """Whether shapes of outputs come from the content of the inputs (a decoder), not from their shapes."""

    pixel_aligned: ClassVar[bool] = False
    """Whether each pixel of its output lies where it lay in its inputs, as far as these are images of as many axes."""

    moves_rows: ClassVar[bool] = False
    """Whether a row of its output may come from another row of its inputs."""

    per_frame_inputs: ClassVar[bool] = False
    """Whether an input whose layout begins with F has an entry per frame, as such an argument does."""

    schema: ClassVar[Mapping[str, Argument]] = {}
    """What its arguments must be. Kernels get those that stand here as arrays with an entry per row."""

    @property
    def random_bits(self) -> int:
        """How many times 32 random bits it needs per sample."""
        return 0

    @property
    def needs_one_shape(self) -> bool:
        """Whether all samples of its inputs must have one shape, though its own output does not tell."""
        return False

    def per_frame(
        self, kind: str, layouts: Sequence[str], framed: AbstractSet[str], varying: AbstractSet[str]
    ) -> Operator:
        """The operator that does the same to each frame of a sequence.

        Args:
            kind: the operator's public name.
            layouts: of its inputs.
            framed: the arguments that have an entry per frame.
            varying: those that have one per sample.

        Raises:
            DefinitionError: it has none.
        """
        del layouts, varying
        raise DefinitionError(f"fn.{kind} takes no arguments per frame", given=", ".join(sorted(framed)))

    @abstractmethod
    def infer(self, *inputs: Any, **arguments: Any) -> Spec | tuple[Spec, ...]:
        """The specs of its outputs.

        Args:
            inputs: the specs of its inputs.
            arguments: per argument the constant that was given, or the spec of the node that was.

        Raises:
            DefinitionError: these inputs or arguments cannot be right.
        """


class SampleKernel(ABC):
    """An operator that can compute one sample at a time, on the host."""

    @abstractmethod
    def sample(self, context: SampleContext, *inputs: Any, **arguments: Any) -> Any:
        """The output for one sample, or a tuple of outputs. Thread-safe; does not change its inputs."""


class BatchKernel(ABC):
    """An operator that can compute a dense batch, on the host and on the device."""

    accepts_ragged: ClassVar[bool] = False
    """Whether on the host its inputs and outputs may be lists of arrays, too, where samples differ in shape."""

    @abstractmethod
    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """The output for a batch, axis 0 counting samples, or a tuple of outputs. Pure; row i depends on row i only."""


class HostBatchKernel(BatchKernel):
    """A batch kernel for NumPy alone: it computes with 64 bits, or calls what JAX cannot trace."""


class DeviceKernel(ABC):
    """An operator that only the device program can compute, because it is a function for JAX.

    What is computed from its outputs is in the device program, too. It may mix rows, and it may carry a state: arrays
    that the program for one batch hands to the program for the next.
    """

    @property
    def initial_state(self) -> tuple[Array, ...]:
        """The state before the first batch: nothing, for most."""
        return ()

    @property
    def mixes_rows(self) -> bool:
        """Whether what it gives for a row comes from other rows, too."""
        return True

    @abstractmethod
    def trace(
        self, context: DeviceContext, state: tuple[Any, ...], *inputs: Any, **arguments: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The new state and the outputs, for the rows of all devices. Called while JAX traces the device program."""


class WholeBatchKernel(ABC):
    """An operator that needs all samples of a batch at once, ragged ones included, on the host.

    What it gives for a sample depends on the batch that the sample is in, so it is exempt from what holds for all other
    operators: another batch size gives other numbers. A batch that several processes share cannot pass it.
    """

    @abstractmethod
    def whole_batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Column | tuple[Column, ...]:
        """The output for a batch, an array or a list of arrays; a tuple of such, where there are several or none.

        Inputs and nodes' arguments are columns, too.
        """


class ViewKernel(BatchKernel):
    """A batch kernel that moves no bytes: its output holds the elements of its only input in the same order."""


@dataclass(frozen=True, eq=False)
class Reader(Operator):
    """The operator at the head of a pipeline: samples of a source, in an order. It runs on the host.

    Args:
        source: the data set.
        shuffle: whether each epoch has a permutation of its own.
        shard_id: which of the shards this reader reads.
        num_shards: how many there are.
        pad_last_batch: whether rows past the end repeat the last sample instead of starting again.
        contiguous: whether a shard is a static, contiguous part of the data set, not a slice of every global batch.
        stick_to_shard: whether a contiguous shard stays the same from epoch to epoch.
        on_error: what is done about a bad sample; None leaves it to the iterator.
    """

    source: Source
    shuffle: bool = False
    shard_id: int = 0
    num_shards: int = 1
    pad_last_batch: bool = False
    contiguous: bool = False
    stick_to_shard: bool = False
    on_error: OnError | None = None

    def infer(self) -> tuple[Spec, ...]:
        """The specs of the source."""
        return self.source.specs

    def order(self, seed: int) -> SampleOrder:
        """The order in which it reads, given the seed derived for it."""
        parts = self.num_shards if self.contiguous else 1
        shard = self.shard_id if self.contiguous else 0
        source = self.source
        return SampleOrder(
            source.epoch_length,
            self.shuffle,
            seed,
            self.pad_last_batch,
            parts,
            shard,
            self.stick_to_shard,
            source.selection,
        )

    @property
    def meta(self) -> dict[str, Any]:
        """What DALI tells of a reader, under its names."""
        samples, shards = self.source.epoch_length, self.num_shards
        return {
            "epoch_size": samples,
            "epoch_size_padded": -(-samples // shards) * shards if self.pad_last_batch else samples,
            "number_of_shards": shards,
            "shard_id": self.shard_id,
            "pad_last_batch": int(self.pad_last_batch),
            "stick_to_shard": int(self.stick_to_shard),
        }

    def same_order(self, other: Reader) -> bool:
        """Whether the two read the same order, but for the shard."""
        mine, theirs = ({**parameters(reader), "shard_id": 0, "source": None} for reader in (self, other))
        return mine == theirs and (self.source is other.source or self.source.reads_same_samples(other.source))


@dataclass(frozen=True, eq=False)
class StreamInput(Operator):
    """The other operator at the head of a pipeline: batches that a stream gives in turn. It runs on the host.

    Args:
        stream: what gives them.
    """

    stream: Stream

    def infer(self) -> tuple[Spec, ...]:
        """The specs of the stream."""
        return self.stream.specs


def parameters(operator: Operator) -> dict[str, Any]:
    """The fields of an operator by name, but for those that do not take part in comparisons."""
    return {part.name: getattr(operator, part.name) for part in fields(cast(Any, operator)) if part.compare}
