"""Jobs of several processes: start them on this machine, and join a job from one of its processes."""

from penstock.engine.jobs.job_environment import JobEnvironment, detect_job
from penstock.launch.distributed import initialize
from penstock.launch.local_launcher import launch

__all__ = ["JobEnvironment", "detect_job", "initialize", "launch"]
