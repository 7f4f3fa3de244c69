"""Jobs of several processes: start them on this machine, and join a job from one of its processes."""

from penstock.launch.distributed import JobEnvironment, detect_job, initialize
from penstock.launch.local_launcher import launch

__all__ = ["JobEnvironment", "detect_job", "initialize", "launch"]
