"""readers.mnist: images and labels in the IDX files of MNIST."""

from os import PathLike
from typing import Literal, Unpack

import numpy as np

from penstock.errors import SourceError
from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.paths import absolute_path
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.formats.array_source import ArraySource
from penstock.sources.formats.idx_files import find_idx, read_idx
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps

# Prefixes of the file names. "t10k" is the test set of 10,000 images.
_SPLITS = {"train": "train", "test": "t10k"}


@operator("readers.mnist")
def mnist(
    *,
    path: DataLocation[str | PathLike[str]],
    split: DataLocation[Literal["train", "test"]] = "train",
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode]:
    """Read MNIST, Fashion-MNIST or another data set in the same files. Whole batches are read at once.

    Args:
        path: Folder with ``train-images-idx3-ubyte`` and the three other files, uncompressed or with ``.gz``.
        split: "train", or "test" for the ``t10k`` files.
        **loader: See `LabeledReaderArguments`.

    Returns:
        Images, uint8 of shape (28, 28, 1), layout HWC, and labels, int32 of shape (1,), or () with `flat_labels`.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not an IDX file, is truncated, or images and labels do not match.
        DefinitionError: The split is unknown.

    Example:
        >>> import gzip, penstock, tempfile
        >>> from pathlib import Path
        >>> from penstock import fn
        >>> folder = Path(tempfile.mkdtemp())
        >>> sizes = b"".join(n.to_bytes(4, "big") for n in (2, 28, 28))
        >>> _ = (folder / "train-images-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3]) + sizes + bytes(2 * 784))
        >>> _ = (folder / "train-labels-idx1-ubyte.gz").write_bytes(
        ...     gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])))
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     images, labels = fn.readers.mnist(path=folder, flat_labels=True)
        ...     pipeline.set_outputs(images, labels)
        >>> images, labels = pipeline.run()
        >>> images.as_array().shape, labels.as_array().tolist()
        ((2, 28, 28, 1), [7, 9])
    """
    folder = absolute_path(path)
    files = [find_idx(folder, f"{_SPLITS[split]}-{part}-ubyte") for part in ("images-idx3", "labels-idx1")]
    return apply_labeled_reader(open_shared(_open, folder, split, *files, stamp=file_stamps(*files)), loader)


def _open(folder: str, split: str, *files: str) -> ArraySource:
    images, labels = (read_idx(file) for file in files)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise SourceError(
            f"the images and labels in {folder} do not match", given=f"shapes {images.shape} and {labels.shape}"
        )
    # int32 labels of shape (1,) and images with a channel axis, as DALI's readers return them.
    return ArraySource([images[..., None], labels.astype(np.int32)[:, None]], ["HWC", ""], f"{folder} ({split})")
