"""Program that prints the addresses at which the processes of a job listen, after their collectives are connected."""

import json
import os
import sys
from collections import Counter

import jax
import numpy as np
import psutil
from jax.experimental.multihost_utils import process_allgather

import penstock.launch


def listening():
    """Return the addresses at which this process listens."""
    sockets = psutil.Process(os.getpid()).net_connections("inet")
    return Counter(entry.laddr.ip for entry in sockets if entry.status == psutil.CONN_LISTEN)


inherited = listening()  # from Hydra
job = penstock.launch.initialize()
process_allgather(np.ones(1))
devices = f"{jax.device_count()} {jax.local_device_count()}"
# Lines and their ends in one write: Gloo's threads print to stdout, too.
print(f"{job and job.started_by} {jax.process_index()} {devices} {sys.argv[1:]}\n", end="")
print("to stderr", file=sys.stderr)
found = sorted((listening() - inherited).elements())
print("[" + json.dumps([jax.process_index(), os.environ.get("NCCL_SOCKET_IFNAME"), found]) + "\n", end="")
process_allgather(np.ones(1))
