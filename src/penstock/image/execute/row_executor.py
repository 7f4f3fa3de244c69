"""Execution of passes on the host, over groups of rows that fit into the cache of a core."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array, Column, RowSelection
from penstock.core.recycled_memory import result_memory
from penstock.graph.ir.fusion_contract import Passes
from penstock.image.describe.pixel_pass import Pass
from penstock.image.execute.pass_executor import PassExecutor
from penstock.image.execute.prepared_passes import PreparedPasses
from penstock.image.execute.value_pass import BYTE, FLOAT
from penstock.image.kernels.scratch_memory import ScratchMemory
from penstock.image.kernels.strided_images import StridedImages, is_contiguous
from penstock.native.argument_block import address, addresses
from penstock.native.compiled import BoundCode
from penstock.native.loop_chain import LoopChain

# Bytes per group of rows. Several small images go through all passes together, a large image alone.
CACHE = 1 << 18

# Groups that are worth a chain of loops: to make one takes as long as the calls for three groups.
_MIN_GROUPS = 4


class Loading(NamedTuple):
    """Loop that loads groups of images.

    Args:
        loop: Machine code that loads the images of a range of rows.
        left: bool (rows,), in which it marks the rows that it leaves.
        source: The images of all rows.
    """

    loop: BoundCode
    left: NDArray[np.bool_]
    source: StridedImages


class Images(Protocol):
    """Images that `execute_rows` reads."""

    scratch: ScratchMemory

    def groups(self) -> list[slice]:
        """Return runs of rows that go through all passes together: all rows, in order, without gaps."""
        ...

    def load(self, group: slice) -> StridedImages:
        """Load the images of a group.

        Returns:
            The images of the group. If the places of all images are known beforehand: the images of all rows, the same
            object for every group, so that passes are bound to it once. Where a group has memory of its own: the same
            places in that memory.
        """
        ...

    def loading(self) -> Loading | None:
        """Return a loop that loads groups, if there is one and it saves time."""
        ...


class DenseImages:
    """Images of one array, read in place.

    Args:
        images: Batch (rows, ...), or rows of one.
        passes: Passes that read them.
        scratch: Scratch memory for intermediate results.
    """

    def __init__(self, images: Array | RowSelection, passes: Sequence[Pass], scratch: ScratchMemory) -> None:
        self.scratch, self._passes = scratch, passes
        if isinstance(images, RowSelection) and images.array.dtype in (BYTE, FLOAT) and is_contiguous(images.array):
            self._source = StridedImages.of_batch(images.array, images.indices)
            return
        if isinstance(images, RowSelection):
            # The loops convert other dtypes first, and they convert the whole memory: it should be no data set.
            images = images.gather()
        self._source = StridedImages.of_batch(images if is_contiguous(images) else np.ascontiguousarray(images))

    def groups(self) -> list[slice]:
        """Return groups whose intermediate results fit into the cache; one group if there are none."""
        rows = len(self._source.starts)
        between = [int(pass_.shapes.prod(axis=1).max()) * pass_.dtype.itemsize for pass_ in self._passes[:-1]]
        step = max(1, min(rows, CACHE // max(*between, 1))) if between else rows
        return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]

    def load(self, group: slice) -> StridedImages:
        """Return the images of all rows."""
        del group
        return self._source

    def loading(self) -> None:
        """Return None: the images are in memory."""


class RaggedImages:
    """Images in arrays of their own, or in parts of one array, such as the results of other passes.

    Args:
        images: One array per row.
        scratch: Scratch memory that small images are gathered in.
    """

    def __init__(self, images: Sequence[Array], scratch: ScratchMemory) -> None:
        self.scratch, self._images = scratch, images
        self._groups = cache_groups([image.nbytes for image in images])
        # Large images are groups of their own, and to bind passes to each takes 50 us. To images that are in one memory
        # they are bound once. Small images are gathered instead, without Python for each of them.
        self._together = _in_one_memory(images) if 2 * len(self._groups) > len(images) else None

    def groups(self) -> list[slice]:
        """Return groups whose images fit into the cache."""
        return self._groups

    def load(self, group: slice) -> StridedImages:
        """Gather small images in scratch memory; read a large one, and images in one memory, in place."""
        if self._together is not None:
            return self._together
        images = self._images[group]
        shapes = np.array([image.shape for image in images], np.int64)
        if len(images) == 1:
            return StridedImages.packed(np.ascontiguousarray(images[0]).reshape(-1), shapes)
        dtype = images[0].dtype
        values = self.scratch.take(2, int(shapes.prod(axis=1).sum()) * dtype.itemsize).view(dtype)
        if (shapes[:, 1:] == shapes[0, 1:]).all():
            # One concatenation without flattening each image, which is faster.
            entries = int(shapes[:, 0].sum())
            values = values[: entries * int(shapes[0, 1:].prod())]
            np.concatenate(images, out=values.reshape(entries, *shapes[0, 1:]))
            return StridedImages.packed(values, shapes)
        flat = [image.reshape(-1) for image in images]
        return StridedImages.packed(np.concatenate(flat, out=values[: sum(map(len, flat))]), shapes)

    def loading(self) -> None:
        """Return None: the images are in memory."""


def _in_one_memory(images: Sequence[Array]) -> StridedImages | None:
    """Return the images where they are, if all are parts of one array; otherwise None."""
    base: Any = images[0].base
    dtype = images[0].dtype
    # As for `DenseImages`, loops convert the whole memory of other dtypes.
    if len(images) == 1 or dtype not in (BYTE, FLOAT) or type(base) is not np.ndarray or not base.flags.c_contiguous:
        return None
    if base.dtype not in (BYTE, dtype) or not all(i.base is base and i.flags.c_contiguous for i in images):
        return None
    starts = addresses(images) - address(base)
    if (starts % dtype.itemsize).any():
        return None
    memory = base.reshape(-1).view(BYTE)
    values = memory[: memory.size // dtype.itemsize * dtype.itemsize].view(dtype)
    return StridedImages.packed(values, np.array([image.shape for image in images], np.int64), starts // dtype.itemsize)


def execute_rows(passes: Passes, prepared: PreparedPasses, images: Images, out: Array | None) -> Column:
    """Run passes, one group of rows after another.

    Args:
        passes: Passes over all rows.
        prepared: The same passes, prepared.
        images: Images that the first pass reads.
        out: Memory for the results, (rows, ...), if all have one shape. None: allocate it.

    Returns:
        `out`, or one array per row.
    """
    column, target = _allocate_results(passes) if out is None else (out, StridedImages.of_batch(out))
    groups = images.groups()
    # Two pieces of scratch memory are enough: a pass reads from one and writes to the other.
    between = [
        pack_groups(images.scratch, number % 2, pass_.dtype, pass_.shapes, groups)
        for number, pass_ in enumerate(passes.passes[:-1])
    ]
    targets = [*between, target]
    executors = list(map(PassExecutor, passes.passes, prepared.values, targets))
    for executor, memory in zip(executors[1:], between, strict=True):
        executor.bind(memory, slice(0, groups[-1].stop))
    # Binding allocates tables and converts addresses for C, which takes longer than the pixels of a few small images.
    source, chain, number = None, None, 0
    if len(groups) >= _MIN_GROUPS and (loading := images.loading()):
        source = loading.source
        executors[0].bind(source, slice(0, len(source.starts)))
        chain = _chain(loading, executors, groups)
    while number < len(groups):
        if chain and (number := chain.run(number)) == len(groups):
            break
        group = groups[number]
        loaded = images.load(group)
        if source is None or loaded.starts is not source.starts:
            source = loaded
            executors[0].bind(source, slice(group.start, group.start + len(source.starts)))
        executors[0].run(group, None if loaded is source else loaded.values)
        for executor in executors[1:]:
            executor.run(group)
        number += 1
    return column


def _chain(loading: Loading, executors: Sequence[PassExecutor], groups: Sequence[slice]) -> LoopChain | None:
    """Return the loops that load groups and run all passes on them; None if a pass takes more than a loop."""
    loops = [loading.loop]
    for executor in executors:
        if executor.loop is None:
            return None
        loops.append(executor.loop)
    return LoopChain(loops, groups, loading.left)


def _allocate_results(passes: Passes) -> tuple[list[Array], StridedImages]:
    dtype = passes.passes[-1].dtype
    values = result_memory.empty((int(passes.shapes.prod(axis=1).sum()),), dtype)
    target = StridedImages.packed(values, passes.shapes)
    ends = np.append(target.starts[1:], values.size).tolist()
    places = zip(target.starts.tolist(), ends, passes.shapes.tolist(), strict=True)
    return [values[start:end].reshape(shape) for start, end, shape in places], target


def pack_groups(
    scratch: ScratchMemory,
    number: int,
    dtype: np.dtype[Any],
    shapes: NDArray[np.int64],
    groups: Sequence[slice],
    limit: float = math.inf,
) -> StridedImages:
    """Return images in scratch memory that every group uses again: those of a group are packed without gaps.

    Args:
        scratch: Scratch memory.
        number: Which piece of it.
        dtype: Dtype of the images.
        shapes: Shapes of the images, int64 (rows, axes).
        groups: Runs of rows: all rows, in order.
        limit: Bytes of the largest group for which there is memory.
    """
    ends = shapes.prod(axis=1).cumsum()
    before = np.array([ends[group.start - 1] if group.start else 0 for group in groups], np.int64)
    starts = np.append(0, ends[:-1]) - np.repeat(before, [group.stop - group.start for group in groups])
    sizes = np.diff(before, append=ends[-1:])
    most = int(sizes[sizes * dtype.itemsize <= limit].max(initial=0))
    values = scratch.take(number, most * dtype.itemsize).view(dtype)
    return StridedImages.packed(values, shapes, starts)


def cache_groups(sizes: Sequence[int]) -> list[slice]:
    """Return runs of rows that fit into the cache together, at least one row each.

    Args:
        sizes: Bytes of each row.
    """
    ends = list(accumulate(sizes))
    groups: list[slice] = []
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, bisect_right(ends, before + CACHE, start))
        groups.append(slice(start, end))
        start, before = end, ends[end - 1]
    return groups
