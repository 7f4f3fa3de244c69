"""cache: values that are computed once per sample and kept in memory or in files."""

from os import PathLike, fspath
from typing import Any

from penstock.core.warn_once import warn_once
from penstock.engine.graph_program import GivenColumn
from penstock.errors import DefinitionError
from penstock.graph import DataNode, PerformanceHint, Reader, StreamInput, apply_many, current_trace, operator
from penstock.graph.ir.node import upstream_nodes
from penstock.graph.ir.sample_cache import SampleCache, check_cacheable
from penstock.sources.storage.byte_range import ReadCost
from penstock.sources.storage.object_store import is_remote
from penstock.sources.storage.sample_limit import bytes_of


@operator("cache")
def cache(
    *data: DataNode,
    memory: PerformanceHint[int | str | None] = None,
    path: PerformanceHint[str | PathLike[str] | None] = None,
    limit: PerformanceHint[int | str | None] = None,
) -> Any:
    """Keep values per sample, so that from the second epoch on they are neither read nor computed.

    Cache decoded and resized images as uint8, and draw random crops and flips after it. Batches are the same with and
    without the cache, and so are saved states. If the definition uses other values from before the cache, such as
    labels, they are stored with it.

    A sample is stored when it is first computed, as long as there is room: when the limit is reached, the other samples
    are computed in every epoch. A sample whose file has another size or time of modification is computed again. Bad
    samples are not stored. `stats()` counts hits and fills, and `explain()` tells how much is stored.

    The values may depend on nothing but the sample of one reader: not on random numbers, streams, other samples or
    values of the device. A Python function before the cache must return the same result for the same input; it excludes
    `path`, since a file cannot notice that you change the function.

    Args:
        *data: Values that follow from the samples of one reader.
        memory: Limit on the bytes in memory, of all processes of a host together: a number, or a text such as "8 GiB".
            Kept as long as the iterator or pipeline. Several of one process that store the same values of the same
            files share one cache.
        path: Folder of files that processes and later runs share, on a local disk. Each definition and data set has
            its own files in it, and checksums detect damage. The names and labels of all samples and the content of
            16 of them tell data sets apart. Delete the folder when no program uses it.
        limit: With `path`, limit on the bytes of all files in the folder. By default, 5% of the disk remain free.

    Returns:
        The values, a list if there are several.

    Raises:
        DefinitionError: The values depend on more than the sample, neither or both of `memory` and `path` are given, or
            `path` is the URL of an object store.

    Example:
        >>> import numpy as np, penstock
        >>> from penstock import fn
        >>> pipeline = penstock.Pipeline(batch_size=4)
        >>> with pipeline:
        ...     images = fn.readers.arrays(np.full((32, 8, 8, 3), 9, np.uint8), layout="HWC")
        ...     images = fn.cache(fn.resize(images, size=(4, 4)), memory="1 MiB")
        ...     pipeline.set_outputs(fn.flip(images, horizontal=fn.random.coin_flip()))
        >>> shapes = [pipeline.run()[0].as_array().shape for _ in range(16)]  # two epochs
        >>> stages = pipeline.executor_statistics()
        >>> shapes[-1], stages["cache: fills"].samples, stages["readers.arrays"].samples
        ((4, 4, 4, 3), 32, 32)
    """
    if (memory is None) == (path is None):
        raise DefinitionError(
            "give either memory= or path=", given="neither" if path is None else "both", fix='memory="8 GiB"'
        )
    if path is not None and is_remote(path):
        raise DefinitionError(
            "path must be a local folder", given=f"path={fspath(path)!r}", fix="a folder on a local disk, or memory="
        )
    if limit is not None and path is None:
        raise DefinitionError("limit is for files", given=f"limit={limit!r}", fix="path=..., or memory= alone")
    store = SampleCache(
        0 if memory is None else _bytes("memory", memory),
        "" if path is None else fspath(path),
        None if limit is None else _bytes("limit", limit),
    )
    if not data:
        raise DefinitionError("no values are given", expected="at least one")
    nodes = [other.operator for other in upstream_nodes(value.value.node for value in data)]
    given = any(isinstance(item, StreamInput) and isinstance(item.stream, GivenColumn) for item in nodes)
    # On data that the caller has, and in debug mode, there is nothing to save.
    if given or current_trace().eager is not None:
        return data[0] if len(data) == 1 else list(data)
    results = apply_many(store, *data)
    check_cacheable(results[0].value.node, list(current_trace().nodes))
    # Only listings and indexes tell the ETag of an object without a request per sample.
    sources = [item.source for item in nodes if isinstance(item, Reader)]
    if any(source.cost is ReadCost.STORE and source.sample_state(0) is None for source in sources):
        warn_once(
            "fn.cache",
            "fn.cache keeps no samples of objects that are named, not listed: nothing tells whether they have changed",
            fix="file_root with a prefix of an object store, shards, or PENSTOCK_CACHE_SIZE, which keeps encoded files",
        )
    return results[0] if len(results) == 1 else results


def _bytes(name: str, size: int | str) -> int:
    result = bytes_of(name, size) if isinstance(size, str) else size
    if result <= 0:
        raise DefinitionError(f"{name} must be positive", given=size)
    return result
