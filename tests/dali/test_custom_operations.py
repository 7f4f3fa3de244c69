"""Functions of the user's as operators, against DALI: its tutorials on custom operations, in our words."""

import numpy as np
import pytest

import penstock.fn

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")

RNG = np.random.default_rng(5)
IMAGES = [RNG.integers(0, 256, (size, 5, 3), np.uint8) for size in (4, 6, 5)]


class Tensor:
    """What DALI hands over, a DLPack capsule, or what penstock does, for NumPy."""

    def __init__(self, given):
        self.given = given

    def __dlpack__(self, **how):
        return self.given.__dlpack__(**how) if hasattr(self.given, "__dlpack__") else self.given

    def __dlpack_device__(self):
        return (1, 0)


def inverted(image):
    return 255 - np.from_dlpack(Tensor(image))


def edges(image):
    """The first and the last row, and how many there are."""
    return image[[0, -1]], np.array(len(image), np.int32)


def mixed(images, weights):
    """Each image with the next one's mean."""
    means = [np.array(image.mean(dtype=np.float32) * weight) for image, weight in zip(images, weights, strict=True)]
    return [image + mean for image, mean in zip(images, means[1:] + means[:1], strict=True)], means


WEIGHTS = np.float32([1, 2, 3])

CASES = {
    "samples": lambda lib, x, w: lib.fn.python_function(x, function=lambda image: image[::-1].copy()),
    "two outputs": lambda lib, x, w: lib.fn.python_function(x, function=edges, num_outputs=2),
    "batch": lambda lib, x, w: lib.fn.python_function(x, function=lambda a: a[::-1], batch_processing=True),
    "batch, two inputs and outputs": lambda lib, x, w: lib.fn.python_function(
        x, w, function=mixed, num_outputs=2, batch_processing=True
    ),
    "tensors": lambda lib, x, w: lib.fn.dl_tensor_python_function(
        x, function=lambda t: inverted(t).__dlpack__(), batch_processing=False
    ),
    "tensors of batches, as is the default": lambda lib, x, w: lib.fn.dl_tensor_python_function(
        x, function=lambda ts: [inverted(t).__dlpack__() for t in ts[::-1]]
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_custom_operations(case, agree):
    agree(CASES[case], IMAGES, WEIGHTS)


def test_an_array_and_a_node(agree):
    """NumPy leaves the operation to the node. In DALI, an array is a constant only if it is said to be one."""

    def define(lib, x):
        array = np.float32([1, 2, 3])
        return (array if lib.fn is penstock.fn else lib.types.Constant(array)) + x

    agree(define, [np.float32([4, 5, 6]), np.float32([7, 8, 9])])
