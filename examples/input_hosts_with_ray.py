"""Input hosts as actors of Ray, which places them on nodes with free CPUs.

    python examples/input_hosts_with_ray.py

Runs two hosts on this machine. On a cluster, only `ray.init` and the number of CPUs differ.

Expected: the batches of the hosts are those of this process.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
import ray

from penstock import data_iterator, fn
from penstock.testing import write_photographs


@data_iterator
def training(folder):
    """Return shuffled photographs."""
    files, labels = fn.readers.file(file_root=folder, random_shuffle=True, flat_labels=True)
    images = fn.resize(fn.decoders.image_random_crop(files), size=(64, 64))
    return {"images": fn.flip(images, horizontal=fn.random.coin_flip()), "labels": labels}


@ray.remote(num_cpus=1)
class InputHost:
    """A process of `penstock serve` on the node of the actor."""

    def __init__(self, program: str, token: str) -> None:
        listen = f"{ray.util.get_node_ip_address()}:0"
        # --insecure: the network of the cluster is trusted; the token keeps other programs out. --threads: Ray does not
        # limit the CPUs that a process sees.
        options = ["--listen", listen, "--insecure", "--threads", "1"]
        command = [sys.executable, "-m", "penstock.cli", "serve", program, *options]
        variables = {"JAX_PLATFORMS": "cpu", "PENSTOCK_INPUT_HOSTS_TOKEN": token}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
        self._address = self._process.stdout.readline().split()[-1]

    def address(self) -> str:
        """Return the address of the host."""
        return self._address

    def end(self) -> None:
        """End the host."""
        self._process.kill()


def main() -> None:
    """Start two hosts, and compare their batches with those of this process."""
    folder = str(write_photographs("out/input_hosts_with_ray/photos").absolute())
    token = os.environ["PENSTOCK_INPUT_HOSTS_TOKEN"] = secrets.token_urlsafe()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    hosts = [InputHost.remote(f"{Path(__file__).absolute()}:training", token) for _ in range(2)]
    addresses = ray.get([host.address.remote() for host in hosts])
    local = training(folder=folder, batch_size=16, seed=1, input_hosts=[])
    remote = training(folder=folder, batch_size=16, seed=1, input_hosts=addresses)
    for mine, theirs in zip(local, remote, strict=True):
        assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    print("the batches of", len(hosts), "hosts are those of this process")
    print(remote.stats().workers)
    remote.close()
    ray.get([host.end.remote() for host in hosts])
    ray.shutdown()


if __name__ == "__main__":
    main()
