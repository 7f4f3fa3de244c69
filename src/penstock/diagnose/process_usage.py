"""Process usage: CPU time of this process, of other processes on its CPUs, and time without a CPU."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core import optional_import

_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class ProcessUsage:
    """Clocks of the process, in seconds. Only differences between two of them have a meaning.

    Args:
        wall: Wall time.
        cpu: CPU time of the process.
        busy: Busy time of the CPUs on which the process may run, the sum over the CPUs and all processes.
        starved: Time in which threads of the process were ready to run but had no CPU, the sum over the threads. Only
            Linux tells; 0 on other systems.
    """

    wall: float
    cpu: float
    busy: float
    starved: float

    @classmethod
    def now(cls) -> "ProcessUsage":
        """Return the current clocks.

        Raises:
            MissingExtraError: The extra `bench` is not installed.
        """
        psutil: Any = optional_import.import_extra("psutil", "bench", "penstock bench")
        process = psutil.Process()
        times = psutil.cpu_times(percpu=True)
        # macOS has no affinity.
        numbers = process.cpu_affinity() if hasattr(process, "cpu_affinity") else range(len(times))
        used = [times[number] for number in numbers if number < len(times)]
        busy = sum(sum(cpu) - cpu.idle - getattr(cpu, "iowait", 0.0) for cpu in used)
        return cls(time.perf_counter(), time.process_time(), busy, _starved_seconds())

    def since(self, earlier: "ProcessUsage") -> "ProcessUsage":
        """Return the differences to earlier clocks."""
        return ProcessUsage(
            self.wall - earlier.wall,
            self.cpu - earlier.cpu,
            max(0.0, self.busy - earlier.busy),
            # The time of a thread that has ended is not in the later sum.
            max(0.0, self.starved - earlier.starved),
        )

    @property
    def other_cpus(self) -> float:
        """Number of CPUs that other processes kept busy, on average."""
        return max(0.0, self.busy - self.cpu) / self.wall


def resident_bytes() -> int:
    """Return the resident memory of the process.

    Raises:
        MissingExtraError: The extra `bench` is not installed.
    """
    return optional_import.import_extra("psutil", "bench", "penstock bench").Process().memory_info().rss


def _starved_seconds() -> float:
    total = 0
    for task in _TASKS.iterdir() if _TASKS.is_dir() else ():
        try:
            # Nanoseconds on a CPU, nanoseconds in its queue, number of turns.
            total += int((task / "schedstat").read_text().split()[1])
        except (OSError, IndexError):  # the thread has just ended, or the kernel does not count
            continue
    return total / 1e9
