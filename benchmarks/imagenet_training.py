"""Training of the ImageNet example on an accelerator: images per second, and the share of time it waits for data.

    python benchmarks/imagenet_training.py [FOLDER] [--batch-size 256] [--steps 100] [--threads N] [--dtype bfloat16]

FOLDER contains a folder of JPEGs per class; without one, the benchmark writes crops of the two photographs of
scikit-learn to a temporary folder. The definition, the step and the network (ResNet-50) are those of
examples/imagenet_resnet.py. "input" is the iterator alone, "step" the step on one batch that stays on the accelerator,
and "training" both. The accelerator is idle for the part of the training that its steps alone would not have taken.

Without an accelerator, it prints that and ends, unless `--any-device` is given, which trains a small network.

Target: at most 2 % idle where "input" is faster than "step".
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

EXAMPLES = Path(__file__).parents[1] / "examples"

# Batches before each measurement. They compile the step and, as photographs of other sizes arrive, loops; and they fill
# the queues.
WARM_UP = 20


def main(arguments: list[str] | None = None) -> None:
    """Measure the input, the step and the training."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--batch-size", type=int, default=256, help="global batch size")
    parser.add_argument("--steps", type=int, default=100, help="steps per measurement")
    parser.add_argument("--threads", type=int, help="by default as many as the iterator chooses")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16", help="of the computation")
    parser.add_argument("--any-device", action="store_true", help="train a small network on CPU devices, too")
    options = parser.parse_args(arguments)
    if jax.default_backend() == "cpu" and not options.any_device:
        print("there is no accelerator: JAX has CPU devices only; install its plugin, such as jax[cuda13]")
        return
    devices = jax.devices()
    print(f"{len(devices)} x {devices[0].device_kind}, batches of {options.batch_size}, {options.dtype}")
    with tempfile.TemporaryDirectory() as scratch:
        report(measure(options, Path(scratch)))


def measure(options: argparse.Namespace, scratch: Path) -> dict[str, float]:
    """Return the images per second of the input, the step and the training."""
    sys.path.append(str(EXAMPLES))
    import imagenet_resnet
    import jax.numpy as jnp
    import optax
    from flax import nnx
    from photographs import write_photographs
    from resnet import RESNET50, ResNet

    from penstock import data_iterator, train

    folder = options.folder or write_photographs(scratch)
    classes = sum(path.is_dir() for path in folder.iterdir())
    small = jax.default_backend() == "cpu"
    shape = {"blocks": (1, 1), "width": 8} if small else {"blocks": RESNET50, "width": 64}
    model = ResNet(classes, nnx.Rngs(0), **shape, dtype=jnp.dtype(options.dtype))
    average = jax.tree.map(jnp.copy, nnx.state(model, nnx.Param))
    step = imagenet_resnet.make_step(1, decay=0.9999)
    state = model, nnx.Optimizer(model, optax.sgd(0.1, momentum=0.9, nesterov=True), wrt=nnx.Param), average
    make = data_iterator(imagenet_resnet.training, ["images", "labels"], sharding=train.batch_sharding(), size=-1)
    threads = {} if options.threads is None else {"num_threads": options.threads}
    batches = make(root=folder, size=64 if small else 224, batch_size=options.batch_size, seed=0, **threads)
    resident = next(batches)

    def trained(next_batch: Callable[[], Any]) -> Callable[[], Any]:
        def advance() -> Any:
            nonlocal state
            state, metrics = step(state, next_batch())
            return metrics

        return advance

    measured = {
        "input": lambda: next(batches),
        "step": trained(lambda: resident),
        "training": trained(batches.__next__),
    }
    return {name: options.batch_size * rate(advance, options.steps) for name, advance in measured.items()}


def rate(advance: Callable[[], Any], steps: int) -> float:
    """Return the calls of a function per second, until their results are computed."""
    for _ in range(WARM_UP):
        result = advance()
    jax.block_until_ready(result)
    start = time.perf_counter()
    for _ in range(steps):
        result = advance()
    jax.block_until_ready(result)
    return steps / (time.perf_counter() - start)


def report(images_per_second: dict[str, float]) -> None:
    """Print the rates, and the share of the training in which the accelerator had no step to compute."""
    for name, value in images_per_second.items():
        print(f"{name:<10}{value:>12,.0f} images/s")
    idle = max(0.0, 1 - images_per_second["training"] / images_per_second["step"])
    print(f"{'idle':<10}{idle:>12.1%} of the training")


if __name__ == "__main__":
    main()
