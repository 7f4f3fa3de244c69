"""readers.caffe2: TensorProtos records of an LMDB in Caffe2's format."""

from collections.abc import Sequence
from typing import Unpack

from penstock.graph import DataLocation, DataNode, operator
from penstock.operators.argument_limits import Length
from penstock.operators.readers.paths import check_not_empty
from penstock.operators.readers.reader_arguments import LabeledReaderArguments, apply_labeled_reader
from penstock.sources.files.path_arguments import Path, as_paths
from penstock.sources.formats.caffe.caffe2_source import Caffe2Source
from penstock.sources.formats.lmdb.lmdb_records import lmdb_stamp
from penstock.sources.open_sources import open_shared
from penstock.types import LabelType


@operator("readers.caffe2")
def caffe2(
    *,
    path: DataLocation[Path | Sequence[Path]],
    label_type: LabelType = LabelType.SINGLE_LABEL,
    num_labels: Length = 1,
    additional_inputs: int = 0,
    bbox: bool = False,
    image_available: bool = True,
    **loader: Unpack[LabeledReaderArguments],
) -> list[DataNode]:
    """Read images and labels from an LMDB of Caffe2's TensorProtos records.

    Args:
        path: Folder with ``data.mdb``, or several, read one after the other. Records come in the order of their keys.
        label_type: Storage of labels, a `types.LabelType`: a single number; all numbers of the tensor; a list of
            classes, returned as zeros and ones; a list of classes with weights; or no labels.
        num_labels: Number of classes, for the two kinds of lists.
        additional_inputs: Number of further tensors in each record to return.
        bbox: If True, a bounding box is returned after them.
        image_available: True if records begin with an image.
        **loader: See `LabeledReaderArguments`.

    Returns:
        The images: encoded bytes, uint8 of shape (n,), or raw pixels, uint8 HWC. The labels, int32 or float32; of shape
        (1,) for a single number. Then the additional tensors and the box. Without labels, the images alone.

    Raises:
        SourceNotFoundError: A path does not exist.
        SourceError: A path is not an LMDB, is damaged or being written to, or its first record does not match the
            arguments.

    Example:
        >>> import penstock, tempfile
        >>> from penstock import fn
        >>> from penstock.sources.formats.caffe.caffe2_source import write_caffe2
        >>> path = tempfile.mkdtemp()
        >>> write_caffe2(path, [(b"a jpeg", 3), (b"another", 5)])
        2
        >>> pipeline = penstock.Pipeline(batch_size=2)
        >>> with pipeline:
        ...     jpegs, labels = fn.readers.caffe2(path=path, flat_labels=True)
        ...     pipeline.set_outputs(labels)
        >>> pipeline.run()[0].as_array().tolist()
        [3, 5]
    """
    paths = as_paths(path)
    check_not_empty(path=paths)
    source = open_shared(
        Caffe2Source,
        paths,
        # As in DALI, users may also give a member's number.
        LabelType(label_type),
        num_labels,
        additional_inputs,
        bbox,
        image_available,
        # The stamp opens the data set again if it was written to since the last definition.
        stamp=lmdb_stamp(paths),
    )
    label = None if label_type == LabelType.NO_LABEL else int(image_available)
    return apply_labeled_reader(source, loader, label=label)
