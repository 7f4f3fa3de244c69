"""Conditions: branches, generators in branches, logic, functions that are called, what is left as it is."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.pipeline import do_not_convert, experimental


def numbers():
    return fn.external_source(lambda info: np.int32(info.idx_in_epoch), batch=False)


def pictures(folder):
    files, labels = fn.readers.file(file_root=str(folder), files=sorted(p.name for p in folder.glob("*.jpg")))
    return fn.decoders.image(files, device="cpu"), labels


@pipeline_def(enable_conditionals=True, num_threads=2, batch_size=4, device_id=None)
def random_rotate(folder):
    images, labels = pictures(folder)
    do_rotate = labels[0] % 2 == 0
    if do_rotate:
        angle = fn.cast(labels[0] * 10, dtype=types.FLOAT)
        images = fn.rotate(images, angle=angle, fill_value=0, keep_size=True)
    else:
        angle = 0.0
    return images, angle


@pipeline_def(enable_conditionals=True, num_threads=2, batch_size=4, device_id=None)
def multiple_ops(folder):
    images, labels = pictures(folder)
    labels = fn.squeeze(labels, axes=0)
    if labels > 2:
        if labels % 2 == 1:
            images = fn.flip(images)
        small = fn.resize(images, size=[8, 8])
        bright = True
    else:
        small = fn.crop(images, crop=[8, 8])
        bright = False
    if bright or labels == 0:
        small = fn.brightness_contrast(small, brightness=0.5)
    return small


@pipeline_def(enable_conditionals=True, num_threads=2, batch_size=6, device_id=None)
def predicates():
    x = numbers()
    small, odd = x < 3, x % 2 == 1
    both, one = small and odd, small or odd
    if not small and x != 4:
        y = x * 2
    elif x == 4:
        y = x + 100
    else:
        y = -x
    return both, one, not both, y, fn.cast(y > 0, dtype=types.UINT8)


def triple(x):
    if x > 1:
        return x * 3
    return x


@do_not_convert
def plain(x):
    return [x + n for n in range(3) if n]


@experimental.pipeline_def(enable_conditionals=True, num_threads=2, batch_size=3, device_id=None)
def called():
    x = numbers()
    outputs = plain(x)
    for n in range(2):
        if x == n:
            x = triple(x) + 10
    while len(outputs) < 3:
        outputs.append(triple(x))
    if types.Constant(True, device="cpu") if False else True:
        outputs.append(x)
    return tuple(outputs)


@pipeline_def(enable_conditionals=True, num_threads=2, batch_size=5, device_id=None)
def split_generators():
    x = numbers()
    if x % 5 < 2:
        made = fn.cast(fn.random.uniform(range=[2.0, 2.4], seed=1), dtype=types.INT32) * 1.5
        label = fn.constant(idata=[1])
    else:
        made = fn.zeros(shape=[], dtype=types.FLOAT)
        label = types.Constant([0])
    return made, label


def main(folder):
    for made in (random_rotate(folder), multiple_ops(folder), predicates(), called(), split_generators()):
        made.build()
        yield from (made.run() for _ in range(2))
