"""Iterators of rocAL's `amd.rocal.plugin.jax`."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from penstock.core import user_call_site
from penstock.errors import ArgumentTypeError, short_repr
from penstock.graph import check_annotations
from penstock.iterate import DataIterator, PeekableDataIterator
from penstock.iterate.peekable import get_spec_for_array as get_spec_for_array
from penstock.rocal.pipeline import Pipeline, iterator_arguments


class ROCALJaxIterator(DataIterator):
    """Iterator over pipelines of `penstock.rocal`. A batch is a list of the outputs, followed by the labels if any.

    Args:
        pipelines: Pipeline, or a list with one per device. The batch size of a pipeline is that of its device.
        sharding: Sharding of the batches of a list, whose first axis spec splits the batch. Arrays are global, of shape
            ``(n * batch_size, ...)``. Without it, a list returns ``(n, batch_size, ...)``, the layout of `jax.pmap`,
            and a single pipeline returns arrays on the default device.

    Raises:
        UsageError: The pipelines do not match each other or the sharding.
        SampleError: The first batch contains a bad sample.

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
        """Start the next epoch, also from the middle of one."""
        self.next_epoch()


class ROCALPeekableIterator(ROCALJaxIterator, PeekableDataIterator):
    """Iterator like `ROCALJaxIterator` with the methods `peek` and `peek_async` and the property `element_spec`."""


def convert_to_jax_array(array: Any) -> jax.Array:
    """Copy an array of another library to a `jax.Array`.

    Raises:
        ArgumentTypeError: The object does not support DLPack.

    >>> import numpy as np
    >>> convert_to_jax_array(np.zeros(2, np.float32)).shape
    (2,)
    """
    if not hasattr(array, "__dlpack__"):
        raise ArgumentTypeError("an array that knows DLPack is needed", given=short_repr(array), where=user_call_site())
    # With copy=True, `from_dlpack` still shares memory that has XLA's alignment. The output of a computation does not
    # share memory with its inputs. Wait for it: the caller may change the original after the return.
    return jax.block_until_ready(jax.numpy.copy(jax.numpy.from_dlpack(array)))
