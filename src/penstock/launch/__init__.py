"""Many processes of one job: starting them on this machine, and joining the job from inside one of them."""

from penstock.launch.distributed import Job as Job
from penstock.launch.distributed import detect as detect
from penstock.launch.distributed import initialize as initialize
from penstock.launch.local_launcher import launch as launch
