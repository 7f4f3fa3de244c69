"""readers.tfrecord: features of Example messages in TFRecord files."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from penstock.graph import DataLocation, DataNode, PerformanceHint, operator
from penstock.operators.readers.feature_options import as_features, nodes_by_name
from penstock.operators.readers.paths import check_not_empty, pair_indexes
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_shards
from penstock.sources.formats.tfrecord.feature_specs import Feature
from penstock.sources.formats.tfrecord.tfrecord_source import TFRecordSource
from penstock.sources.open_sources import open_shared
from penstock.sources.storage.file_stamps import file_stamps


@operator("readers.tfrecord")
def tfrecord(
    *,
    path: DataLocation[Path | Sequence[Path]],
    index_path: DataLocation[Path | Sequence[Path] | None] = None,
    features: Mapping[str, Feature],
    use_o_direct: PerformanceHint[bool] = False,
    **loader: Unpack[ReaderArguments],
) -> dict[str, DataNode]:
    """Read features of the Example messages in TFRecord files, the format of TensorFlow. Checksums are verified.

    A `penstock.tfrecord.FixedLenFeature` becomes an array of its shape, a string its bytes, and a `VarLenFeature` an
    array of shape (n,), or (n, *shape). If an example lacks a feature, the default value replaces it, or an empty array
    if its length varies. As in DALI, a `VarLenFeature` that is in no record becomes a scalar with the default value; up
    to 512 records from all parts of the files are checked. If another record has it after all, that is an error: write
    empty lists to avoid it.

    Args:
        path: A file, a folder of files that end in ".tfrecord", a glob, or a brace pattern; or a list of these, read
            one after the other. In an object store, a folder ends with a slash.
        index_path: An index per file, as DALI's ``tfrecord2idx`` writes them; also a folder, glob or pattern. Indexes
            belong to the files of the same names, or to those at the same places if names differ. Without indexes, the
            lengths of all records are read when the reader is created; give indexes if that takes too long.
        features: Dictionary of names and features.
        use_o_direct: DALI's hint; it has no effect.
        **loader: See `ReaderArguments`.

    Returns:
        A dictionary with the names: int64, float32, or uint8 for strings.

    Raises:
        SourceNotFoundError: A file does not exist.
        SourceError: A file is not a TFRecord file, is compressed or damaged, or an index belongs to another file.
        DefinitionError: `features` is empty or has a list of strings, or the number of indexes is not that of files.
        SampleError: While running, a record has a wrong checksum, or a feature another dtype or shape.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn, tfrecord
        >>> from penstock.sources.formats.tfrecord.example_message import encode_example
        >>> from penstock.sources.formats.tfrecord.tfrecord_source import write_tfrecord
        >>> path = tempfile.mkdtemp() + "/train.tfrecord"
        >>> write_tfrecord(path, [encode_example({"image": b"a jpeg", "label": [n]}) for n in (3, 5)])
        2
        >>> features = {"image": tfrecord.FixedLenFeature((), tfrecord.string, ""),
        ...             "label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)}
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     inputs = fn.readers.tfrecord(path=path, features=features)
        ...     pipeline.set_outputs(inputs["label"])
        >>> pipeline.run()[0].as_array().tolist()
        [[3], [5]]
    """
    del use_o_direct
    paths, indexes = as_shards(path, ".tfrecord"), as_shards(index_path, ".idx")
    check_not_empty(path=paths)
    indexes = pair_indexes("index_path", indexes, paths, ".tfrecord")
    stamp = file_stamps(*paths, *indexes)
    source = open_shared(TFRecordSource, paths, indexes, as_features(features), stamp=stamp)
    return nodes_by_name(features, apply_reader(source, loader))
