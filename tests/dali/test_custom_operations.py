"""Functions of the user's as operators, against DALI: its tutorials on custom operations, in our words."""

import importlib

import jax
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


def both_plugins(run):
    """Run a function with each library and its plugin for JAX."""
    return [run(lib, importlib.import_module(f"{lib.__name__}.plugin.jax")) for lib in (dali, penstock)]


def test_a_jax_function_in_a_branch_of_samples_whose_extents_are_unknown():
    def run(lib, plugin):
        halved = plugin.fn.jax_function(jax.jit(lambda batch: batch // 2))

        @lib.pipeline_def(batch_size=6, num_threads=1, device_id=None, enable_conditionals=True)
        def define():
            values = lib.fn.external_source(lambda info: np.full(2, 10 * info.idx_in_epoch, np.int32), batch=False)
            if values[0] > 20:  # the first sample, from which the extents are known, does not take the branch
                values = halved(values)
            return values

        pipeline = define()
        return [[np.array(sample).tolist() for sample in pipeline.run()[0]] for _ in range(2)]

    theirs, ours = both_plugins(run)
    assert ours == theirs
    assert ours[0][2:4] == [[20, 20], [15, 15]]


def test_what_a_jax_function_returns_may_meet_samples_whose_extents_are_unknown():
    with penstock.Pipeline(2) as pipeline:
        images = penstock.fn.external_source([np.full((2, 3), 4, np.float32)] * 2, batch=False, cycle="quiet")
        pipeline.set_outputs(penstock.fn.jax_function(lambda batch: batch + 1)(images) * images)
    assert pipeline.run()[0].as_array().ravel().tolist() == [20.0] * 12
    pipeline.close()


def test_what_several_samples_make_has_the_names_of_all(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"1234")

    def run(lib, plugin):
        first = plugin.fn.jax_function(lambda *batches: batches[0])

        @lib.pipeline_def(batch_size=1, num_threads=1, device_id=None)
        def define():
            a, b = (lib.fn.readers.file(files=[str(tmp_path / name)])[0] for name in ("a", "b"))
            pictures = [lib.fn.reshape(x, shape=(2, 2, 1), layout="HWC") for x in (a, b)]
            pasted = lib.fn.multi_paste(*pictures, output_size=(2, 2))
            values = [first(a, b), first(b, lib.fn.random.coin_flip(), b), first(a), first(a, b) + 1, pasted, a + b]
            return *values, *(lib.fn.get_property(value, key="source_info") for value in values)

        outputs = define().run()
        names = [output[0].source_info() for output in outputs[:6]]
        assert names == [bytes(np.array(output[0])).decode() for output in outputs[6:]]
        return names

    theirs, ours = both_plugins(run)
    assert ours == theirs
    assert ours[0] == f"{tmp_path}/a;{tmp_path}/b"


def test_names_of_the_numba_plugin():
    for lib in ("nvidia.dali", "penstock"):
        plugin = importlib.import_module(f"{lib}.plugin.numba")
        assert plugin.fn.experimental.numba_function


def test_options_of_pipelines_that_may_be_none():
    options = "py_num_workers", "py_start_method", "bytes_per_sample", "enable_memory_stats", "enable_checkpointing"
    for lib in (dali, penstock):
        none = dict.fromkeys((*options, "set_affinity", "experimental_exec_dynamic"))
        with lib.Pipeline(2, 1, None, **none) as pipeline:
            pipeline.set_outputs(lib.fn.constant(idata=[3]))
        pipeline.build()
        assert np.array(pipeline.run()[0][0]).tolist() == [3]
