"""readers.mxnet: images and labels in RecordIO files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.recordio_source import RecordIOSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.mxnet")
def mxnet(
    *,
    path: DataLocation[Path | Sequence[Path]],
    index_path: DataLocation[Path | Sequence[Path] | None] = None,
    **loader: Unpack[ReaderArguments],
) -> list[DataNode]:
    """Read images and labels from RecordIO files, as MXNet's ``im2rec`` writes them.

    Args:
        path: a file, or several, read one after the other. Records come in the order in which they lie there.
        index_path: an index for each file, as ``im2rec`` writes them, or one that counts the bytes of all files
            together. Without them the lengths of all records are read when the reader is made; give them where that
            takes too long.
        **loader: See `ReaderArguments`.

    Returns:
        The images' bytes, uint8 of shape (?,), and labels, float32: of shape (1,) if the first record has one, else
        (?,). With one each, batches have labels of shape (N, 1); ``fn.squeeze(labels, axes=[0])`` makes it (N,), which
        metrics and losses take.

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no RecordIO file, is cut short or damaged, or an index belongs to another file.
        DefinitionError: another number of indexes than of files.
        SampleError: while running, a record that is damaged, or that has several labels where the first has one.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn
        >>> from penstock.sources.formats.recordio_source import encode_record, write_recordio
        >>> path = tempfile.mkdtemp() + "/train.rec"
        >>> index = write_recordio(path, [encode_record(b"a jpeg", [label]) for label in (3, 5)])
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     jpegs, labels = fn.readers.mxnet(path=path, index_path=index)
        ...     pipeline.set_outputs(fn.squeeze(labels, axes=[0]))
        >>> pipeline.run()[0].as_array().tolist()
        [3.0, 5.0]
    """
    paths, indexes = as_paths(path), as_paths(index_path)
    if not paths:
        raise DefinitionError("fn.readers.mxnet: path is empty")
    if len(indexes) not in (0, 1, len(paths)):
        raise DefinitionError(
            "fn.readers.mxnet: an index per file, or one for all", given=f"{len(indexes)} for {len(paths)} files",
            fix="leave index_path out, and they are made",
        )  # fmt: skip
    return apply_reader(open_shared(RecordIOSource, paths, indexes, stamp=file_stamps(*paths, *indexes)), loader)
