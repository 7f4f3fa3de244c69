"""Plots that the examples write."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt


def learning_curves(path: Path, losses: dict[str, list[float]], accuracies: dict[str, list[float]]) -> None:
    """Plot the loss per step and the accuracy per epoch of several runs."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for name, values in losses.items():
        left.plot(values, label=name, linewidth=1)
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    left.legend()
    for name, values in accuracies.items():
        right.plot(range(1, len(values) + 1), values, marker="o", label=name)
    right.set(xlabel="epoch", ylabel="test accuracy")
    right.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def batch_by_device(path: Path, images, labels, columns: int = 16) -> None:
    """Draw a sharded batch: one line per device, with the first rows that the device holds.

    Args:
        path: Path of the picture.
        images: Values from 0 to 1, (rows, 784) or (rows, height, width, 3), sharded along the rows.
        labels: One-hot labels, or one number per row.
        columns: Number of images per device.
    """
    shards = sorted(images.addressable_shards, key=lambda shard: shard.index[0].start or 0)
    columns = min(columns, max(len(shard.data) for shard in shards))
    figure, grid = plt.subplots(len(shards), columns, figsize=(columns * 0.75, len(shards) * 0.95), squeeze=False)
    for line, shard in zip(grid, shards, strict=True):
        rows = np.asarray(shard.data)
        first = shard.index[0].start or 0
        for axes, number in zip(line, range(columns), strict=True):
            axes.axis("off")
            if number < len(rows):
                picture = rows[number].reshape(28, 28) if rows.ndim == 2 else rows[number].clip(0, 1)
                axes.imshow(picture, cmap="gray", vmin=0, vmax=1)
                label = np.asarray(labels[first + number])
                axes.set_title(int(label.argmax() if label.ndim else label), fontsize=8, pad=1)
        line[0].text(
            -0.3, 0.5, f"{shard.device}\nrows {first} to {first + len(rows) - 1}",
            transform=line[0].transAxes, ha="right", va="center", fontsize=8,
        )  # fmt: skip
    figure.subplots_adjust(left=0.16, right=0.99, top=0.95, bottom=0.01, hspace=0.35, wspace=0.05)
    figure.savefig(path, dpi=120)
    plt.close(figure)
