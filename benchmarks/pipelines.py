"""Pipelines that DALI and Penstock both run unchanged.

`fn` and `types` are the modules of either library. This module does not import anything, so that `first_batch` measures
the imports of a program separately.
"""

CIFAR_WORKLOADS = ("slice", "crop", "pad", "random_resized_crop", "resize")
CIFAR_MEAN, CIFAR_STD = [125.3, 123.0, 113.9], [63.0, 62.1, 66.7]

IMAGENET_WORKLOADS = ("train", "bytes", "evaluate")
IMAGENET_MEAN, IMAGENET_STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def cifar(images, workload, fn, types):
    """Augment images of 32 x 32 pixels to float32 NCHW, or only resize them to uint8 NHWC."""
    if workload == "random_resized_crop":
        return fn.random_resized_crop(images, size=(32, 32))
    if workload == "resize":
        return fn.resize(images, size=(64, 64))
    options = {"dtype": types.FLOAT, "output_layout": "CHW", "mean": CIFAR_MEAN, "std": CIFAR_STD}
    options["mirror"] = fn.random.coin_flip()
    if workload == "slice":
        start = fn.random.uniform(values=list(range(-4, 5)), shape=2, dtype=types.INT32)
        images = fn.slice(images, start=start, shape=(32, 32), axis_names="HW", out_of_bounds_policy="pad")
        return fn.crop_mirror_normalize(images, **options)
    if workload == "crop":
        images = fn.crop(images, crop=(40, 40), out_of_bounds_policy="pad")
    else:
        images = fn.pad(images, axis_names="HW", shape=(40, 40))
    place = {f"crop_pos_{axis}": fn.random.uniform(range=(0.0, 1.0)) for axis in "xy"}
    return fn.crop_mirror_normalize(images, crop=(32, 32), **place, **options)


def mnist(images, labels, fn, types):
    """Return vectors with values from 0 to 1, and one-hot labels."""
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, std=[255.0], output_layout="CHW")
    return fn.reshape(images, shape=[784]), fn.one_hot(labels, num_classes=10)


def view(images, fn):
    """Change colors and details of images, as in self-supervised training."""

    def uniform(low, high, **shape):
        return fn.random.uniform(range=[low, high], **shape)

    factors = {name: uniform(0.6, 1.4) for name in ("brightness", "contrast", "saturation")}
    images = fn.color_twist(images, hue=uniform(-36, 36), **factors)
    images = fn.gaussian_blur(images, sigma=uniform(0.1, 2.0))
    place, size = uniform(0.0, 0.7, shape=[2]), uniform(0.1, 0.3, shape=[2])
    return fn.erase(images, anchor=place, shape=size, axis_names="HW", normalized=True, fill_value=0)


def imagenet(paths, labels, workload, fn, types, **decoder):
    """Prepare photographs to float32 NCHW or uint8 NHWC. `decoder` may have options that only Penstock has."""
    train = workload != "evaluate"
    jpegs, labels = fn.readers.file(files=paths, labels=labels, random_shuffle=train, name="reader")
    if train:
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB, **decoder)
        images = fn.resize(images, size=[224, 224])
        mirror = fn.random.coin_flip()
    else:
        images = fn.resize(fn.decoders.image(jpegs, output_type=types.RGB, **decoder), resize_shorter=256)
        mirror = 0
    if workload == "bytes":
        return fn.flip(images, horizontal=mirror), labels
    if workload == "views":
        images, mirror = view(fn.flip(images, horizontal=mirror), fn), 0
    options = {"dtype": types.FLOAT, "output_layout": "CHW", "mean": IMAGENET_MEAN, "std": IMAGENET_STD}
    return fn.crop_mirror_normalize(images, crop=(224, 224), mirror=mirror, **options), labels
