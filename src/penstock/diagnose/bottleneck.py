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
    share = _share(stage, stages)
    single = min([configured, *others], key=_threads)
    # A thread that holds the GIL computes. In a pipeline that mostly waits, the sampler sees few and uneven moments.
    computing = single.busy_cpus + single.starved_threads >= _GIL_BOUND_PERCENT / 100
    if single.gil_percent >= _GIL_BOUND_PERCENT and computing:
        text = f"{stage} limits: Python holds the GIL, so threads do not help ({single.gil_percent:.0f}% contention)"
        return Bottleneck("python", stage, f"{text}; {share}", _python_remedy(stage))
    # Before the threads: more of them would wait at the same time, but `read_threads` does so without them.
    waiting = _waiting(stage, configured)
    if stage.startswith("readers.") and waiting >= _WAITS:
        text = f"{stage} limits: it waits for the storage {waiting:.0%} of its time"
        return Bottleneck("storage", stage, f"{text}; {share}", remedy(stage))
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


def _waiting(stage: str, measurement: Measurement) -> float:
    """Return the share of a stage's time in which it neither computes nor waits for a CPU."""
    stages = measurement.stats.working_stages
    seconds, total = stages[stage].seconds, sum(item.seconds for item in stages.values())
    if seconds <= 0:
        return 0.0
    # The clocks of the stages do not tell which of them had no CPU, so each gets its share.
    starved = measurement.starved_threads * measurement.stats.elapsed_seconds * seconds / total
    return 1 - (stages[stage].cpu_seconds + starved) / seconds


def _python_remedy(stage: str) -> str:
    if stage.startswith("readers."):
        return "less Python in the data set's __getitem__, or fn.external_source(parallel=True), which uses processes"
    if "python_function" in stage or "external_source" in stage:
        return remedy(stage)
    return "operators that compute a batch at once, or data that need no work per sample, such as decoded images"
