"""Bottleneck: the cause that limits a measured pipeline, and its remedy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.core.stage_timers import StageTiming
from penstock.diagnose.measured_pipeline import Measurement
from penstock.train.stall_monitor import remedy

Cause = Literal["threads", "storage", "python", "stage"]

# Gain in throughput from which another number of threads is a remedy. Repeated measurements differ by 5 to 10%.
_WORTHWHILE = 1.2

# Contention with one thread from which the GIL limits: another thread could use the rest of the time. A Python function
# measures 80 to 100%, decoders less than 10%. With more threads, the contention of both varies with the load.
_GIL_BOUND_PERCENT = 60

# Share of a stage's wall time without CPU time from which the stage waits.
_WAITS = 0.5


@dataclass(frozen=True)
class Bottleneck:
    """The cause that limits a pipeline.

    Args:
        cause: "threads": too few; "storage": a reader waits for data; "python": Python code holds the GIL; "stage": the
            work of a stage.
        stage: The stage with the most work.
        text: A sentence that states the limit with its numbers.
        fix: The remedy.
    """

    cause: Cause
    stage: str
    text: str
    fix: str


def find_bottleneck(configured: Measurement, others: list[Measurement], usable_cpus: int) -> Bottleneck:
    """Return the cause that limits a pipeline.

    Args:
        configured: Measurement with the program's own options.
        others: Measurements with other numbers of threads.
        usable_cpus: CPUs that the process may use.
    """
    stages = configured.stats.working_stages
    stage = max(stages, key=lambda name: stages[name].seconds)
    timing, share = stages[stage], _share(stage, stages)
    single = min([configured, *others], key=_threads)
    if single.gil_percent >= _GIL_BOUND_PERCENT:
        text = f"{stage} limits: Python holds the GIL, so threads do not help ({single.gil_percent:.0f}% contention)"
        return Bottleneck("python", stage, f"{text}; {share}", _python_remedy(stage))
    faster = [other for other in others if other.num_threads > configured.num_threads]
    best = max(faster, key=_rate, default=configured)
    if _rate(best) >= _WORTHWHILE * _rate(configured):
        # The fewest threads that are nearly as fast.
        best = min((other for other in faster if _rate(other) >= 0.95 * _rate(best)), key=_threads)
        text = (
            f"num_threads={configured.num_threads} limits: {best.num_threads} threads deliver "
            f"{_rate(best):,.0f} samples per second instead of {_rate(configured):,.0f}"
        )
        automatic = ", or leave num_threads out" if best.num_threads == usable_cpus else ""
        return Bottleneck("threads", stage, text, f"num_threads={best.num_threads}{automatic}")
    waiting = 1 - timing.cpu_seconds / timing.seconds if timing.seconds > 0 else 0.0
    if stage.startswith("readers.") and waiting >= _WAITS:
        text = f"{stage} limits: it waits for the storage {waiting:.0%} of its time"
        return Bottleneck("storage", stage, f"{text}; {share}", remedy(stage))
    text = f"{stage} limits: {share}, with {configured.busy_cpus:.1f} of {usable_cpus} CPUs busy"
    return Bottleneck("stage", stage, text, remedy(stage))


def _threads(measurement: Measurement) -> int:
    return measurement.num_threads


def _rate(measurement: Measurement) -> float:
    return measurement.unloaded_samples_per_second


def _share(stage: str, stages: Mapping[str, StageTiming]) -> str:
    total, timing = sum(item.seconds for item in stages.values()), stages[stage]
    per_sample = timing.seconds / max(timing.samples, 1) * 1e6
    return f"{timing.seconds / total:.0%} of the work of the pipeline, {per_sample:,.0f} us per sample"


def _python_remedy(stage: str) -> str:
    # Readers of Python objects, and external sources, have no remedy of their own for the GIL.
    if stage.startswith("readers."):
        return "less Python in the data set's __getitem__, or fn.external_source(parallel=True), which uses processes"
    return remedy(stage)
