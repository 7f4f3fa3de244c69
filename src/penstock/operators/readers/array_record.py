"""readers.array_record: records of ArrayRecord files."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.readers.feature_options import as_features, nodes_by_name
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.array_record_source import ArrayRecordSource
from penstock.sources.formats.tfrecord.feature_specs import Feature
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.array_record")
def array_record(
    *,
    paths: DataLocation[Path | Sequence[Path]],
    features: Mapping[str, Feature] | None = None,
    **loader: Unpack[ReaderArguments],
) -> DataNode | dict[str, DataNode]:
    """Read records of ArrayRecord files, a format of Grain and TensorFlow. Requires the extra `array-record`.

    Records are stored in groups, and reading one record decodes its whole group. For shuffling, write the files with
    ``group_size:1``.

    Args:
        paths: A file, a folder of files that end in ".array_record", a glob, or a brace pattern; or a list of these,
            read one after the other. Objects of an object store are first copied to a temporary folder.
        features: Names and features of records that are Example messages, as `penstock pack` writes them; see
            `fn.readers.tfrecord`. None returns the records as bytes.
        **loader: See `ReaderArguments`.

    Returns:
        The records, uint8 of shape (n,); with `features`, a dictionary with its names.

    Raises:
        MissingExtraError: The package array_record is not installed.
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not an ArrayRecord file, or is truncated or damaged, or there are no records.
        DefinitionError: `paths` or `features` is empty, or a feature is a list of strings.
        SampleError: While running, a record is damaged, a file was changed, or a feature has another dtype or shape.

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
    check_not_empty(paths=files)
    selection = () if features is None else as_features(features)
    nodes = apply_reader(open_shared(ArrayRecordSource, files, selection, stamp=file_stamps(*files)), loader)
    return nodes[0] if features is None else nodes_by_name(features, nodes)
