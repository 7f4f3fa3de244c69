"""readers.array_record: records of ArrayRecord files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.feature_options import as_features
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.array_record_source import ArrayRecordSource
from penstock.sources.formats.tfrecord.features import Feature
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.array_record")
def array_record(
    *,
    paths: DataLocation[Path | Sequence[Path]],
    features: Mapping[str, Feature] | None = None,
    **loader: Unpack[ReaderArguments],
) -> DataNode | dict[str, DataNode]:
    """Read the records of ArrayRecord files, which Grain and TensorFlow Datasets use. Needs the extra `array-record`.

    Records are stored in groups, and a group is decoded as a whole: for a shuffle, write files with ``group_size:1``.

    Args:
        paths: a file, a folder of files that end in ".array_record", a glob, or a brace pattern; or several, read one
            after the other. Objects of a store are copied to a temporary folder first.
        features: names, and what they are read as, where records are Example messages, as `penstock pack` writes them;
            as for `fn.readers.tfrecord`. None reads the records as they are.
        **loader: See `ReaderArguments`.

    Returns:
        The records, uint8 of shape (?,); with `features` a dictionary with their names.

    Raises:
        MissingExtraError: the package array_record is not installed.
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no ArrayRecord file, or is cut short or damaged, or there are no records.
        DefinitionError: no files, no features, lists of strings.
        SampleError: while running, a record that is damaged, a file that has been written to, or a feature of another
            type or shape.

    Example:
        >>> import penstock, tempfile
        >>> from array_record.python.array_record_module import ArrayRecordWriter
        >>> from penstock import fn
        >>> path = tempfile.mkdtemp() + "/train.array_record"
        >>> writer = ArrayRecordWriter(path, "group_size:1")
        >>> for record in (b"a jpeg", b"another"):
        ...     _ = writer.write(record)
        >>> writer.close()
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     pipeline.set_outputs(fn.readers.array_record(paths=path))
        >>> [bytes(record) for record in pipeline.run()[0]]
        [b'a jpeg', b'another']
    """
    files = as_shards(paths, ".array_record")
    if not files:
        raise DefinitionError("fn.readers.array_record: paths is empty")
    wanted = () if features is None else as_features("fn.readers.array_record", features)
    nodes = apply_reader(open_shared(ArrayRecordSource, files, wanted, stamp=file_stamps(*files)), loader)
    if features is None:
        return nodes[0]
    named = dict(zip([name for name, _ in wanted], nodes, strict=True))
    return {name: named[name] for name in features}
