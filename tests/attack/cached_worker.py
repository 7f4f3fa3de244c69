"""Program of the attack on shared caches: reads photographs through a disk cache and a code cache until it is killed.

It prints a digest of the batches of each epoch, and ends after EPOCHS epochs.

    python cached_worker.py PHOTOS CACHE EPOCHS
"""

import hashlib
import sys

import numpy as np

from penstock import data_iterator, fn


@data_iterator
def training(photos, cache):
    files, labels = fn.readers.file(file_root=photos, random_shuffle=True, flat_labels=True)
    images = fn.cache(fn.resize(fn.decoders.image(files), resize_shorter=30), path=cache)
    return {"images": fn.crop(images, crop=(16, 16), crop_pos_x=fn.random.uniform(range=(0.0, 1.0))), "labels": labels}


def digests(photos, cache, epochs):
    """Yield the digest of each epoch."""
    iterator = training(photos, cache, batch_size=4, seed=3, num_threads=2, device_id=0)
    for _ in range(epochs):
        digest = hashlib.sha256()
        for batch in iterator:
            digest.update(np.asarray(batch["images"]).tobytes() + np.asarray(batch["labels"]).tobytes())
        iterator.reset()
        yield digest.hexdigest()
    iterator.close()


if __name__ == "__main__":
    for line in digests(sys.argv[1], sys.argv[2], int(sys.argv[3])):
        print(line, flush=True)
