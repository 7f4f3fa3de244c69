"""Functions of the user's as operators, against DALI: its tutorials on custom operations, in our words."""

import numpy as np
import pytest

import penstock.plugin.numba.fn.experimental as ours_numba

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
theirs_numba = pytest.importorskip("nvidia.dali.plugin.numba.fn.experimental")

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


def turned_shapes(outs, ins):
    out0, in0 = outs[0], ins[0]
    for row in range(len(out0)):
        for n, axis in enumerate((1, 0, 2)):
            out0[row][n] = in0[row][axis]


def turned(out0, in0):
    for i in range(in0.shape[0]):
        for j in range(in0.shape[1]):
            out0[j, i] = in0[i, j]


def all_turned(outs, ins):
    for out0, in0 in zip(outs, ins):  # noqa: B905  # numba knows no `strict`
        for i in range(in0.shape[0]):
            for j in range(in0.shape[1]):
                out0[j, i] = in0[i, j]


def bright(out0, in0):
    for i in range(in0.shape[0]):
        for j in range(in0.shape[1]):
            for k in range(in0.shape[2]):
                out0[i, j, k] = in0[i, j, k] // 2


def difference(out0, out1, in0, in1):
    for i in range(in0.shape[0]):
        for j in range(in0.shape[1]):
            for k in range(in0.shape[2]):
                out0[i, j, k] = in0[i, j, k]
                out1[i, j, k] = in0[i, j, k] - in1[i, j, k]


def numba(lib, *inputs, **arguments):
    module = theirs_numba if lib.fn.__name__.startswith("nvidia") else ours_numba
    kinds = dict(in_types=[lib.types.UINT8], ins_ndim=[3], out_types=[lib.types.UINT8], outs_ndim=[3])
    return module.numba_function(*inputs, **(kinds | arguments))


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
    "numba": lambda lib, x, w: numba(lib, x, run_fn=turned, setup_fn=turned_shapes),
    "numba, the same shape": lambda lib, x, w: numba(lib, x, run_fn=bright),
    "numba, batch": lambda lib, x, w: numba(lib, x, run_fn=all_turned, setup_fn=turned_shapes, batch_processing=True),
    "numba, two inputs and outputs": lambda lib, x, w: numba(
        lib,
        x,
        lib.fn.flip(x),
        run_fn=difference,
        in_types=[lib.types.UINT8] * 2,
        ins_ndim=[3, 3],
        out_types=[lib.types.UINT8] * 2,
        outs_ndim=[3, 3],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_custom_operations(case, agree):
    agree(CASES[case], IMAGES, WEIGHTS)


def test_an_array_and_a_node(agree):
    """NumPy leaves the operation to the node."""
    agree(
        lambda lib, x: (np.float32([1, 2, 3]) + x) * (np.int32(2) - x), [np.float32([4, 5, 6]), np.float32([7, 8, 9])]
    )
