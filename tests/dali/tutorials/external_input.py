"""External input: classes that iterate, generators, functions, data that are fed, a pipeline that feeds itself."""

import random

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.pipeline import Pipeline


class FolderIterator:
    """A list of files in an order of its own, that never ends."""

    def __init__(self, files, batch_size):
        self.files, self.batch_size = list(enumerate(files)), batch_size
        random.Random(4).shuffle(self.files)

    def __iter__(self):
        self.at, self.n = 0, len(self.files)
        return self

    def __next__(self):
        batch, labels = [], []
        for _ in range(self.batch_size):
            label, path = self.files[self.at % self.n]
            batch.append(np.frombuffer(path.read_bytes(), dtype=np.uint8))
            labels.append(np.array([label], dtype=np.uint8))
            self.at += 1
        return (batch, labels)

    next = __next__


class Epoch(FolderIterator):
    """The same, which ends."""

    def __next__(self):
        if self.at >= self.n:
            self.__iter__()
            raise StopIteration
        return super().__next__()


class Samples:
    """Any sample of the epoch that is asked for, in an order that is another one in each epoch."""

    def __init__(self, files, batch_size):
        self.files, self.full_iterations, self.last_seen_epoch = files, len(files) // batch_size, None

    def __call__(self, sample_info):
        if sample_info.iteration >= self.full_iterations:
            raise StopIteration()
        if self.last_seen_epoch != sample_info.epoch_idx:
            self.last_seen_epoch = sample_info.epoch_idx
            self.order = np.random.default_rng(seed=42 + sample_info.epoch_idx).permutation(len(self.files))
        index = self.order[sample_info.idx_in_epoch]
        label = np.int32([index, sample_info.idx_in_batch, sample_info.iteration, sample_info.epoch_idx])
        return np.frombuffer(self.files[index].read_bytes(), dtype=np.uint8), label


def decoded(source, **options):
    """The pipeline of the first example."""
    pipe = Pipeline(batch_size=4, num_threads=2, device_id=None)
    with pipe:
        jpegs, labels = fn.external_source(source=source, num_outputs=2, **options)
        images = fn.decoders.image(jpegs, device="cpu")
        pipe.set_outputs(fn.brightness(images, brightness=2.0), images.shape(), labels)
    pipe.build()
    return pipe


def epochs(pipe, runs):
    """What a training loop sees."""
    for _ in range(runs):
        try:
            yield pipe.run()
        except StopIteration:
            pipe.reset()
            yield "reset"


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def layouts_and_types():
    def batches():
        for number in range(100):
            yield [np.full((4, 6, 3), number + row, np.uint8) for row in range(3)], np.full((3, 2), number, np.int16)

    images, points = fn.external_source(
        batches, num_outputs=2, layout=["HWC", "X"], dtype=[types.UINT8, types.INT16], ndim=[3, 1]
    )
    return fn.transpose(images, perm=[2, 0, 1]), images[1:, :2], points


class FeedsItself(Pipeline):
    """From before sources could be given."""

    def __init__(self, batches):
        super().__init__(3, 1, device_id=None, prefetch_queue_depth=1)
        self.batches = iter(batches)

    def define_graph(self):
        self.images = fn.external_source(name="images")
        self.labels = fn.external_source(name="labels")
        return fn.flip(self.images), self.labels

    def iter_setup(self):
        images, labels = next(self.batches)
        self.feed_input(self.images, images, layout="HWC")
        self.feed_input("labels", labels)


def main(folder):
    files = sorted(folder.glob("*.jpg"))
    yield from (decoded(FolderIterator(files, 4)).run() for _ in range(2))
    for cycle in (None, "quiet", "raise"):
        yield from epochs(decoded(Epoch(files, 4), cycle=cycle), 6)
    yield from epochs(decoded(Samples(files, 4), batch=False), 6)
    yield from epochs(layouts_and_types(), 2)

    images = [[np.full((2 + n, 3, 1), 8 * n + row, np.uint8) for row in range(3)] for n in range(2)]
    yield from epochs(FeedsItself((batch, np.full((3, 1), n)) for n, batch in enumerate(images)), 3)

    fed = Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with fed:
        left, right = (fn.external_source(name=name, dtype=types.FLOAT) for name in ("left", "right"))
        fed.set_outputs(left - right)
    fed.build()
    for number in range(2):
        fed.feed_input("left", np.full((2, 2), number, np.float32))
        yield fed.run(right=[np.float32([1]), np.float32([2])])
