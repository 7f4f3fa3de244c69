"""Chains of loops: several loops, for one group of rows after another, in one call without the GIL."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from penstock.core import Array
from penstock.errors import InternalError
from penstock.native.argument_block import address
from penstock.native.c_function import EntryFunction
from penstock.native.compiled import BoundCode, Compiled, precompile

# Bytes of the two ints at the end of a block, which the chain writes before each call of a loop.
_ENDS = bytes(16)

# Rows for which calling each loop from Python takes 0.3 s longer, as long as compiling the chain.
_ENOUGH_ROWS = 30_000

call_entry = EntryFunction()


@precompile("i8[1] b1[1] i8[1] i8[1] i8[1] i8 i8[1]")
@Compiled
def run_groups(
    bounds: Array, left: Array, entries: Array, ends: Array, blocks: Array, blocks_address: int, state: Array
) -> None:
    """Run loops for one group of rows after another.

    Args:
        bounds: int64 (groups + 1,), first row of each group and the end of the last one.
        left: bool (rows,), which the first loop writes. A group with a True is left: the chain ends before its other
            loops.
        entries: int64 (loops,), addresses of the loops' entries.
        ends: int64 (loops,), end of the block of each loop in `blocks`.
        blocks: int64, the blocks of all loops, one after another. The last two numbers of each are written.
        blocks_address: Address of `blocks`.
        state: int64 (2,), the first group to run. Receives the group that is left, or the number of groups; and the
            number of the loop that raised an exception, from 1.
    """
    while state[0] < bounds.shape[0] - 1:
        first, last, block = bounds[state[0]], bounds[state[0] + 1], 0
        for n in range(entries.shape[0]):
            blocks[ends[n] - 2], blocks[ends[n] - 1] = first, last
            if call_entry(entries[n], blocks_address + 8 * block) != 0:
                state[1] = n + 1
                return
            block = ends[n]
            if n == 0:
                for row in range(first, last):
                    if left[row]:
                        return
        state[0] += 1


class LoopChain:
    """Chain of loops over groups of rows.

    Args:
        loops: Loops over ranges of rows. The first one may leave rows.
        groups: Groups of rows: all rows, in order.
        left: bool (rows,), in which the first loop marks the rows that it leaves.
    """

    def __init__(self, loops: Sequence[BoundCode], groups: Sequence[slice], left: NDArray[np.bool_]) -> None:
        self._loops = loops  # keeps their arrays alive
        self._bounds = np.array([group.start for group in groups] + [groups[-1].stop], np.int64)
        blocks = [loop.block + _ENDS for loop in loops]
        self._blocks = np.frombuffer(bytearray(b"".join(blocks)), np.int64)
        ends = np.cumsum([len(block) // self._blocks.itemsize for block in blocks])
        self._arguments = left, np.array([loop.entry for loop in loops], np.int64), ends

    @staticmethod
    def pays_off(rows: int) -> bool:
        """Return True if the chain saves time, although its first call may compile it."""
        return run_groups.pays_off(rows, _ENOUGH_ROWS)

    def run(self, group: int) -> int:
        """Run the loops for groups of rows, from one group on.

        Returns:
            The first group of which rows are left; the number of groups if there is none.
        """
        state = np.array([group, 0], np.int64)
        run_groups(self._bounds, *self._arguments, self._blocks, address(self._blocks), state)
        if state[1]:
            raise InternalError(f"{self._loops[int(state[1]) - 1].name} raised an exception")
        return int(state[0])
