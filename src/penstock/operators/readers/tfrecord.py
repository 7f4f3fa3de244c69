"""readers.tfrecord: features of the examples in TFRecord files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

from penstock.errors import DefinitionError
from penstock.graph.arguments.argument_marks import DataLocation, PerformanceHint
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.readers.feature_options import as_features
from penstock.operators.readers.reader_arguments import ReaderArguments, apply_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.tfrecord.features import Feature
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
    """Read features of the examples in TFRecord files, which TensorFlow writes. Checksums are verified.

    A `penstock.tfrecord.FixedLenFeature` is read as an array of its shape, a string as its bytes, a `VarLenFeature` as
    an array of shape (?,), or (?, *shape). An example that lacks a feature has the default value, or nothing where the
    length varies. A `VarLenFeature` that no record names, of up to 512 from all over the files, is a scalar, as in
    DALI: the default value. A record that has it nevertheless is an error; write empty lists to avoid that.

    Args:
        path: a file, or several, read one after the other.
        index_path: an index for each file, as DALI's ``tfrecord2idx`` writes them. Without them the lengths of all
            records are read when the reader is made; give them where that takes too long.
        features: names, and what they are read as.
        use_o_direct: a hint of DALI's.
        **loader: See `ReaderArguments`.

    Returns:
        A dictionary with the names: int64, float32, or uint8 for strings.

    Raises:
        SourceNotFoundError: a file does not exist.
        SourceError: a file is no TFRecord file, is compressed or damaged, or an index belongs to another file.
        DefinitionError: no features, lists of strings, another number of indexes than of files.
        SampleError: while running, a record with a wrong checksum, or a feature of another type or shape.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn, tfrecord
        >>> from penstock.sources.formats.tfrecord.tf_example import encode_example
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
    paths, indexes = as_paths(path), as_paths(index_path)
    if not paths:
        raise DefinitionError("fn.readers.tfrecord: path is empty")
    if indexes and len(indexes) != len(paths):
        raise DefinitionError(
            "fn.readers.tfrecord: an index per file", given=f"{len(indexes)} for {len(paths)} files",
            fix="leave index_path out, and they are made",
        )  # fmt: skip
    wanted = as_features("fn.readers.tfrecord", features)
    source = open_shared(TFRecordSource, paths, indexes, wanted, stamp=file_stamps(*paths, *indexes))
    nodes = dict(zip([name for name, _ in wanted], apply_reader(source, loader), strict=True))
    return {name: nodes[name] for name in features}
