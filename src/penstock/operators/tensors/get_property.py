"""get_property: what is known of samples besides their elements."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from penstock.errors import DefinitionError, short_repr
from penstock.graph.ir.operator import Reader
from penstock.graph.ir.reader_lineage import reader_value_of
from penstock.graph.tracing.apply import apply
from penstock.graph.tracing.registry import operator
from penstock.graph.tracing.trace import DataNode
from penstock.operators.elementwise.constant import constant
from penstock.sources.combine.provenance import SampleNames


@operator("get_property")
def get_property(data: DataNode, *, key: str) -> DataNode:
    """A property of samples, as a vector of bytes.

    Args:
        data: any value.
        key: "layout", or "source_info": where each sample was read. That is the path of the file as the reader was
            given or found it, relative to its folder; for other readers the place in their words, such as a file and
            the number of a row. It belongs to the first value of a reader, to all features of a record, or to each
            component of a sample in a tar file, which has its own, and to what is computed from one of these and
            from no other; all else has none, nor has what `fn.permute_batch` gives. Paths differ in length: an
            iterator needs `fn.pad` around them.

    Returns:
        uint8 of shape (?,): the letters of the layout, or the bytes of the path, without a terminator.

    Raises:
        DefinitionError: an unknown key; "source_info" of branches whose values come from different readers.

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
    if key != "source_info":
        raise DefinitionError(
            "fn.get_property: no such property", given=short_repr(key), expected='"layout" or "source_info"'
        )
    read = reader_value_of(data.value)
    if read is None:
        return constant.forward(np.empty(0, np.uint8))
    reader = cast(Reader, read.node.operator)
    return apply(replace(reader, source=SampleNames(reader.source, read.index)), beside=read.node)
