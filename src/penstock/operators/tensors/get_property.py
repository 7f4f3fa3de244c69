"""get_property: what is known of samples besides their elements."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from penstock.errors import DefinitionError
from penstock.graph.operator import Common
from penstock.graph.registry import operator
from penstock.graph.trace import DataNode
from penstock.operators.tensors.constant import constant


@operator("get_property")
def get_property(data: DataNode, *, key: str, **common: Unpack[Common]) -> DataNode:
    """A property of samples, as a vector of bytes.

    Args:
        data: any value.
        key: "layout". (DALI's "source_info" is not offered: errors name a sample's source.)
        **common: what every operator takes.

    Returns:
        uint8, the letters of the layout.

    Raises:
        DefinitionError: another key.

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
    if key != "layout":
        raise DefinitionError("fn.get_property: no such property", given=repr(key), expected='"layout"')
    return constant(np.frombuffer(data.layout.encode(), np.uint8), **common)
