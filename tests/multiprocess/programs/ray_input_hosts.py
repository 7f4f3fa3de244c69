"""Two actors of Ray which run `penstock serve` compute the batches of this process."""

import subprocess
import sys
from pathlib import Path

import ray
from hosted_training import compare

PROGRAM = Path(__file__).with_name("hosted_training.py")


@ray.remote(num_cpus=1)
class InputHost:
    def start(self, program):
        listen = ["--listen", f"{ray.util.get_node_ip_address()}:0", "--insecure", "--threads", "1"]
        command = [sys.executable, "-m", "penstock.cli", "serve", program, *listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return self.process.stdout.readline().split()[-1]


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    hosts = [InputHost.remote() for _ in range(2)]
    print(compare(ray.get([host.start.remote(f"{PROGRAM}:training") for host in hosts])))
