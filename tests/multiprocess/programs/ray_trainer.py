"""Train with `JaxTrainer` of Ray Train: two workers on the CPUs of this machine. Prints what each worker has seen."""

import os
import sys

os.environ["RAY_TRAIN_V2_ENABLED"] = "1"

import ray
from ray.train import RunConfig, ScalingConfig
from ray.train.v2.jax import JaxConfig, JaxTrainer


def train_loop(config):
    from pathlib import Path

    import jax
    import numpy as np

    from penstock import data_iterator, fn, train

    @data_iterator(sharding=train.batch_sharding())
    def numbers():
        return {"x": fn.readers.arrays(np.arange(12), random_shuffle=True)}

    sums = [int(jax.jit(lambda x: x.sum())(batch["x"])) for batch in numbers(batch_size=4, seed=1)]
    text = f"{jax.process_index()} of {jax.process_count()}: {sums}"
    Path(config["folder"], str(jax.process_index())).write_text(text)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    JaxTrainer(
        train_loop,
        train_loop_config={"folder": sys.argv[1]},
        jax_config=JaxConfig(use_gpu=True),  # otherwise Ray does not connect the workers; JAX_PLATFORMS decides
        scaling_config=ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.5}),
        run_config=RunConfig(
            storage_path=f"{sys.argv[1]}/ray", worker_runtime_env={"env_vars": {"JAX_PLATFORMS": "cpu"}}
        ),
    ).fit()
