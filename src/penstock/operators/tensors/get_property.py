"""get_property: layout and origin of samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, cast

import numpy as np

from penstock.core import Array, Column, Spec
from penstock.graph import (
    BatchContext,
    BatchKernel,
    DataNode,
    Operator,
    Reader,
    StreamInput,
    WholeBatchKernel,
    apply,
    operator,
)
from penstock.graph.ir.node import Node, Value
from penstock.graph.ir.reader_lineage import reader_value_of, upstream_readers
from penstock.operators.cropping.multi_paste import MultiPasteBatch
from penstock.operators.elementwise.constant import constant
from penstock.operators.tensors.permute_batch import PermuteBatch
from penstock.sources.combine.provenance import SampleNames

_BYTES = Spec(np.dtype(np.uint8), (None,))


@dataclass(frozen=True)
class JoinNames(Operator, WholeBatchKernel):
    """Names of the samples that a sample is made of, separated by semicolons.

    Args:
        ids: Numbers of the samples on each canvas; None if the last input contains them. Empty if each input has one
            image for the canvas.
    """

    ids: tuple[int, ...] | None

    def infer(self, *_inputs: Spec) -> Spec:
        """Return the spec of a vector of bytes."""
        return _BYTES

    def whole_batch(self, context: BatchContext, *inputs: Column) -> Column:
        """Join the names of each row."""
        names = [[np.asarray(name).tobytes() for name in column] for column in inputs]
        if self.ids == ():
            rows: Sequence[Sequence[bytes]] = list(zip(*names, strict=True))
        else:
            numbers = [self.ids] * len(names[0]) if self.ids else [np.ravel(ids).tolist() for ids in inputs[-1]]
            rows = [[names[0][number] for number in own] for own in numbers]
        joined = [b";".join(filter(None, row)) for row in rows]
        return [cast(Array, np.frombuffer(name, np.uint8)) for name in joined]


def _combines(node: Node) -> bool:
    return node.operator.joins_names or isinstance(node.operator, PermuteBatch | MultiPasteBatch)


def _names(value: Value, common: Any = None) -> Any:
    """Return the names of the samples of a value: a node, or no bytes.

    Args:
        value: The value.
        common: Arguments that every operator takes, for the node that is returned; None for those of this call.
    """
    origin = reader_value_of(value, _combines)
    if origin is None:
        return np.empty(0, np.uint8)
    node, kind = origin.node, origin.node.operator
    if not _combines(node):
        # The origins are read by a second reader with the same order, so that no other output has to carry them.
        reader = cast(Reader, kind)
        return apply(replace(reader, source=SampleNames(reader.source, origin.index)), beside=node, common=common)
    if kind.joins_names:
        return apply(JoinNames(()), *[_names(item, {}) for item in node.inputs], common=common)
    names, others = _names(node.inputs[0], {}), [DataNode(item) for item in node.inputs[1:]]
    if not isinstance(names, DataNode):
        return names
    if isinstance(kind, PermuteBatch):
        return apply(kind, names, *others, common=common)
    pasted = cast(MultiPasteBatch, kind)
    ids = dict(pasted.fixed).get("in_ids")
    return apply(JoinNames(ids), names, *([] if ids else [others[pasted.varying.index("in_ids")]]), common=common)


@dataclass(frozen=True)
class LayoutLetters(Operator, BatchKernel):
    """Letters of a layout, once per row of a stream."""

    letters: bytes
    accepts_ragged: ClassVar[bool] = True

    def infer(self, *_inputs: Spec) -> Spec:
        """Return the spec of a vector of bytes."""
        return Spec(np.dtype(np.uint8), (len(self.letters),))

    def batch(self, context: BatchContext, *_inputs: Any) -> Any:
        """Return a row of letters per sample."""
        letters = context.xp.asarray(np.frombuffer(self.letters, np.uint8))
        return context.xp.broadcast_to(letters, (context.rows, len(self.letters)))


def _layout(data: DataNode) -> DataNode:
    letters = data.layout.encode()
    # A batch of a stream may have fewer rows than others, so a constant does not tell how many.
    streams = [node for node in upstream_readers(data.value.node) if isinstance(node.operator, StreamInput)]
    if streams:
        return apply(LayoutLetters(letters), DataNode(streams[0].values[0]))
    return constant.forward(np.frombuffer(letters, np.uint8))


@operator("get_property")
def get_property(data: DataNode, *, key: Literal["layout", "source_info"]) -> DataNode:
    """Return a property of samples as a vector of bytes.

    "source_info" is the origin of a sample: the path of its file, as passed to the reader or relative to its folder, or
    another description, such as a file and a row number. These values have one: the first output of a reader, all
    features of a record, each component of a sample in a tar file, and values computed from exactly one of these.
    Canvases of `fn.multi_paste` and outputs of `fn.jax_function` have those of all inputs, separated by semicolons. All
    other values have an empty one. Paths differ in length, so iterators need `fn.pad`.

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
        return _layout(data)
    names = _names(data.value)
    return names if isinstance(names, DataNode) else constant.forward(names)
