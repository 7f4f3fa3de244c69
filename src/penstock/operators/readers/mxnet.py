"""readers.mxnet: images and labels in RecordIO files."""

from collections.abc import Sequence
from typing import Unpack

from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.paths import check_not_empty, check_one_per_file
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader, shuffled_once
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.recordio_source import RecordIOSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.mxnet")
def mxnet(
    *,
    path: DataLocation[Path | Sequence[Path]],
    index_path: DataLocation[Path | Sequence[Path] | None] = None,
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode]:
    """Read images and labels from RecordIO files, as MXNet's ``im2rec`` writes them.

    Args:
        path: A file, or several, read one after the other. Records come in the order of the file.
        index_path: An index per file, as ``im2rec`` writes them, or one whose offsets run through all files. Without
            indexes, the headers of all records are read when the reader is created; give indexes if that takes too
            long.
        **loader: See `LabeledReaderArguments`.

    Returns:
        Bytes of the images, uint8 of shape (n,), and labels, float32: of shape (1,) if the first record has a single
        label, otherwise (labels,).

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a RecordIO file, is truncated or damaged, or an index belongs to another file.
        DefinitionError: The number of indexes is not that of files.
        SampleError: While running, a record is damaged, or has several labels although the first has one.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn
        >>> from penstock.sources.formats.recordio_source import encode_record, write_recordio
        >>> path = tempfile.mkdtemp() + "/train.rec"
        >>> index = write_recordio(path, [encode_record(b"a jpeg", [label]) for label in (3, 5)])
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     jpegs, labels = fn.readers.mxnet(path=path, index_path=index, flat_labels=True)
        ...     pipeline.set_outputs(labels)
        >>> pipeline.run()[0].as_array().tolist()
        [3.0, 5.0]
    """
    paths, indexes = as_paths(path), as_paths(index_path)
    check_not_empty(path=paths)
    # As in DALI, one index may serve several files, with offsets as if they were one.
    if len(indexes) > 1:
        check_one_per_file("index_path", indexes, paths)
    return apply_labeled_reader(
        open_shared(RecordIOSource, paths, indexes, stamp=file_stamps(*paths, *indexes)), shuffled_once(loader)
    )
