"""How benchmarks measure: alternatives take turns in one process, and medians of CPU time are compared.

Absolute times on a machine that others use mean little; the ratio of two alternatives, run turn by turn, means more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def cpu_seconds(alternatives: Mapping[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The median CPU seconds (all threads) of a call of each alternative, after one call to warm up."""
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for turn in range(rounds + 1):
        for name, run in alternatives.items():
            start = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def report(title: str, seconds: Mapping[str, float], reference: str, images: int) -> None:
    """Print microseconds of CPU per image, and the ratio to the reference."""
    print(title)
    for name, value in seconds.items():
        print(f"  {name:<44} {value / images * 1e6:9.2f} us/image   {value / seconds[reference]:6.2f} x {reference}")
