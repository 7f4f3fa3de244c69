"""Statistics of an iterator: a table of its stages."""

import html
from collections.abc import Iterator, Mapping
from typing import Any

from penstock.core.cpu_limits import cpu_limits
from penstock.core.stage_timers import IDLE, StageTiming, TimerSnapshot
from penstock.graph import check_annotations

_BAD_SAMPLES = "bad samples"
_HEAD = ("stage", "calls", "samples", "wall s", "CPU s", "us per sample", "cores")


class IteratorStatistics(Mapping[str, Any]):
    """Statistics of an iterator up to now: a mapping from stages to their totals, which prints as a table.

    Columns: `wall s` and `CPU s` are sums over all threads and worker processes; `us per sample` is wall time. `cores`
    is the CPU time divided by the elapsed time: the CPUs that the stage kept busy. Compilation is not counted in the
    stages. If bad samples are skipped or replaced, the entry ``bad samples`` has their number per reader.

    Args:
        snapshot: Totals of the stages.
        bad_samples: Number of bad samples per reader; None if bad samples are errors.
        workers: Description of the worker processes or input hosts, if there are any.
        replaced_source_workers: Number of processes of ``fn.external_source(parallel=True)`` that were replaced after
            they ended, for example because the system killed them for memory.

    Attributes:
        workers: The same.
        replaced_source_workers: The same.
        elapsed_seconds: Wall time from the first call of a stage to the end of the last one.
        compilation_seconds: Time spent compiling loops and device programs, the sum over all threads.

    Example:
        >>> from penstock.core.stage_timers import StageTiming, TimerSnapshot
        >>> stages = {"decoders.image": StageTiming(10, 1000, seconds=4.0, cpu_seconds=3.0)}
        >>> stats = IteratorStatistics(TimerSnapshot(stages, elapsed_seconds=2.0, compilation_seconds=0.5))
        >>> print(stats)
        stage           calls  samples  wall s  CPU s  us per sample  cores
        decoders.image     10     1000    4.00   3.00         4000.0   1.50
        1.50 of ... CPUs busy in 2.00 s; 0.50 s of compilation are not counted
        >>> stats["decoders.image"].samples, stats.cores("decoders.image")
        (1000, 1.5)
    """

    def __init__(
        self,
        snapshot: TimerSnapshot,
        bad_samples: Mapping[str, int] | None = None,
        workers: str = "",
        replaced_source_workers: int = 0,
    ) -> None:
        self.workers, self.replaced_source_workers = workers, replaced_source_workers
        self._stages, self._bad_samples = dict(snapshot.stages), bad_samples
        self.elapsed_seconds, self.compilation_seconds = snapshot.elapsed_seconds, snapshot.compilation_seconds
        self._items: dict[str, Any] = {**self._stages}
        if bad_samples is not None:
            self._items[_BAD_SAMPLES] = bad_samples

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def working_stages(self) -> dict[str, StageTiming]:
        """Stages that work, without waits, in the order of their first call."""
        return {stage: timing for stage, timing in self._stages.items() if stage not in IDLE}

    def cores(self, stage: str) -> float:
        """Return the number of CPUs that a stage kept busy, on average over the elapsed time.

        Raises:
            KeyError: There is no such stage.
        """
        return self._stages[stage].cpu_seconds / self.elapsed_seconds if self.elapsed_seconds > 0 else 0.0

    @check_annotations
    def since(self, earlier: "IteratorStatistics") -> "IteratorStatistics":
        """Return the statistics of the time after an earlier result of `stats` of the same iterator.

        Bad samples and replaced processes stay those since the beginning.
        """
        stages: dict[str, StageTiming] = {}
        for stage, now in self._stages.items():
            then = earlier._stages.get(stage, StageTiming())  # noqa: SLF001  # the same class
            if now.calls > then.calls:
                stages[stage] = StageTiming(
                    now.calls - then.calls,
                    now.samples - then.samples,
                    now.seconds - then.seconds,
                    now.cpu_seconds - then.cpu_seconds,
                )
        elapsed = self.elapsed_seconds - earlier.elapsed_seconds
        snapshot = TimerSnapshot(stages, elapsed, self.compilation_seconds - earlier.compilation_seconds)
        return IteratorStatistics(snapshot, self._bad_samples, self.workers, self.replaced_source_workers)

    def __repr__(self) -> str:
        rows = [_HEAD, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows
        ]  # fmt: skip
        return "\n".join([*lines, *self._notes()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(text)}</th>" for text in _HEAD)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in self._rows()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each stage, stages that work first."""
        return [
            (
                stage,
                str(timing.calls),
                str(timing.samples),
                f"{timing.seconds:.2f}",
                f"{timing.cpu_seconds:.2f}",
                f"{timing.seconds / timing.samples * 1e6:.1f}" if timing.samples else "",
                "" if stage in IDLE else f"{self.cores(stage):.2f}",
            )
            for stage, timing in sorted(self._stages.items(), key=lambda item: item[0] in IDLE)
        ]

    def _notes(self) -> Iterator[str]:
        busy = sum(map(self.cores, self.working_stages))
        yield (
            f"{busy:.2f} of {cpu_limits().usable} CPUs busy in {self.elapsed_seconds:.2f} s; "
            f"{self.compilation_seconds:.2f} s of compilation are not counted"
        )
        if self.workers:
            yield f"the host part runs in {self.workers}"
        if self.replaced_source_workers:
            yield f"worker processes of sources that were replaced after they ended: {self.replaced_source_workers}"
        if self._bad_samples is not None:
            counts = ", ".join(f"{reader} {count}" for reader, count in self._bad_samples.items())
            yield f"{_BAD_SAMPLES}: {counts or 0}"
