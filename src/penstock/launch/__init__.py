"""Many processes of one job: starting them on this machine, and joining the job from inside one of them."""

from penstock.launch.distributed import JobEnvironment as JobEnvironment
from penstock.launch.distributed import detect_job as detect_job
from penstock.launch.distributed import initialize as initialize
from penstock.launch.local_launcher import launch as launch
