"""Benchmark of an iterator's pipeline: its rates, the best number of threads and prefetch, and what limits it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.core.cpu_limits import cpu_limits
from penstock.diagnose.bottleneck import WAITS, Bottleneck, find_bottleneck
from penstock.diagnose.measured_pipeline import MeasuredPipeline, Measurement
from penstock.iterate import DataIterator

# Prefetch depths to compare with the program's own. More batches ahead only help if batches differ in cost.
_DEPTHS = (1, 2, 4)

# Threads beyond the CPUs only help if they wait for data.
_MAX_WAITING_THREADS = 64

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
        read_samples_per_second: Rate of the readers alone; None without a reader.
        decode_samples_per_second: Rate of the decoders alone; None without a decoder.
        bottleneck: The cause that limits the pipeline.
    """

    name: str
    batch_size: int
    usable_cpus: int
    configured: Measurement
    by_threads: Sequence[Measurement]
    by_prefetch: Sequence[Measurement]
    read_samples_per_second: float | None
    decode_samples_per_second: float | None
    bottleneck: Bottleneck

    @property
    def best(self) -> Measurement:
        """The setting with the fewest threads and batches ahead that reaches 97% of the best throughput."""
        settings = self._settings
        fastest = max(setting.samples_per_second for setting in settings)
        good = [setting for setting in settings if setting.samples_per_second >= _AS_GOOD * fastest]
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
            "read_samples_per_second": self.read_samples_per_second,
            "decode_samples_per_second": self.decode_samples_per_second,
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
        rows = [("", "samples/s", "CPUs busy", "GIL %", "peak RSS MB")]
        for setting in self._settings:
            label = f"num_threads={setting.num_threads}, prefetch_queue_depth={setting.prefetch_queue_depth}"
            marks = [mark for mark, one in (("configured", self.configured), ("best", self.best)) if one is setting]
            rows.append((
                f"{label} ({', '.join(marks)})" if marks else label,
                f"{setting.samples_per_second:,.0f}",
                f"{setting.busy_cpus:.2f}",
                f"{setting.gil_percent:.0f}",
                f"{setting.peak_rss_megabytes:,.0f}",
            ))  # fmt: skip
        bare = {"readers alone": self.read_samples_per_second, "decoders alone": self.decode_samples_per_second}
        for label, rate in bare.items():
            if rate is not None:
                reached = self.configured.samples_per_second / rate
                rows.append((f"{label} (configured reaches {reached:.0%})", f"{rate:,.0f}", "", "", ""))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
        head = f"{self.name}: {self.batch_size} samples per batch, {self.usable_cpus} CPUs"
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
    # Powers of two up to the CPUs, two more if the threads wait, depths, readers and decoders.
    share = seconds / (usable.bit_length() + 7)
    configured = pipeline.measure(None, depth, share)
    threads: list[Measurement] = []
    depths: list[Measurement] = []
    if pipeline.rewinds:
        numbers = {2**power for power in range(usable.bit_length())} | {usable}
        if _waits(configured):
            numbers |= {number for number in (2 * usable, 4 * usable) if number <= _MAX_WAITING_THREADS}
        # Ascending, because memory that an earlier run has freed may stay in the process.
        threads = [pipeline.measure(number, depth, share) for number in sorted(numbers - {configured.num_threads})]
        fastest = max([configured, *threads], key=lambda setting: setting.samples_per_second)
        depths = [pipeline.measure(fastest.num_threads, number, share) for number in _DEPTHS if number != depth]
    return Benchmark(
        pipeline.graph.name,
        pipeline.schedule.batch_size,
        usable,
        configured,
        threads,
        depths,
        pipeline.read_rate(share),
        pipeline.decode_rate(share),
        find_bottleneck(configured, threads, usable),
    )


def _waits(measurement: Measurement) -> bool:
    """True if the stages wait for data for most of their time."""
    stages = measurement.stats.working_stages.values()
    seconds = sum(stage.seconds for stage in stages)
    return seconds > 0 and sum(stage.cpu_seconds for stage in stages) < (1 - WAITS) * seconds


def _as_json(setting: Measurement) -> dict[str, Any]:
    return {
        "num_threads": setting.num_threads,
        "prefetch_queue_depth": setting.prefetch_queue_depth,
        "samples_per_second": setting.samples_per_second,
        "busy_cpus": setting.busy_cpus,
        "gil_percent": setting.gil_percent,
        "peak_rss_megabytes": setting.peak_rss_megabytes,
    }
