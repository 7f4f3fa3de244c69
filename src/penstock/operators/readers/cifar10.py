"""readers.cifar10: the binary version of CIFAR-10."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import Unpack

from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.formats.cifar10_files import open_cifar10, stamp_of_cifar10
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.object_store import is_remote


@operator("readers.cifar10")
def cifar10(
    *,
    file_root: DataLocation[str | PathLike[str]],
    filename_prefix: DataLocation[str] = "data_batch_",
    **loader: Unpack[ReaderArguments],
) -> list[DataNode]:
    """Read CIFAR-10 in its binary version, the files of ``cifar-10-batches-bin``. Whole batches are read at once.

    Args:
        file_root: the folder with ``data_batch_1.bin`` and its sisters.
        filename_prefix: the files that have it in their name are read, in the order of their names: ``data_batch_``
            for the training set, ``test_batch`` for the test set.
        **loader: See `ReaderArguments`.

    Returns:
        Images, uint8 of shape (3, 32, 32), layout CHW, and class numbers, int32 of shape (1,).
        Batches have labels of shape (N, 1); ``fn.squeeze(labels, axes=[0])`` makes it (N,), as metrics and losses need.

    Raises:
        SourceNotFoundError: there is no such folder, or no such file in it.
        SourceError: a file does not consist of whole records.

    Example:
        >>> import penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "test_batch.bin").write_bytes((bytes([7]) + bytes(3072)) + (bytes([9]) + bytes(3072)))
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images, labels = fn.readers.cifar10(file_root=folder, filename_prefix="test_batch")
        ...     pipeline.set_outputs(images, fn.squeeze(labels, axes=[0]))
        >>> images, labels = pipeline.run()
        >>> images.as_array().shape, labels.as_array().tolist()
        ((2, 3, 32, 32), [7, 9])
    """
    folder = fspath(file_root) if is_remote(file_root) else str(Path(fspath(file_root)).absolute())
    stamp = stamp_of_cifar10(folder, filename_prefix)
    return apply_reader(open_shared(open_cifar10, folder, filename_prefix, stamp=stamp), loader)
