"""readers.cifar10: images and labels of the binary version of CIFAR-10."""

from os import PathLike
from typing import Unpack

from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.paths import absolute_path
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.formats.cifar10_files import open_cifar10, stamp_of_cifar10
from penstock.sources.open_sources import open_shared


@operator("readers.cifar10")
def cifar10(
    *,
    file_root: DataLocation[str | PathLike[str]],
    filename_prefix: DataLocation[str] = "data_batch_",
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode]:
    """Read the binary version of CIFAR-10, the files of ``cifar-10-batches-bin``. Whole batches are read at once.

    Args:
        file_root: Folder with ``data_batch_1.bin`` and the other files.
        filename_prefix: Files whose names contain this text are read, in the order of their names: ``data_batch_`` for
            the training set, ``test_batch`` for the test set.
        **loader: See `LabeledReaderArguments`.

    Returns:
        Images, uint8 of shape (3, 32, 32), layout CHW, and labels, int32 of shape (1,), or () with `flat_labels`.

    Raises:
        SourceNotFoundError: The folder does not exist, or does not contain such a file.
        SourceError: A file does not consist of whole records.

    Example:
        >>> import penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "test_batch.bin").write_bytes((bytes([7]) + bytes(3072)) + (bytes([9]) + bytes(3072)))
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images, labels = fn.readers.cifar10(file_root=folder, filename_prefix="test_batch", flat_labels=True)
        ...     pipeline.set_outputs(images, labels)
        >>> images, labels = pipeline.run()
        >>> images.as_array().shape, labels.as_array().tolist()
        ((2, 3, 32, 32), [7, 9])
    """
    folder = absolute_path(file_root)
    # The stamp covers the listing of the folder: files may be added to it.
    stamp = stamp_of_cifar10(folder, filename_prefix)
    return apply_labeled_reader(open_shared(open_cifar10, folder, filename_prefix, stamp=stamp), loader)
