"""readers.caffe: Datum records of an LMDB in Caffe's format."""

from collections.abc import Sequence
from typing import Unpack

from penstock.errors import DefinitionError
from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.caffe.caffe_source import CaffeSource
from penstock.sources.formats.lmdb.lmdb_records import lmdb_stamp
from penstock.sources.open_sources import open_shared


@operator("readers.caffe")
def caffe(
    *,
    path: DataLocation[Path | Sequence[Path]],
    image_available: bool = True,
    label_available: bool = True,
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode] | DataNode:
    """Read images and labels from an LMDB of Caffe's Datum records.

    Args:
        path: Folder with ``data.mdb``, or several, read one after the other. Records come in the order of their keys.
        image_available: If True, images are returned.
        label_available: If True, labels are returned.
        **loader: See `LabeledReaderArguments`.

    Returns:
        The images: encoded bytes, uint8 of shape (n,), or raw pixels as stored, uint8 (height, width, channels). The
        labels, int32 of shape (1,), or () with `flat_labels`. A single node if only one of them is returned.

    Raises:
        SourceNotFoundError: A path does not exist.
        SourceError: A path is not an LMDB, is damaged or being written to, or its first record is not a Datum.
        DefinitionError: Neither images nor labels are returned.
        SampleError: While running, a record is damaged, or of another kind than the first.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn
        >>> from penstock.sources.formats.caffe.caffe_source import write_caffe
        >>> path = tempfile.mkdtemp()
        >>> write_caffe(path, [(b"a jpeg", 3), (b"another", 5)])
        2
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     jpegs, labels = fn.readers.caffe(path=path, flat_labels=True)
        ...     pipeline.set_outputs(labels)
        >>> pipeline.run()[0].as_array().tolist()
        [3, 5]
    """
    paths = as_paths(path)
    check_not_empty(path=paths)
    if not (image_available or label_available):
        raise DefinitionError("nothing to read", fix="image_available=True or label_available=True")
    # The stamp opens the data set again if it was written to since the last definition.
    stamp = lmdb_stamp(paths)
    source = open_shared(CaffeSource, paths, image_available, label_available, stamp=stamp)
    nodes = apply_labeled_reader(source, loader, label=int(image_available) if label_available else None)
    return nodes if len(nodes) > 1 else nodes[0]
