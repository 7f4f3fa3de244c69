"""Train a ResNet-50 (Flax NNX) on folders of photographs, data-parallel, with checkpoints.

    python examples/imagenet_resnet.py --data FOLDER     FOLDER/train/<class>/<image>.JPEG, FOLDER/val/<class>/...
    python examples/imagenet_resnet.py --small           a small network on crops of two photographs, no download

The recipe is the usual one: SGD with Nesterov momentum, five epochs of warmup to a learning rate of 0.1 per 256 rows,
cosine decay to zero, weight decay on kernels only, label smoothing, an exponential moving average of the weights, which
is what the validation measures. Batch normalization averages over the whole batch, on all devices; with --accumulate,
over a part of it. Stop it with Ctrl-C or SIGTERM and start it again: it resumes. The best and the latest checkpoint are
kept; `train.restore_weights(folder, state, step="best")` loads the best one.

Expected:
    --small          (two CPU cores) 2 epochs of 4 batches: one minute; the loss decreases
    ImageNet         90 epochs, on GPUs, with --dtype bfloat16. We have not run this to the end; the recipe is known to
                     reach 0.76 on the validation images. The stall report shows how long the GPUs waited.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from photographs import write_photographs
from resnet import RESNET50, ResNet

import penstock.launch
from penstock import data_iterator, fn, train, types
from penstock.plugin.base_iterator import LastBatchPolicy

OUT = Path("out/imagenet_resnet")
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def training(root, size):
    """Return random crops of shuffled images, randomly mirrored and normalized."""
    jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, flat_labels=True, name="reader")
    images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, size=[size, size])
    mirror = fn.random.coin_flip()
    images = fn.crop_mirror_normalize(images, output_layout="HWC", mean=MEAN, std=STD, mirror=mirror)
    return images, labels.gpu()


def validation(root, size):
    """Return the center of each image, in order."""
    jpegs, labels = fn.readers.file(file_root=root, flat_labels=True, name="reader")
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, resize_shorter=size * 256 // 224)
    images = fn.crop_mirror_normalize(images, output_layout="HWC", crop=(size, size), mean=MEAN, std=STD)
    return images, labels.gpu()


def loss(model, batch):
    """Return the mean cross-entropy with smoothed labels, and the accuracy."""
    logits, labels = model(batch["images"]), batch["labels"]
    smoothed = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[1]), 0.1)
    return optax.softmax_cross_entropy(logits, smoothed).mean(), (logits.argmax(axis=1) == labels).mean()


def make_step(accumulate, decay):
    """Return a step that also averages the weights, with the rate 1 - decay."""
    gradient = train.accumulate_gradients(nnx.value_and_grad(loss, has_aux=True), accumulate=accumulate)

    def step(state, batch):
        model, optimizer, average = state
        (value, accuracy), gradients = gradient(model, batch)
        optimizer.update(model, gradients)
        average = optax.incremental_update(nnx.state(model, nnx.Param), average, 1 - decay)
        return (model, optimizer, average), {"loss": value, "accuracy": accuracy}

    return train.data_parallel(step)


def right(state, batch):
    """Return for each row if the first answer and if one of the first five answers is correct."""
    (model, _, average), labels = state, batch["labels"]
    nnx.update(model, average)  # a copy, which is traced
    model.eval()  # averages of the training, not of the batch
    logits = model(batch["images"])
    first = jax.lax.top_k(logits, min(5, logits.shape[1]))[1]
    return {"top1": first[:, 0] == labels, "top5": (first == labels[:, None]).any(axis=1)}


def main(arguments=None):
    """Train, evaluate after each epoch, and save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with train and val")
    parser.add_argument("--small", action="store_true", help="train a small network on small images")
    parser.add_argument("--batch-size", type=int, help="global batch size")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--accumulate", type=int, default=1, help="parts of a batch that are computed one by one")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="dtype of the computation")
    parser.add_argument(
        "--checkpoints", type=Path, default=OUT / "checkpoints", help="folder to save to and to resume from"
    )
    options = parser.parse_args(arguments)
    if not (options.data or options.small):
        parser.error("give --data FOLDER or --small")
    jax.config.update("jax_num_cpu_devices", 8)  # emulated; no effect with an accelerator
    penstock.launch.initialize()  # joins the job of `penstock launch`, mpirun or SLURM, if there is one
    if options.data:
        roots = options.data / "train", options.data / "val"
    else:
        roots = (write_photographs(OUT / "photographs"),) * 2
    rows, size = options.batch_size or (24 if options.small else 256), 64 if options.small else 224
    epochs = options.epochs or (2 if options.small else 90)

    named = {"output_map": ["images", "labels"], "reader_name": "reader", "sharding": train.batch_sharding()}
    made = {"size": size, "batch_size": rows, "num_threads": options.threads, "seed": 0}
    batches = data_iterator(training, **named, last_batch_policy=LastBatchPolicy.DROP)(root=roots[0], **made)
    test = data_iterator(validation, **named, last_batch_policy=LastBatchPolicy.PAD)(root=roots[1], **made)

    classes = sum(path.is_dir() for path in roots[0].iterdir())
    shape = {"blocks": (1, 1), "width": 8} if options.small else {"blocks": RESNET50, "width": 64}
    model = ResNet(classes, nnx.Rngs(0), **shape, dtype=jnp.dtype(options.dtype))
    total = epochs * len(batches)
    warm_up = min(5 * len(batches), total // 5)
    rate = optax.warmup_cosine_decay_schedule(0.0, 0.1 * rows / 256, warm_up, total)
    decayed = lambda params: jax.tree.map(lambda value: value.ndim > 1, params)  # noqa: E731  # short enough for a line
    descent = optax.chain(optax.add_decayed_weights(5e-5, decayed), optax.sgd(rate, momentum=0.9, nesterov=True))
    average = jax.tree.map(jnp.copy, nnx.state(model, nnx.Param))
    state = model, nnx.Optimizer(model, descent, wrt=nnx.Param), average

    callbacks = [
        train.Evaluate(right, test, "val"),
        train.LogMetrics(train.CSVLogger(options.checkpoints.parent / "metrics.csv"), learning_rate=rate),
        train.ProgressBar("images"),
        train.StopOnSignal(),
        train.Checkpoint(options.checkpoints, save_interval_steps=1000, max_to_keep=1, monitor="val_top1", mode="max"),
    ]
    step = make_step(options.accumulate, decay=0.9 if options.small else 0.9999)
    loop = train.fit(step, state, batches, epochs=epochs, callbacks=callbacks)
    loop.history.plot(OUT / "learning_curves.png")
    return loop


if __name__ == "__main__":
    main()
