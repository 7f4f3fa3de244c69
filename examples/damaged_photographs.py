"""Train and evaluate on photographs, some of which are damaged.

The program copies photographs, damages some of them as disks and downloads do (truncated, overwritten, empty), and fits
a line to the rest twice: with ``on_error="replace"``, which reads another photograph instead of a damaged one, and with
``on_error="skip"``, where the step ignores the row. The evaluation counts each readable photograph once. The program
ends with the counts and a list of the damaged files.

    python examples/damaged_photographs.py [--data FOLDER-OF-CLASSES] [--share 0.05] [--epochs 2] [--devices 2]
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from photographs import write_photographs

from penstock import LastBatchPolicy, data_iterator, fn, train, types


def photographs(folder):
    """Decode and resize photographs. The decoder fails on damaged files."""
    jpegs, labels = fn.readers.file(file_root=folder, name="photographs", random_shuffle=True, flat_labels=True)
    images = fn.decoders.image(jpegs, output_type=types.RGB)
    images = fn.resize(images, size=[16, 16])
    return fn.crop_mirror_normalize(images, mean=128.0, std=64.0, output_layout="HWC"), labels


def damage(source: Path, target: Path, share: float) -> int:
    """Copy a folder of classes, damage a share of its files, and return the number of damaged files."""
    shutil.copytree(source, target)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    chosen = np.random.default_rng(0).permutation(len(files))[: round(share * len(files))]
    for number, index in enumerate(chosen.tolist()):
        path = files[index]
        content = path.read_bytes()
        path.write_bytes((content[: len(content) // 3], b"no photograph" * 100, b"")[number % 3])
    return len(chosen)


def errors(weights, batch):
    """Return the squared error of each row."""
    rows = batch["images"].reshape(len(batch["images"]), -1)
    return (rows @ weights[:-1] + weights[-1] - batch["labels"]) ** 2


def step(weights, batch):
    """Take one step of gradient descent. Rows without a photograph have no weight."""
    weight = batch.get("valid", jnp.ones(len(batch["labels"]), bool))

    def loss(weights):
        return jnp.where(weight, errors(weights, batch), 0).sum() / weight.sum()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 1e-4 * gradient, {"loss": value}


def main() -> None:
    """Train with both policies, evaluate, and print the quarantine file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with one folder of photographs per class")
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--devices", type=int, default=2)
    arguments = parser.parse_args()
    jax.config.update("jax_num_cpu_devices", arguments.devices)
    work = Path(tempfile.mkdtemp())
    folder = work / "damaged"
    bad = damage(arguments.data or write_photographs(work / "photographs"), folder, arguments.share)
    print(f"{bad} of {sum(path.is_file() for path in folder.rglob('*'))} photographs are damaged")
    common = {"sharding": train.batch_sharding()}
    update, size = train.data_parallel(step), 16 * 16 * 3 + 1
    for on_error in ("replace", "skip"):
        names = ["images", "labels"] + (["valid"] if on_error == "skip" else [])
        quarantine = work / f"{on_error}.jsonl"
        make = data_iterator(
            photographs,
            names,
            **common,
            last_batch_policy=LastBatchPolicy.DROP,
            on_error=on_error,
            quarantine=quarantine,
        )
        iterator = make(folder=str(folder), batch_size=arguments.batch_size, seed=1)
        loop = train.fit(update, np.zeros(size, np.float32), iterator, epochs=arguments.epochs)
        losses = [f"{epoch['loss']:.3f}" for epoch in loop.history.epochs]
        print(
            f"{on_error}: {loop.step} steps, loss {', '.join(losses)}; bad samples: {iterator.stats()['bad samples']}"
        )
    test = data_iterator(
        photographs, ["images", "labels", "valid"], **common, last_batch_policy=LastBatchPolicy.PAD, on_error="skip"
    )(folder=str(folder), batch_size=arguments.batch_size, seed=1)
    print(f"evaluation: mean squared error {train.evaluate(errors, loop.state, test):.3f}")
    lines = [json.loads(line) for line in quarantine.read_text().splitlines()]
    print(f"quarantine: {len(lines)} files, such as {lines[0]['path']} ({lines[0]['stage']}: {lines[0]['reason']})")


if __name__ == "__main__":
    main()
