"""Programs in dynamic mode, which differ between DALI and Penstock in the module `ndd` alone."""

import io

import numpy as np
from PIL import Image

RNG = np.random.default_rng(3)
IMAGE = RNG.integers(0, 256, (12, 10, 3), np.uint8)
IMAGES = [IMAGE, RNG.integers(0, 256, (9, 14, 3), np.uint8)]
WAVE = np.sin(np.arange(4000, dtype=np.float32) / 20)


def smooth(height, width):
    """A photograph's smoothness, so that decoders agree."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows * 3, columns * 2, rows + columns], -1).astype(np.uint8)


def jpeg(height, width):
    file = io.BytesIO()
    Image.fromarray(smooth(height, width)).save(file, "JPEG", quality=95)
    return np.frombuffer(file.getvalue(), np.uint8)


def lists_are_tensors(ndd):
    return [ndd.tensor([[1, 2], [3, 4]]), ndd.tensor([1.5, 2]), ndd.tensor([True]), ndd.tensor([2**31])]


def classes_are_constructors(ndd):
    t, b = ndd.Tensor([[1, 2], [3, 4]], layout="AB"), ndd.Batch([ndd.Tensor([1, 2], layout="X")])
    again = [ndd.Tensor(t), ndd.Tensor(t, dtype=ndd.float32), ndd.Tensor(t, copy=True)]
    return [t, b, *again, ndd.Batch(np.zeros((2, 3)), layout="W"), ndd.batch(ndd.batch([1, 2])), ndd.Tensor(5)]


def numbers_of_numpy(ndd):
    lists = [[np.float64(1)], (np.uint8(3), 4), [np.float32(1), 2], [np.float16(3)], [np.zeros(2)], range(3)]
    numbers = [np.float64(2.7), np.int64(3), np.bool_(1), 2.7]
    return [ndd.tensor(data) for data in lists + numbers] + [ndd.tensor(data, dtype=ndd.int32) for data in numbers]


def first_samples_decide(ndd):
    arrays = [np.array([1]), np.float32([2.7]), [2.7]]
    return [ndd.batch([[1], [2.7]]), ndd.batch(arrays), ndd.batch(arrays[1:]), ndd.batch([np.float64(1), 2])]


def element_types(ndd):
    return [
        ndd.tensor([1], dtype=float),
        ndd.tensor(np.float32([0.5, 2.5, -0.5, 300]), dtype=ndd.uint8),
        ndd.tensor([1.7], dtype="i32"),
    ]


def division_truncates(ndd):
    t = ndd.tensor([-7, 7])
    return [t // 2, t % 3, t / 2, -t, abs(t), t**2]


def promotion(ndd):
    t = ndd.tensor(np.uint8([200, 100]))
    return [t + t, t + 1, t * 1.5, t * ndd.tensor(np.int8([1, 2])), t - ndd.tensor(np.uint32([1, 2]))]


def comparisons(ndd):
    t = ndd.tensor([1, 2, 3])
    return [t < 2, t == 2, t >= ndd.tensor([3, 2, 1]), (t & 1), (t | 4), (t ^ 1)]


def arithmetic_of_batches(ndd):
    b = ndd.batch([[1, 2, 3], [4]])
    return [b + 1, 2 - b, b * b, b + ndd.batch([[10], [20]])]


def mathematics(ndd):
    t = ndd.tensor([1.0, 4.0, 9.0])
    return [ndd.math.sqrt(t), ndd.math.clamp(t, 2, 5), ndd.math.max(t, 3.0), ndd.math.atan2(t, 2.0)]


def indexing(ndd):
    t = ndd.tensor(IMAGE, layout="HWC")
    return [t[0], t[..., 1], t[2:-1, ::2], t[-1, 0, 2]]


def slices_of_samples(ndd):
    b = ndd.batch([[5, 6, 7], [8, 9]])
    return [b.slice[-1], b.slice[1:], b.slice[: ndd.batch([2, 1])]]


def single_samples_of_batches(ndd):
    b = ndd.batch([[1], [2, 3], [4]], layout="W")
    return [b.tensors[1], b.select(-1), *b.tensors.tolist(), *b, b.tensors.as_batch()]


def stacking(ndd):
    return [ndd.as_tensor(ndd.batch([[1.0], [2.0, 3.0]]), pad=True), ndd.as_tensor(ndd.batch([[1, 2], [3, 4]]))]


def flips(ndd):
    return [ndd.flip(IMAGE), ndd.flip(ndd.batch(IMAGES, layout="HWC"), horizontal=0, vertical=1)]


def crop_normalize(ndd):
    image = ndd.tensor(IMAGE, layout="HWC")
    return [ndd.crop_mirror_normalize(image, crop=(4, 4)), ndd.crop(ndd.as_batch(IMAGES), crop=(5, 6))]


def resize(ndd):
    return [ndd.resize(ndd.as_batch(IMAGES, layout="HWC"), size=[7, 8]), ndd.resize(IMAGE, resize_shorter=6)]


def rotate_per_sample(ndd):
    return [ndd.rotate(ndd.tensor(IMAGE, layout="HWC"), angle=ndd.batch([0.0, 90.0]))]


def transposition(ndd):
    return [ndd.transpose(ndd.tensor(IMAGE, layout="HWC"), perm=[2, 0, 1])]


def shapes(ndd):
    t = ndd.tensor(IMAGE)
    return [ndd.reshape(t, shape=[120, 3]), ndd.expand_dims(t, axes=0), ndd.squeeze(t[:1], axes=0)]


def joining(ndd):
    t = ndd.tensor([[1, 2], [3, 4]])
    return [ndd.cat(t, t, axis=1), ndd.stack(t, t)]


def reductions(ndd):
    t = ndd.as_batch(np.arange(24, dtype=np.float32).reshape(2, 3, 4), layout="HW")
    return [ndd.reductions.sum(t, axis_names="H"), ndd.reductions.mean(t), ndd.reductions.max(t, axes=[1])]


def padding(ndd):
    return [ndd.pad(ndd.batch(IMAGES, layout="HWC"), fill_value=3), ndd.slice(IMAGE, 2, 5, axes=[0])]


def colors(ndd):
    image = ndd.tensor(IMAGE, layout="HWC")
    return [ndd.brightness_contrast(image, brightness=0.5), ndd.cast(image, dtype=ndd.float32)]


def labels(ndd):
    return [
        ndd.one_hot(ndd.batch([[1], [3]]), num_classes=5),
        ndd.lookup_table(ndd.tensor([0, 2]), keys=[2], values=[9]),
    ]


def constants(ndd):
    return [ndd.zeros(shape=[2, 2]), ndd.ones(shape=[3], batch_size=2), ndd.zeros_like(ndd.tensor([1, 2]))]


def matrices(ndd):
    shift = ndd.transforms.translation(offset=[1.0, 2.0])
    return [shift, ndd.transforms.combine(shift, ndd.transforms.scale(scale=[2.0, 3.0]))]


def decoding(ndd):
    return [ndd.decoders.image(jpeg(40, 30)), ndd.decoders.image(ndd.batch([jpeg(16, 24), jpeg(32, 16)]))]


def header(ndd):
    return [ndd.peek_image_shape(jpeg(40, 30))]


def audio(ndd):
    return [ndd.spectrogram(WAVE, nfft=256, window_length=256, window_step=128), ndd.preemphasis_filter(WAVE)]


def loop_with_condition(ndd):
    samples = ndd.batch([[3], [-2]])
    return [ndd.math.abs(sample) if sample.item() < 0 else sample * 10 for sample in samples]


PROGRAMS = [value for value in list(globals().values()) if callable(value) and getattr(value, "__code__", None)]
PROGRAMS = [program for program in PROGRAMS if program.__code__.co_varnames[:1] == ("ndd",)]
