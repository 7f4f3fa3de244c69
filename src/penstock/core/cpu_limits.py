"""CPUs that a process may use: its affinity and the CPU quota of its control group."""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


class CpuLimits(NamedTuple):
    """Limits on the CPUs of a process.

    Args:
        cores: CPUs of the machine.
        affinity: CPUs on which the process may run.
        quota: CPU time per unit of time that its control groups allow, in CPUs; None without a limit.
    """

    cores: int
    affinity: int
    quota: float | None

    @property
    def usable(self) -> int:
        """CPUs that the process can use at the same time, at least 1.

        A quota is rounded up, as by the JVM: with 1.5 CPUs, two threads still use the whole quota.

        >>> CpuLimits(cores=64, affinity=8, quota=2.5).usable
        3
        """
        return max(1, self.affinity if self.quota is None else min(self.affinity, math.ceil(self.quota)))


def cpu_limits(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> CpuLimits:
    """Return the limits of this process, as they are now.

    Args:
        cgroups: Folder in which the control groups are mounted.
        membership: File with the control groups of the process.
    """
    cores = os.cpu_count() or 1
    # Systems other than Linux have no affinity.
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else cores
    return CpuLimits(cores, affinity, min(_quotas(cgroups, membership), default=None))


def _quotas(cgroups: Path, membership: Path) -> Iterator[float]:
    """Yield the quotas of all control groups of the process, of version 1 and 2."""
    for line in _text(membership).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroups / "cpu" if controllers else cgroups
        group = root / path.lstrip("/")
        # A parent's quota limits its children, too. In a container, the path may be that of the host, which does not
        # exist here, and the root of the mount is the container's own group.
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            limit, period = _limit_and_period(folder, version=1 if controllers else 2)
            # Version 1 writes -1 for no limit, version 2 "max".
            if limit.isdecimal() and period.isdecimal() and int(limit) and int(period):
                yield int(limit) / int(period)


def _limit_and_period(folder: Path, version: int) -> tuple[str, str]:
    """Return the microseconds of CPU time per period, and the period, as the kernel writes them."""
    if version == 1:
        return _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
    limit, period = (*_text(folder / "cpu.max").split(), "", "")[:2]
    return limit, period


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
