"""Benchmark of an iterator's pipeline: its rates, the best number of threads and prefetch, and what limits it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.core.cpu_limits import cpu_limits
from penstock.diagnose.bottleneck import Bottleneck, find_bottleneck
from penstock.diagnose.measured_pipeline import MeasuredPipeline, Measurement
from penstock.iterate import DataIterator

# Prefetch depths to compare with the program's own. More batches ahead only help if batches differ in cost.
_DEPTHS = (1, 2, 4)

# Threads beyond the CPUs only help if they wait for data.
_MAX_WAITING_THREADS = 64

# CPUs that other processes use, from which they change the results.
_NOISY_CPUS = 0.25

# Within this share of the best throughput, the setting that takes less memory is better.
_AS_GOOD = 0.97


@dataclass(frozen=True)
class Benchmark:
    """Measurements of a pipeline.

    Args:
        name: Name of the definition.
        batch_size: Samples per batch.
        usable_cpus: CPUs that the process may use.
        configured: The pipeline with the program's own options.
        by_threads: With other numbers of threads, ascending.
        by_prefetch: With other numbers of prefetched batches and the best number of threads, ascending.
        reading: The readers alone; None without a reader.
        decoding: The decoders alone; None without a decoder.
        bottleneck: The cause that limits the pipeline.
    """

    name: str
    batch_size: int
    usable_cpus: int
    configured: Measurement
    by_threads: Sequence[Measurement]
    by_prefetch: Sequence[Measurement]
    reading: Measurement | None
    decoding: Measurement | None
    bottleneck: Bottleneck

    @property
    def best(self) -> Measurement:
        """The setting with the fewest threads and batches ahead that reaches 97% of the best throughput."""
        settings = self._settings
        fastest = max(setting.unloaded_samples_per_second for setting in settings)
        good = [setting for setting in settings if setting.unloaded_samples_per_second >= _AS_GOOD * fastest]
        return min(good, key=lambda setting: (setting.num_threads, setting.prefetch_queue_depth))

    @property
    def _settings(self) -> list[Measurement]:
        settings = [self.configured, *self.by_threads, *self.by_prefetch]
        return sorted(settings, key=lambda setting: (setting.num_threads, setting.prefetch_queue_depth))

    def as_json(self) -> dict[str, Any]:
        """Return the measurements as plain JSON."""
        return {
            "name": self.name,
            "batch_size": self.batch_size,
            "usable_cpus": self.usable_cpus,
            "limit": self.bottleneck.cause,
            "stage": self.bottleneck.stage,
            "verdict": self.bottleneck.text,
            "fix": self.bottleneck.fix,
            "reading": None if self.reading is None else _as_json(self.reading),
            "decoding": None if self.decoding is None else _as_json(self.decoding),
            "configured": _as_json(self.configured),
            "best": _as_json(self.best),
            "settings": [_as_json(setting) for setting in self._settings],
            "stages": {
                stage: {"calls": timing.calls, "samples": timing.samples, "seconds": timing.seconds,
                        "cpu_seconds": timing.cpu_seconds}
                for stage, timing in self.configured.stats.working_stages.items()
            },
        }  # fmt: skip

    def as_table(self) -> str:
        """Return the measurements as text, with the verdict and its remedy at the end."""
        rows: list[tuple[str, ...]] = [("", "samples/s", "unloaded", "CPUs busy", "GIL %", "peak RSS MB")]
        for setting in self._settings:
            label = f"num_threads={setting.num_threads}, prefetch_queue_depth={setting.prefetch_queue_depth}"
            marks = [name for name, one in (("configured", self.configured), ("best", self.best)) if one is setting]
            rows.append(_row(f"{label} ({', '.join(marks)})" if marks else label, setting))
        for label, part in (("readers alone", self.reading), ("decoders alone", self.decoding)):
            if part is not None:
                reached = self.configured.unloaded_samples_per_second / part.unloaded_samples_per_second
                rows.append(_row(f"{label} (configured reaches {reached:.0%})", part))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        head = f"{self.name}: {self.batch_size} samples per batch, {self.usable_cpus} CPUs"
        others = self.configured.other_cpus
        if others >= _NOISY_CPUS:
            lines += [
                f"other processes kept {others:.1f} CPUs busy; the column unloaded estimates the rate without them"
            ]
        return "\n".join([head, *lines, "", str(self.configured.stats), "", self.bottleneck.text,
                          f"  fix: {self.bottleneck.fix}"])  # fmt: skip


def benchmark(iterator: DataIterator, seconds: float) -> Benchmark:
    """Measure the pipeline of an iterator with several settings. The iterator does not advance.

    Args:
        iterator: The iterator. Its external sources are restarted; if they cannot be, one setting is measured.
        seconds: Duration of all measurements together, besides compilation.

    Raises:
        MissingExtraError: The extra `bench` is not installed.
        PenstockError: A batch cannot be computed.
    """
    pipeline = MeasuredPipeline.of(iterator)
    usable, options = cpu_limits().usable, pipeline.pipeline
    depth = options.prefetch_queue_depth
    # The first measurement; powers of two up to the CPUs; two more if they wait; depths; readers and decoders.
    share = seconds / (usable.bit_length() + 8)
    configured = pipeline.measure(1 if pipeline.adjustable else None, depth, share, usable)
    threads: list[Measurement] = []
    depths: list[Measurement] = []
    if pipeline.adjustable:
        numbers = {2**power for power in range(usable.bit_length())} | {usable, options.num_threads}
        if configured.mostly_waits:
            numbers |= {number for number in (2 * usable, 4 * usable) if number <= _MAX_WAITING_THREADS}
        # The time in which one thread holds the GIL limits how many threads can work at the same time.
        cpus = min(usable, 100 / max(configured.gil_percent, 1.0))
        measured = _faster_of_two_rounds(pipeline, [(number, depth) for number in sorted(numbers)], share, cpus)
        configured = next(one for one in measured if one.num_threads == options.num_threads)
        threads = [setting for setting in measured if setting is not configured]
        fastest = max(measured, key=lambda setting: setting.unloaded_samples_per_second)
        others = [(fastest.num_threads, number) for number in _DEPTHS if number != depth]
        depths = _faster_of_two_rounds(pipeline, others, share, cpus)
    reading, decoding = pipeline.reading, pipeline.decoding()
    return Benchmark(
        pipeline.graph.name,
        pipeline.schedule.batch_size,
        usable,
        configured,
        threads,
        depths,
        None if reading is None else reading.measure(None, depth, share, usable),
        None if decoding is None else decoding.measure(None, depth, share, usable),
        find_bottleneck(configured, threads, usable),
    )


def _faster_of_two_rounds(
    pipeline: MeasuredPipeline, settings: Sequence[tuple[int, int]], seconds: float, cpus: float
) -> list[Measurement]:
    """Measure settings, a number of threads and of prefetched batches each, and then again. Returns the faster ones.

    In rounds, because the load of a machine changes; the faster one, because other processes only slow it down.
    """
    # Ascending, because memory that an earlier run has freed may stay in the process. So the first round counts for it.
    first = [pipeline.measure(threads, depth, seconds / 2, cpus) for threads, depth in settings]
    second = [pipeline.measure(threads, depth, seconds / 2, cpus) for threads, depth in settings]
    return [
        replace(
            max(pair, key=lambda setting: setting.unloaded_samples_per_second),
            peak_rss_megabytes=pair[0].peak_rss_megabytes,
        )
        for pair in zip(first, second, strict=True)
    ]


def _row(label: str, setting: Measurement) -> tuple[str, ...]:
    return (
        label,
        f"{setting.samples_per_second:,.0f}",
        f"{setting.unloaded_samples_per_second:,.0f}",
        f"{setting.busy_cpus:.2f}",
        f"{setting.gil_percent:.0f}",
        f"{setting.peak_rss_megabytes:,.0f}",
    )


def _as_json(setting: Measurement) -> dict[str, Any]:
    return {
        "num_threads": setting.num_threads,
        "prefetch_queue_depth": setting.prefetch_queue_depth,
        "samples_per_second": setting.samples_per_second,
        "unloaded_samples_per_second": setting.unloaded_samples_per_second,
        "busy_cpus": setting.busy_cpus,
        "other_cpus": setting.other_cpus,
        "gil_percent": setting.gil_percent,
        "peak_rss_megabytes": setting.peak_rss_megabytes,
    }
