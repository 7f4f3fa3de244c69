"""Debug mode: values that are looked at while the definition runs. Without a GPU, DALI has only its plan."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline.experimental import pipeline_def

looked = []


def look(node):
    """What debugging is for."""
    if hasattr(type(node), "get"):
        values = node.get()
        looked.append((str(node), values.shape(), [np.array(values.at(row)) for row in range(len(values))]))
    return node


@pipeline_def(batch_size=4, num_threads=2, device_id=None, debug=True)
def pictures(folder):
    jpegs, labels = fn.readers.file(file_root=str(folder), files=sorted(p.name for p in folder.glob("*.jpg")))
    images = look(fn.decoders.image(jpegs, device="cpu"))
    images = look(fn.crop(images, crop=(20, 20)))
    angle = fn.cast(look(labels)[0] * 10, dtype=types.FLOAT)
    images = look(fn.rotate(images, angle=angle, fill_value=0, keep_size=True))
    return images, fn.flip(images, horizontal=labels[0] % 2, vertical=0), labels + np.int32(1) * angle


@pipeline_def(batch_size=3, num_threads=2, device_id=None, debug=True, enable_conditionals=True)
def sources():
    x = look(fn.external_source(lambda info: np.full(2, info.idx_in_epoch, np.float32), batch=False))
    y = fn.python_function(x, function=lambda sample: sample[:1] + 1)
    if look(x[0]) > 2:
        y = look(y * 100)
    return x, y, fn.reductions.mean(x)


def main(folder):
    for made in (pictures(folder), sources()):
        made.build()
        yield from (made.run() for _ in range(2))
