"""get_property: layout and origin of samples."""

from dataclasses import replace
from typing import Literal, cast

import numpy as np

from penstock.graph import DataNode, Reader, apply, operator
from penstock.graph.ir.reader_lineage import reader_value_of
from penstock.operators.elementwise.constant import constant
from penstock.sources.combine.provenance import SampleNames


@operator("get_property")
def get_property(data: DataNode, *, key: Literal["layout", "source_info"]) -> DataNode:
    """Return a property of samples as a vector of bytes.

    "source_info" is the origin of a sample: the path of its file, as passed to the reader or relative to its folder, or
    another description, such as a file and a row number. These values have one: the first output of a reader, all
    features of a record, each component of a sample in a tar file, and values computed from exactly one of these. It is
    empty for all other values, and after `fn.permute_batch`. Paths differ in length, so iterators need `fn.pad`.

    Args:
        data: Any value.
        key: "layout" or "source_info".

    Returns:
        uint8 of shape (?,): the letters of the layout, or the bytes of the origin, without a terminator.

    Raises:
        DefinitionError: The key is unknown, or branches of "source_info" come from different readers.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=1)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.zeros((1, 2, 2, 3)), layout="HWC")
        ...     pipeline.set_outputs(fn.get_property(images, key="layout"))
        >>> bytes(pipeline.run()[0].at(0))
        b'HWC'
    """
    if key == "layout":
        return constant.forward(np.frombuffer(data.layout.encode(), np.uint8))
    origin = reader_value_of(data.value)
    if origin is None:
        return constant.forward(np.empty(0, np.uint8))
    # The origins are read by a second reader with the same order, so that no other output has to carry them.
    reader = cast(Reader, origin.node.operator)
    return apply(replace(reader, source=SampleNames(reader.source, origin.index)), beside=origin.node)
