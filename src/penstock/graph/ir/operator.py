"""The contract of an operator: a spec rule, and one or two kernels.

An operator is a frozen dataclass. Its fields hold what all samples share; its methods compute.

* `infer` computes the specs of its outputs from those of its inputs while the definition is traced.
* `FusibleOperator` (in `penstock.graph.ir.fusion_contract`) is the base of operators that describe their work, so that
  it can be fused with that of their neighbors. Image operators are such a family (`penstock.image.image_operator`).
* `SampleKernel.sample` computes one sample with NumPy or compiled code, ragged values included.
* `BatchKernel.batch` computes a dense batch with an array namespace: `numpy` on the host, `jax.numpy` under XLA.
* `DeviceKernel.trace` computes a dense batch in the XLA program only, and may see all of it at once.
* `WholeBatchKernel.whole_batch` computes a whole batch whose samples depend on each other.

Kernels get inputs by position and *arguments*, which may differ between samples, by keyword: a constant of the user's,
or for a node an array, with an entry per sample (batch) or of one sample (sample).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph.ir.argument_schema import Argument
from penstock.sources.order.sample_order import SampleOrder
from penstock.sources.source import Source
from penstock.sources.stream import Stream
from penstock.types import OnError


@dataclass(slots=True)
class SampleContext:
    """Context of a sample kernel.

    Args:
        bits: uint32 `(n,)` if the operator declares `random_bits` n; a function that returns as many words as it is
            asked for if the operator `draws_on_demand`; otherwise None.
        out: Array for the first output, of the shape and dtype of its spec; None if the kernel must allocate one. A
            kernel may ignore it, and must do so if its result has another shape.
    """

    bits: Any = None
    out: Array | None = None


@dataclass(slots=True)
class BatchContext:
    """Context of a batch kernel.

    Args:
        xp: Array namespace to compute with, `numpy` or `jax.numpy`.
        rows: Number of samples in the batch.
        bits: uint32 `(rows, n)` if the operator declares `random_bits` n; otherwise None.
        out: Under NumPy, array for the first output, as for a sample kernel; None under JAX.
        specs: Under JAX, specs of the results.
    """

    xp: Any
    rows: int
    bits: Any = None
    out: Array | None = None
    specs: tuple[Spec, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceContext:
    """Context of a device kernel while the device program is traced.

    Args:
        mesh: The `jax.sharding.Mesh` over which the batch is sharded; all its axes are Auto.
        axes: Names of the mesh axes that shard the rows of the batch.
        devices: Devices of all processes that hold the batch, in the order of the mesh.
    """

    mesh: Any
    axes: tuple[str, ...]
    devices: tuple[Any, ...]


@dataclass(frozen=True)
class FramedCall:
    """Call of an operator on sequences, with inputs or arguments that have an entry per frame.

    Args:
        layouts: Layouts of its inputs; those that begin with F have an entry per frame.
        framed: Arguments that have an entry per frame.
        varying: Other arguments that have an entry per sample.
        schema: Declarations of its arguments.
    """

    layouts: tuple[str, ...]
    framed: frozenset[str]
    varying: frozenset[str]
    schema: Mapping[str, Argument]


class Operator(ABC):
    """Computation of a node. Subclasses are frozen dataclasses and derive from one or two kernel classes."""

    # True if shapes of outputs depend on the content of the inputs, as for a decoder, and not only on their shapes.
    reads_content: ClassVar[bool] = False

    # True if each pixel of the output has the position that it had in the inputs that are images of as many axes.
    pixel_aligned: ClassVar[bool] = False

    # True if a row of the output may come from another row of the inputs.
    moves_rows: ClassVar[bool] = False

    @property
    def joins_names(self) -> bool:
        """True if a sample is named after the samples of all inputs, as a canvas after its images."""
        return False

    # True if an input whose layout begins with F has an entry per frame, as such an argument does.
    per_frame_inputs: ClassVar[bool] = False

    # "always" if outputs follow from inputs and arguments; "in a run" if also from code of the user, which is the same
    # during a run; "never" if from anything else, such as a file that an input names.
    reproducible: ClassVar[Literal["always", "in a run", "never"]] = "always"

    @property
    def is_self_contained(self) -> bool:
        """True if no code of the user runs, and outputs follow from inputs and arguments."""
        return self.reproducible == "always" and type(self).__module__.startswith("penstock.")

    # Arguments that kernels get as arrays with an entry per row, besides those that the signature of the public
    # function declares.
    schema: ClassVar[Mapping[str, Argument]] = {}

    # True for a sample kernel that knows how many random words a sample needs only when it has the inputs. It gets the
    # same words as an operator whose `random_bits` is that number.
    draws_on_demand: ClassVar[bool] = False

    @property
    def random_bits(self) -> int:
        """Number of 32-bit random words per sample."""
        return 0

    def draws(self, bits: NDArray[np.uint32], shape: tuple[int, ...]) -> Mapping[str, int]:
        """Return the random numbers of a sample by name, for pictures of the operator's effect.

        Empty by default: for operators whose outputs are the numbers, and for those that draw many.

        Args:
            bits: Random bits of the sample, `(random_bits,)`.
            shape: Shape of the sample of the first input.
        """
        del bits, shape
        return {}

    @property
    def needs_one_shape(self) -> bool:
        """True if all samples of its inputs must have one shape even if its output may be ragged."""
        return False

    def per_frame(self, call: FramedCall) -> Operator:
        """Return the operator that does the same to each frame of a sequence.

        Raises:
            DefinitionError: The operator does not take arguments per frame.
        """
        raise DefinitionError("arguments per frame are not supported", given=", ".join(sorted(call.framed)))

    @abstractmethod
    def infer(self, *inputs: Any, **arguments: Any) -> Spec | tuple[Spec, ...]:
        """Return the specs of the outputs.

        Args:
            inputs: Specs of the inputs.
            arguments: For each argument its constant, or the spec of its node.

        Raises:
            DefinitionError: The inputs or arguments are invalid.
        """


class SampleKernel(ABC):
    """Kernel that computes one sample at a time, on the host."""

    @abstractmethod
    def sample(self, context: SampleContext, *inputs: Any, **arguments: Any) -> Any:
        """Return the output for one sample, or a tuple of outputs. Thread-safe; does not change its inputs."""


class BatchKernel(ABC):
    """Kernel that computes a dense batch, on the host and on the device."""

    # True if on the host its inputs and outputs may also be lists of arrays of different shapes.
    accepts_ragged: ClassVar[bool] = False

    @abstractmethod
    def batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Any:
        """Return the output for a batch, or a tuple of outputs. Axis 0 is samples; row i depends only on row i."""


class HostBatchKernel(BatchKernel):
    """Batch kernel for NumPy alone: it computes with 64 bits, or calls what JAX cannot trace."""


class DeviceKernel(ABC):
    """Kernel that only the device program can compute, because it is a JAX function.

    Everything that depends on its outputs is also in the device program. It may mix rows, and it may carry a state:
    arrays that the program passes from one batch to the next.
    """

    @property
    def initial_state(self) -> tuple[Array, ...]:
        """State before the first batch; empty by default."""
        return ()

    @property
    def mixes_rows(self) -> bool:
        """True if the output of a row depends on other rows."""
        return True

    @abstractmethod
    def trace(
        self, context: DeviceContext, state: tuple[Any, ...], *inputs: Any, **arguments: Any
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the new state and the outputs for the rows of all devices. JAX traces it in the device program."""


class WholeBatchKernel(ABC):
    """Kernel that needs all samples of a batch at once, ragged ones included, on the host.

    The output of a sample depends on its batch: unlike with all other operators, another batch size gives other
    results, and several processes cannot share a batch.
    """

    @abstractmethod
    def whole_batch(self, context: BatchContext, *inputs: Any, **arguments: Any) -> Column | tuple[Column, ...]:
        """Return the output for a batch, an array or a list of arrays; a tuple for several outputs or none.

        Inputs, and arguments that are nodes, are columns as well.
        """


class ViewKernel(BatchKernel):
    """Batch kernel that moves no bytes: its output has the elements of its only input in the same order."""


@dataclass(frozen=True, eq=False)
class Reader(Operator):
    """Reader at the head of a pipeline: the samples of a source in an order. It runs on the host.

    Args:
        source: The data set.
        shuffle: If True, each epoch has another permutation.
        shard_id: Shard that this reader reads.
        num_shards: Number of shards.
        pad_last_batch: If True, rows past the end repeat the last sample; otherwise the next epoch begins.
        contiguous: If True, a shard is a static, contiguous part of the data set; otherwise a slice of every batch.
        stick_to_shard: If True, a contiguous shard is the same in all epochs.
        on_error: Action for a bad sample; None uses that of the iterator.
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
        """Return the specs of the source."""
        return self.source.specs

    def order(self, seed: int) -> SampleOrder:
        """Return the order of samples for the seed derived for this reader."""
        # Shards that are slices of every batch share the order of the whole data set, so that their number does not
        # change it.
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
        """Metadata of the reader, under DALI's names."""
        # With padding every shard is as long as the longest, so the size is rounded up to a multiple of the shards.
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
        """Return True if both read in the same order, apart from the shard."""
        # Readers that differ only in their shard become one reader of the whole batch.
        mine, theirs = ({**parameters(reader), "shard_id": 0, "source": None} for reader in (self, other))
        return mine == theirs and (self.source is other.source or self.source.reads_same_samples(other.source))


@dataclass(frozen=True, eq=False)
class StreamInput(Operator):
    """Input at the head of a pipeline: the batches of a stream, one after another. It runs on the host.

    Args:
        stream: Source of the batches.
    """

    stream: Stream

    def infer(self) -> tuple[Spec, ...]:
        """Return the specs of the stream."""
        return self.stream.specs


def parameters(operator: Operator) -> dict[str, Any]:
    """Return the fields of an operator by name, except those that comparisons ignore."""
    return {part.name: getattr(operator, part.name) for part in fields(cast(Any, operator)) if part.compare}
