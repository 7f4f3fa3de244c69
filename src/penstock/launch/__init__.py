"""Many processes of one job: starting them on this machine, and joining the job from inside one of them."""

from penstock.launch.join import Job as Job
from penstock.launch.join import detect as detect
from penstock.launch.join import initialize as initialize
from penstock.launch.local import launch as launch
