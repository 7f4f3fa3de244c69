"""Trainings with batch normalization, dropout and accumulated gradients; each process prints its arrays."""

import sys
from pathlib import Path

import penstock.launch


def main():
    penstock.launch.initialize()
    import json

    import jax
    import numpy as np

    sys.path.insert(0, str(Path(__file__).parents[3]))
    from penstock import train
    from tests.train.stateful_models import arrays_of, nnx_training, run
    from tests.train.test_gradient_accumulation import mlp_training

    report = {}
    for training in (nnx_training, mlp_training):
        state = train.unreplicate(run(training, 8, steps=10, rows=32).state)
        arrays = [array for array in arrays_of(state) if array.dtype == np.float32]
        report[training.__name__] = [array.ravel().tolist() for array in arrays]
    print("REPORT", json.dumps({"devices": [jax.local_device_count(), jax.device_count()], "arrays": report}))


if __name__ == "__main__":
    main()
