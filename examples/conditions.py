"""Augment only some images, with conditionals in a definition.

Half of the images are flipped, and dark images are brightened. Rows that do not take a branch cost no work in it. The
program prints how many images took each branch, and the plan.

    python examples/conditions.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock import data_iterator, fn, pipeline_def, types

COUNT, BATCH = 64, 16


def stretched(images: Any, brightness: Any) -> Any:
    """Brighten dark images. A definition with conditionals calls this function, so `if` works on nodes here too."""
    if brightness < 100:
        factor = 4.0 if brightness < 50 else 2.0
        images = fn.cast(images * factor, dtype=types.UINT8)
    return images


@data_iterator
@pipeline_def(enable_conditionals=True)
def augmented(images: Any, brightness: Any) -> Any:
    """Return augmented images of one size."""
    data = fn.readers.arrays({"x": images, "b": brightness}, layout={"x": "HWC", "b": ""}, random_shuffle=True)
    images, flip = data["x"], fn.random.coin_flip()
    if flip:
        images = fn.flip(images, horizontal=1)
    return {"images": stretched(images, data["b"]), "brightness": data["b"], "flipped": flip}


def main() -> None:
    """Count the images that took each branch."""
    rng = np.random.default_rng(0)
    brightness = rng.integers(20, 200, COUNT).astype(np.int32)
    images = rng.integers(0, 40, (COUNT, 32, 32, 3)).astype(np.uint8) + (brightness[:, None, None, None] // 4).astype(
        np.uint8
    )
    iterator = augmented(images=images, brightness=brightness, batch_size=BATCH, seed=1)
    flipped = dark = 0
    for batch in iterator:
        flipped += int(np.asarray(batch["flipped"]).sum())
        dark += int((np.asarray(batch["brightness"]) < 100).sum())
    print(f"{COUNT} images: {flipped} flipped, {dark} brightened")
    print(iterator.explain())


if __name__ == "__main__":
    main()
