"""Jobs of several processes: start them on this machine, and join a job from one of its processes."""

from penstock.launch.distributed import JobEnvironment as JobEnvironment
from penstock.launch.distributed import detect_job as detect_job
from penstock.launch.distributed import initialize as initialize
from penstock.launch.local_launcher import launch as launch
