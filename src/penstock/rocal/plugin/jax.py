"""rocAL's `amd.rocal.plugin.jax`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from penstock.core.call_site import user_call_site
from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph.arguments.argument_checks import check_annotations
from penstock.iterate import DataIterator, PeekableDataIterator
from penstock.iterate.peekable import get_spec_for_array as get_spec_for_array
from penstock.rocal.pipeline import Pipeline, iterator_arguments


class ROCALJaxIterator(DataIterator):
    """Iterates over pipelines of rocAL's vocabulary; a batch is a list: the outputs, then the labels if there are any.

    Args:
        pipelines: one, or a list with one per device. The batch size of each is that of its device.
        sharding: how a list's batches lie on the devices: a `NamedSharding` whose first axis spec splits the batch.
            Arrays are global, ``(n * batch_size, ...)``. Without it, a list gives ``(n, batch_size, ...)``, the layout
            of `jax.pmap`, and one pipeline arrays on the default device.

    Raises:
        UsageError: pipelines and sharding that do not go together.
        SampleError: a bad sample in the first batch.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from penstock.rocal import fn
        >>> root = Path(tempfile.mkdtemp())
        >>> _ = (root / "data_batch_1.bin").write_bytes(b"".join(bytes([n]) + bytes(3072) for n in range(4)))
        >>> pipeline = Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.cifar10(file_root=root))
        >>> iterator = ROCALJaxIterator(pipeline)
        >>> [(images.shape, labels.tolist()) for images, labels in iterator]
        [((2, 3, 32, 32), [0, 1]), ((2, 3, 32, 32), [2, 3])]
    """

    @check_annotations
    def __init__(self, pipelines: Pipeline | Sequence[Pipeline], sharding: NamedSharding | None = None) -> None:
        super().__init__(**iterator_arguments(pipelines), sharding=sharding)

    def _form(self, arrays: Sequence[Any]) -> Any:
        return list(arrays)

    def reset(self) -> None:
        """Begin the next epoch, also in the middle of one."""
        self.next_epoch()


class ROCALPeekableIterator(ROCALJaxIterator, PeekableDataIterator):
    """`ROCALJaxIterator` with the methods of `PeekableDataIterator`: `peek`, `peek_async` and `element_spec`."""


def convert_to_jax_array(array: Any) -> jax.Array:
    """Copy an array of another library to a `jax.Array`.

    Raises:
        ArgumentTypeError: it is none.

    >>> import numpy as np
    >>> convert_to_jax_array(np.zeros(2, np.float32)).shape
    (2,)
    """
    if not hasattr(array, "__dlpack__"):
        raise ArgumentTypeError("an array that knows DLPack is needed", given=short_repr(array), where=user_call_site())
    # from_dlpack(copy=True) still shares memory that is aligned as XLA likes it; what a program returns shares none
    return jax.block_until_ready(jax.numpy.copy(jax.numpy.from_dlpack(array)))
