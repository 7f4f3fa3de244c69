"""Train on a data set of Hugging Face, in bfloat16 and NHWC.

``datasets`` hands over the encoded files, and Penstock decodes them on its threads. Without ``--data``, the program
writes the handwritten digits of scikit-learn into such a data set. It fits a linear classifier and ends with its
accuracy on every sixth sample, which it is not trained on.

    python examples/hugging_face.py [--data mnist --image image --label label] [--epochs 10]
"""

from __future__ import annotations

import argparse
import io

import datasets
import jax
import jax.numpy as jnp
import optax
from digits import digit_arrays
from PIL import Image

from penstock import LastBatchPolicy, data_iterator, fn, train, types

CLASSES, SIZE = 10, 16


def digits():
    """Return the digits as rows with an encoded image and its class."""
    rows = []
    for image, label in zip(*digit_arrays("train"), strict=True):
        file = io.BytesIO()
        Image.fromarray(image[:, :, 0]).save(file, "PNG")
        rows.append({"image": {"bytes": file.getvalue(), "path": None}, "label": int(label)})
    return datasets.Dataset.from_list(rows).cast_column("image", datasets.Image(decode=False))


def images(rows, arguments, subset, shuffle):
    """Decode, resize and normalize images."""
    row = fn.readers.items(rows, subset=subset, random_shuffle=shuffle, name="rows")
    pixels = fn.decoders.image(row[arguments.image], output_type=types.GRAY)
    pixels = fn.resize(pixels, size=[SIZE, SIZE])
    pixels = fn.crop_mirror_normalize(pixels, mean=128.0, std=64.0, output_layout="HWC", dtype=jnp.bfloat16)
    return {"images": pixels, "labels": row[arguments.label]}


def logits(weights, batch):
    """Return the scores of the classes, in float32."""
    pixels = batch["images"].reshape(len(batch["images"]), -1)
    return jnp.dot(pixels, weights.astype(jnp.bfloat16), preferred_element_type=jnp.float32)


def main():
    """Train and evaluate."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="name or folder of a data set, as datasets.load_dataset takes it")
    parser.add_argument("--image", default="image", help="column of the images")
    parser.add_argument("--label", default="label", help="column of the classes, 0 to 9")
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    rows = digits()
    if arguments.data is not None:
        rows = datasets.load_dataset(arguments.data, split="train")
        rows = rows.cast_column(arguments.image, datasets.Image(decode=False))

    sharding = train.batch_sharding()
    training = data_iterator(images, sharding=sharding)(
        rows, arguments, lambda index: index % 6 > 0, shuffle=True, batch_size=64, seed=1
    )
    testing = data_iterator(images, sharding=sharding, last_batch_policy=LastBatchPolicy.PAD)(
        rows, arguments, lambda index: index % 6 == 0, shuffle=False, batch_size=64
    )
    optimizer = optax.adam(1e-2)

    @jax.jit
    def step(weights, state, batch):
        def loss(weights):
            scores = logits(weights, batch)
            return optax.softmax_cross_entropy_with_integer_labels(scores, batch["labels"]).mean()

        updates, state = optimizer.update(jax.grad(loss)(weights), state)
        return optax.apply_updates(weights, updates), state

    weights = jnp.zeros((SIZE * SIZE, CLASSES))
    state = optimizer.init(weights)
    for _ in range(arguments.epochs):
        for batch in training:
            weights, state = step(weights, state, batch)
    print(f"batches of {batch['images'].dtype}{list(batch['images'].shape)}, labels {list(batch['labels'].shape)}")
    accuracy = train.evaluate(
        lambda weights, batch: logits(weights, batch).argmax(1) == batch["labels"], weights, testing
    )
    print(f"test accuracy {accuracy:.3f} after {arguments.epochs} epochs")


if __name__ == "__main__":
    main()
