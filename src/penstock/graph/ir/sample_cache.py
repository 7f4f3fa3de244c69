"""Operator of cached values: what the cache may hold, and the part of a definition that it saves."""

from collections.abc import Iterable

import numpy as np

from penstock.core import Spec
from penstock.core.dataclass import dataclass
from penstock.errors import DefinitionError
from penstock.graph.ir.node import Node, upstream_nodes
from penstock.graph.ir.operator import Operator, Reader, StreamInput, WholeBatchKernel


@dataclass(frozen=True)
class SampleCache(Operator):
    """Values that are stored per sample of a reader. Computed once per sample, as long as the cache has room.

    Where no cache is open, such as for the probe of sample 0, it is the identity.

    Args:
        memory: Limit on the bytes in memory, of all processes of a host together; 0 if the cache is in files.
        folder: Folder of the files, or "".
        limit: Limit on the bytes of all files in the folder; None leaves a part of the disk free.
    """

    memory: int
    folder: str = ""
    limit: int | None = None

    def infer(self, *values: Spec) -> tuple[Spec, ...]:
        """Return the specs of the inputs."""
        return values


def cached_reader(node: Node) -> Node:
    """Return the reader whose samples a cache numbers; see `check_cacheable`."""
    return next(other for other in upstream_nodes([node]) if isinstance(other.operator, Reader))


def check_cacheable(node: Node, others: Iterable[Node]) -> None:
    """Check that the inputs of a cache depend on nothing but the sample of one reader.

    Args:
        node: Node of a `SampleCache`.
        others: The other nodes of the definition.

    Raises:
        DefinitionError: They depend on more, or the cache cannot notice that it changes.
    """
    if node.guard is not None:
        raise DefinitionError("the call is in a branch of a condition", fix="cache the values before the condition")
    above = sorted(upstream_nodes(value.node for value in node.inputs), key=lambda other: other.id)
    in_files = bool(_cache(node).folder)
    for other in above:
        if (reason := _obstacle(other, in_files=in_files)) is not None:
            raise DefinitionError(
                f"the values depend on {other}, {reason[0]}", given=f"{other}, created at {other.where}", fix=reason[1]
            )
    readers = [other for other in above if isinstance(other.operator, Reader)]
    if len(readers) != 1:
        raise DefinitionError(
            "the values must be computed from the samples of one reader",
            given=", ".join(map(str, readers)) or "no reader",
            fix="a cache for the values of each reader" if readers else None,
        )
    for other in others:
        if other is not node and isinstance(other.operator, SampleCache) and cached_reader(other) is readers[0]:
            raise DefinitionError(
                f"{readers[0]} has two caches, and its samples are read once for both",
                given=f"another cache, created at {other.where}",
                fix="one call for all values: a, b = fn.cache(a, b, ...)",
            )
    if in_files:
        _check_identified(readers[0])


def follows_from_inputs(node: Node) -> bool:
    """Return True if the values of a row follow from the inputs of the row alone, in every run."""
    # Nodes of the engine have no call: a description of other nodes draws their random numbers.
    return node.call is not None and node.guard is None and _obstacle(node, in_files=True) is None


def _cache(node: Node) -> SampleCache:
    assert isinstance(node.operator, SampleCache)
    return node.operator


def _obstacle(node: Node, *, in_files: bool) -> tuple[str, str] | None:
    """Return why the values of a node cannot be cached, and the fix; None if they can."""
    operator, later = node.operator, f"call fn.{node.kind} after the cache"
    if operator.random_bits:
        return "which draws random numbers: the cache would repeat those of the first epoch", later
    if isinstance(operator, StreamInput):
        return "which is a stream: its samples have no numbers", "a reader, such as fn.readers.items"
    if isinstance(operator, WholeBatchKernel) or operator.moves_rows:
        return "which computes a sample from its batch", later
    if isinstance(operator, SampleCache):
        return "which is a cache", "one cache"
    if operator.reproducible == "never":
        return "which reads more than its inputs, and a cache would not notice a change", later
    # Names of functions are part of the key of the files, but not their code.
    if in_files and not operator.is_self_contained:
        return "which is your code: a file would not notice that you change it", f"memory=..., or {later}"
    return None


def _check_identified(reader: Node) -> None:
    """Check that a change of the data set changes a file: fingerprints depend on a part of the arrays or items only."""
    assert isinstance(reader.operator, Reader)
    source = reader.operator.source
    if source.path(0) is None and not source.byte_ranges(np.arange(1)):
        raise DefinitionError(
            f"the samples of {reader} are not in files that the cache could check for changes",
            given=source.summary(),
            fix="memory=...",
        )
