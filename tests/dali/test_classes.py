"""Programs in DALI's older spelling do the same here, and its names are found."""

import inspect
import warnings

import numpy as np
import pytest

import penstock
from penstock.dali.class_names import class_name

dali = pytest.importorskip("nvidia.dali", reason="DALI is not installed (dependency group dali)")
pytestmark = pytest.mark.filterwarnings("ignore")


def libraries():
    import nvidia.dali.ops
    import nvidia.dali.types

    return (nvidia.dali, nvidia.dali.ops, nvidia.dali.types), (penstock, penstock.ops, penstock.types)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, jpeg):
    root = tmp_path_factory.mktemp("classes")
    rng = np.random.default_rng(5)
    for number in range(6):
        coarse = rng.integers(0, 256, (5, 6, 3), np.uint8)
        (root / str(number % 2)).mkdir(exist_ok=True)
        (root / str(number % 2) / f"{number}.jpg").write_bytes(
            jpeg(np.kron(coarse, np.ones((8, 8 + number, 1), np.uint8)))
        )
    return root


def evaluation(library, ops, types, root):
    class Evaluation(library.pipeline.Pipeline):
        def __init__(self, batch_size, num_threads, device_id):
            super().__init__(batch_size, num_threads, device_id, seed=12)
            self.input = ops.FileReader(file_root=str(root), random_shuffle=False, shard_id=0, num_shards=1)
            self.decode = ops.ImageDecoder(device="cpu", output_type=types.RGB)
            self.resize = ops.Resize(device="cpu", resize_shorter=32.0, interp_type=types.INTERP_TRIANGULAR)
            self.normalize = ops.CropMirrorNormalize(
                device="cpu",
                dtype=types.FLOAT,
                output_layout=types.NCHW,
                crop=(28, 28),
                mean=[0.485 * 255, 0.456 * 255, 0.406 * 255],
                std=[0.229 * 255, 0.224 * 255, 0.225 * 255],
            )

        def define_graph(self):
            self.jpegs, self.labels = self.input(name="Reader")
            images = self.decode(self.jpegs)
            images = self.resize(images)
            return [self.normalize(images, mirror=types.Constant(1)), self.labels]

    pipeline = Evaluation(batch_size=4, num_threads=2, device_id=None)
    pipeline.build()
    assert pipeline.epoch_size("Reader") == 6
    assert pipeline.epoch_size() == {"Reader": 6}
    return [[np.array(output.as_array()) for output in pipeline.run()] for _ in range(3)]


def test_a_class_of_an_imagenet_program(folder):
    theirs, ours = (evaluation(*library, folder) for library in libraries())
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_allclose(one[0], other[0], atol=1.01 / 57)


def test_the_classes_of_dalis_operators_have_the_same_names():
    import nvidia.dali.ops as theirs

    compared = 0
    for module in [theirs, *(getattr(theirs, part) for part in ("readers", "decoders", "random", "reductions"))]:
        for name, found in vars(module).items():
            if inspect.isclass(found) and name[0].isupper() and name != "Compose":
                assert class_name(dali.fn._to_snake_case(name)) == name
                compared += 1
    assert compared > 120
    for name in ("HostDecoder", "nvJPEGDecoder", "nvJPEGDecoderRandomCrop"):  # older than what is compared with
        assert getattr(penstock.ops, name).__name__ == name


@pytest.mark.parametrize(
    "arguments",
    [
        {"idata": [1, 2, 3, 4], "shape": [2, 2]},
        {"fdata": [1.5, 2.5, -3.5, 400.0], "dtype": "UINT8"},
        {"fdata": 1.5},
        {"idata": 3, "shape": 4, "dtype": "FLOAT16"},
        {"idata": [1, 0, 2], "dtype": "BOOL"},
    ],
)
def test_constants(agree, arguments):
    def define(lib, x):
        dtype = getattr(lib.types, arguments.get("dtype", ""), None)
        return lib.fn.constant(**{**arguments, **({} if dtype is None else {"dtype": dtype})})

    agree(define, [np.zeros(1)])


@pytest.mark.parametrize(
    ("number", "define"),
    list(
        enumerate(
            [
                lambda lib, x: lib.types.Constant(
                    [1, 2, 3, 4], shape=[2, 2], dtype=lib.types.FLOAT, layout="HW", device="cpu"
                ),
                lambda lib, x: lib.types.Constant([1.5, 2.5], dtype=lib.types.UINT8),
                lambda lib, x: lib.types.Constant(np.array([1.5, 300.7]), dtype=lib.types.UINT8),
                lambda lib, x: lib.types.Constant(3, device="cpu"),
                lambda lib, x: lib.types.Constant(3, shape=[2]),
                lambda lib, x: x + lib.types.Constant(3).uint8(),
                lambda lib, x: x * lib.types.Constant(3).float64(),
                lambda lib, x: (
                    x + np.int64(5),
                    x + np.array(5),
                    x + np.array(2.0),
                    x + np.uint8(100),
                    x + np.array([5]),
                ),
            ]
        )
    ),
)
def test_types_constant(agree, number, define):
    agree(define, [np.uint8([1, 2])])


def test_types_are_those_of_dali():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (_, _, theirs), (_, _, ours) = libraries()
    for enum in ("DALIDataType", "DALIImageType", "DALIInterpType"):
        for name, member in getattr(theirs, enum).__members__.items():
            if not name.startswith("_"):
                assert int(getattr(getattr(ours, enum), name)) == int(member)
                assert int(getattr(ours, name)) == int(member)
    for name in ("NCHW", "NHWC", "NFCHW", "NFHWC", "SAME", "CPU_ONLY_DEVICE_ID"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("float", "uint8", "half", "double", "long", "torch.int16", np.float32, np.bool_):
        assert int(ours.to_dali_type(name)) == int(theirs.to_dali_type(name))
    for kind in range(12):
        assert ours.to_numpy_type(kind) is theirs.to_numpy_type(theirs.DALIDataType(kind))
