"""Chunk scheduler: splits host work over threads by its measured cost.

Four modes, by cost: several batches at once in the consumer's thread; two batches at once on a thread; one chunk per
batch; several chunks per batch. In addition, one thread computes all chunks of very cheap samples that run Python, if
several would wait for each other.
"""

import math
import sys
from collections import deque

# Cost in seconds per sample below which one thread computes all chunks that run Python per sample. 28x28 JPEGs take
# 20 us alone and 40 us on two threads that compete for the GIL. Batches of 256 of them take 9 % more CPU time and 16 %
# more time on two threads; two threads that take turns lose 4 % of the time because they wake each other.
_CHEAP_SAMPLE_SECONDS = 60e-6

# Switch interval of the interpreter, in seconds, up to which two threads share cheap samples whose Python mostly calls
# functions without the GIL. A thread that waits for the GIL usually wakes when the other one has taken it again, and
# receives it after this interval. With 0.2 ms, two threads decode 28x28 JPEGs in 0.75 of the time of one, for 1.15 of
# its CPU time; with Python's 5 ms they take longer than one.
_SHORT_SWITCH_SECONDS = 5e-4

# Cost in seconds per batch below which the consumer's thread computes it: handing it to a thread takes 300 to 700 us.
_LIGHT_BATCH_SECONDS = 1e-3

# Cost in seconds per batch below which a thread computes two batches at once, and number of pairs that are in work if
# two batches are prepared ahead. Pairs save 15 to 25 % of the CPU time of batches of 1 to 2 ms, and 10 % of 3 ms. They
# keep that many threads busy; if there are no more, longer batches are computed in pairs, too.
_PAIR_SECONDS, _PAIRS_IN_WORK = 2e-3, 2

# Cost in seconds that is worth another chunk.
_CHUNK_SECONDS = 10e-3

# Rows below which chunks are too small, if the chunks of the batches in preparation occupy all workers anyway: four per
# worker, within limits. The Python of a chunk takes 1 ms in addition to 7 to 14 us per photograph: 19 us per photograph
# in a chunk of 256, 28 us in one of 64, 47 us in one of 32, and 76 us in one of 16. The more workers, the more of them
# wait for it. Files are read together from 64 on, with few exchanges of the GIL, but memory for each worker.
_ROWS_PER_WORKER, _MIN_CHUNK_ROWS, _ENOUGH_CHUNK_ROWS = 4, 32, 64

# Share of its time that a chunk waits, for a disk or another process, from which more threads than CPUs help, and the
# number of chunks in a row that must wait as long: the first chunks compile loops and read files that are not cached.
_WAITING_SHARE, _WAITING_CHUNKS = 0.25, 4

# Chunks of fewer seconds say nothing about waits.
_MEASURABLE_SECONDS = 1e-3


class ChunkScheduler:
    """Chooses how to compute the next batches from the measured cost of recent chunks.

    Args:
        by_sample: True if a stage runs Python for each sample, and therefore competes for the GIL.
        decodes: True if that Python is only the calls of decoders, which release the GIL.
        whole: True if a stage needs the whole batch, which then cannot be split or merged.
        expensive: True if samples are probably expensive, before their cost is measured.
        cpus: Number of threads that keep all CPUs busy. None if they are not known to be enough, because functions of
            the user may wait for each other.
    """

    def __init__(
        self, *, by_sample: bool, decodes: bool, whole: bool, expensive: bool, cpus: int | None = None
    ) -> None:
        self._by_sample, self._decodes, self._whole, self._expensive = by_sample, decodes, whole, expensive
        self._cpus = cpus
        self._recent: deque[float] = deque(maxlen=8)
        self._waits: deque[float] = deque(maxlen=_WAITING_CHUNKS)

    @property
    def measures_waits(self) -> bool:
        """True if `record` needs the CPU time of chunks."""
        return self._cpus is not None

    @property
    def _sample_seconds(self) -> float:
        """Cost of one sample. The fastest recent chunk counts: slower ones may have waited for a core."""
        return min(self._recent, default=math.inf)

    @property
    def _microseconds(self) -> bool:
        """True if samples run Python that takes only microseconds."""
        return self._by_sample and self._sample_seconds < _CHEAP_SAMPLE_SECONDS

    @property
    def cheap(self) -> bool:
        """True if samples are so cheap that several threads are slower than one."""
        return self._microseconds and not (self._decodes and sys.getswitchinterval() <= _SHORT_SWITCH_SECONDS)

    def inline_batches(self, rows: int, limit: int) -> int:
        """Return how many batches of `rows` rows, up to `limit`, the consumer's thread computes at once.

        0 if threads are faster.
        """
        seconds = self._sample_seconds * rows
        if seconds > _LIGHT_BATCH_SECONDS:
            return 0
        return 1 if self._whole else min(limit, int(2 * _LIGHT_BATCH_SECONDS / max(seconds, 1e-9)))

    def chunks(self, rows: int, workers: int, ahead: int) -> int:
        """Return the number of chunks for a batch of `rows` rows, of which `ahead` are begun ahead of the consumer."""
        if self._whole or self.cheap or not (self._recent or self._expensive):
            return 1
        most = min(workers, rows)
        if self._recent:  # the first batch is needed at once
            least = min(max(_ROWS_PER_WORKER * workers, _MIN_CHUNK_ROWS), _ENOUGH_CHUNK_ROWS)
            most = min(most, max(rows // least, -(-workers // max(ahead, 1))))
        return max(1, math.ceil(min(self._sample_seconds * rows / _CHUNK_SECONDS, most)))

    def pairs_batches(self, rows: int, workers: int) -> bool:
        """True if a thread computes two batches of `rows` rows at once."""
        if self._whole or (self._by_sample and not self._microseconds):  # threads may share samples that run Python
            return False
        # Cheap samples are for one thread, or two: a pair keeps no other thread from work.
        busy = self._microseconds or workers <= _PAIRS_IN_WORK
        return self._sample_seconds * rows <= (_CHUNK_SECONDS if busy else _PAIR_SECONDS)

    def workers(self, most: int) -> int:
        """Return how many threads, up to `most`, compute chunks at the same time.

        More threads than CPUs take turns, which costs time and the memory of more chunks, unless they wait.
        """
        return most if self._cpus is None else min(most, self._cpus)

    def record(self, seconds: float, rows: int, cpu_seconds: float = 0.0) -> None:
        """Note that `rows` rows took `seconds` seconds, and `cpu_seconds` of CPU time, needed if `measures_waits`."""
        self._recent.append(seconds / max(rows, 1))
        if self._cpus is not None and seconds > _MEASURABLE_SECONDS:
            self._waits.append(1 - cpu_seconds / seconds)
            if len(self._waits) == _WAITING_CHUNKS and min(self._waits) > _WAITING_SHARE:
                self._cpus = None  # for the rest of the run: if more threads than CPUs are busy, all of them wait
