"""Dynamic mode: conversions, strictness, random numbers and names."""

import jax
import jax.numpy as jnp
import numpy as np
import penstock.experimental.dynamic as ndd
import pytest

import penstock
from penstock import Batch
from penstock.errors import PenstockError, SampleError


def test_both_imports_are_one_module():
    assert penstock.dynamic is ndd is penstock.experimental.dynamic
    import penstock.experimental.dynamic.random as random

    assert random is ndd.random


def test_numpy_memory_is_shared_by_as_tensor_alone():
    array = np.zeros(3, np.float32)
    shared, copied = ndd.as_tensor(array), ndd.tensor(array)
    array[0] = 5
    assert (shared[0].item(), copied[0].item()) == (5, 0)


def test_memory_of_a_jax_array_is_never_writable():
    x = jnp.arange(3.0)
    view = np.asarray(ndd.as_tensor(x))
    assert view.flags.writeable is False
    batch = ndd.as_batch([x, x])
    assert not any(np.asarray(sample).flags.writeable for sample in batch)


def test_a_read_only_array_is_copied_as_in_dali():
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    for view in (np.asarray(ndd.as_tensor(array)), np.asarray(ndd.as_batch([array]).tensors[0])):
        assert view.flags.writeable
        assert not np.may_share_memory(array, view)


def test_a_missing_file_names_the_line():
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        ndd.imread("/nowhere.jpg")
    assert 'ndd.imread("/nowhere.jpg")' in str(caught.value)
    path = np.frombuffer(b"/nowhere.jpg", np.uint8)
    with pytest.raises(RuntimeError, match="nowhere"):
        ndd.imread(ndd.batch([path, path]))


def test_the_module_shows_the_names_of_dali():
    theirs = pytest.importorskip("nvidia.dali.experimental.dynamic")
    inner = {"DeviceLike", "NoReturn", "TypeAlias", "Union", "local"}  # exported by accident
    missing = {"DataType", "ImageType", "InterpType", "bfloat16", "optical_flow", "pytorch"}  # as its page says
    ours = {"LastBatchPolicy"}
    assert set(dir(ndd)) == {name for name in dir(theirs) if name[0] != "_"} - inner - missing | ours
    parts = ["decoders", "experimental.decoders", "io.file", "noise", "random", "reductions", "segmentation"]
    for part in [*parts, "transforms", "checkpoint", "capture", "math"]:
        expected, actual = theirs, ndd
        for name in part.split("."):
            expected, actual = getattr(expected, name), getattr(actual, name)
        public = {name for name in dir(expected) if name in getattr(expected, "__all__", dir(expected))}
        for name in dir(actual):
            assert name.startswith("_") or name in public, f"{part}.{name}"
            getattr(actual, name)
    own = {"ArrayRecord", "Arrays", "Cifar10", "Items", "Mnist", "Parquet", "Reader"}
    assert set(dir(ndd.readers)) == {name for name in dir(theirs.readers) if name[0].isupper()} | own
    assert set(dir(ndd.experimental.readers)) == {"Fits", "Video"}
    for readers in (ndd.readers, ndd.experimental.readers):
        assert all(issubclass(getattr(readers, name), ndd.readers.Reader) for name in dir(readers))


def test_types_describe_themselves():
    assert (ndd.float16.exponent_bits, ndd.float16.significand_bits, ndd.uint8.exponent_bits) == (5, 10, None)
    assert ndd.uint8.kind is ndd.DType.Kind.unsigned
    assert ndd.DType.parse("f32") == ndd.DType.from_type_id(ndd.float32.type_id) == ndd.DType.from_fw_type(np.float32)
    assert ndd.stream(stream=None) is ndd.get_current_stream() is ndd.get_default_stream() is None
    ndd.set_default_stream(None)


def test_jax_takes_tensors():
    t = ndd.tensor([1.0, 2.0])
    assert jnp.asarray(t).tolist() == jax.dlpack.from_dlpack(t).tolist() == [1.0, 2.0]
    assert np.from_dlpack(t).tolist() == [1.0, 2.0]


def test_tracers_are_refused():
    with pytest.raises(TypeError, match=r"jax\.jit"):
        jax.jit(lambda x: ndd.flip(x))(jnp.zeros((2, 2, 3)))


def test_the_truth_value_needs_one_element():
    assert bool(ndd.tensor([3]) > 2) is True
    with pytest.raises(ValueError, match="truth value"):
        bool(ndd.tensor([1, 2]) > 0)
    with pytest.raises(TypeError, match="truth value"):
        bool(ndd.batch([[1]]))


def test_an_error_appears_at_the_call_in_every_mode():
    for mode in ndd.EvalMode:
        with mode, pytest.raises(SampleError) as caught:
            ndd.decoders.image(np.zeros(9, np.uint8))
        assert "ndd.decoders.image" in str(caught.value)
        assert ndd.EvalMode.current() is ndd.EvalMode.eager


def test_element_types_can_be_compared_by_identity():
    for name in ("bool", "uint8", "int64", "float16", "float64"):
        kind, values = getattr(ndd, name), np.zeros(3, name)
        assert ndd.dtype(values.dtype) is ndd.dtype(values.dtype.type) is kind
        assert ndd.tensor(values).dtype is ndd.batch([values]).dtype is kind


NUMBERS = {
    "numpy": lambda values: list(np.asarray(values)),
    "jax": lambda values: tuple(map(jax.numpy.asarray, values)),
    "arrays": lambda values: [np.array(value) for value in values],
    "tensors": lambda values: [ndd.tensor(value) for value in values],
}


@pytest.mark.parametrize("as_list", NUMBERS.values(), ids=NUMBERS)
def test_a_list_of_arrays_is_one_value(as_list):
    image = np.random.default_rng(1).integers(0, 256, (6, 8, 3), np.uint8)
    matrix = np.float32([[1, 0, 2], [0, 1, 0]])
    for data in (ndd.tensor(image, layout="HWC"), ndd.batch([image] * 2, layout="HWC")):
        for result, expected in (
            (ndd.resize(data, size=as_list([3, 4])), ndd.resize(data, size=[3, 4])),
            (ndd.crop(data, crop=as_list([3, 4])), ndd.crop(data, crop=[3, 4])),
            (ndd.transpose(data, perm=as_list([1, 0, 2])), ndd.transpose(data, perm=[1, 0, 2])),
            (ndd.warp_affine(data, matrix=as_list(matrix)), ndd.warp_affine(data, matrix=matrix.tolist())),
        ):
            np.testing.assert_array_equal(*[np.asarray(ndd.as_tensor(value)) for value in (result, expected)])
    assert ndd.random.normal(shape=as_list([3, 4])).shape == (3, 4)
    assert ndd.random.normal(shape=as_list([3, 4]), batch_size=2).shape == [(3, 4)] * 2


def test_numbers_and_dtypes_of_numpy_are_constants():
    labels = np.array([3, 1])
    assert ndd.one_hot(ndd.tensor(labels), num_classes=labels.max() + 1).shape == (2, 4)
    assert ndd.reductions.sum(np.ones((2, 3)), axes=np.int64(1)).shape == (2,)
    assert ndd.stack(labels, labels, axis=np.int64(1)).shape == (2, 2)
    assert ndd.cast(labels, dtype=np.float32).dtype is ndd.float32


MISTAKES = [
    (lambda: ndd.flip(ndd.batch(np.zeros((2, 2, 2, 3), np.uint8)), batch_size=3), ValueError, "batch sizes differ"),
    (lambda: ndd.tensor([1, 2])[9], IndexError, "index"),
    (lambda: ndd.tensor([1, 2])[None], TypeError, "indices"),
    (lambda: ndd.tensor([1, 2])[[0, 1]], TypeError, "indices"),
    (lambda: ndd.batch([[1]]).slice[None], TypeError, "indices"),
    (lambda: ndd.batch([[1]]).tensors[1], IndexError, "fewer samples"),
    (lambda: ndd.batch([[1]]).select([0, 1]), IndexError, "fewer samples"),
    (lambda: ndd.tensor([2**32]), OverflowError, "32 bits"),
    (lambda: ndd.tensor([[1], [2, 3]]), ValueError, "one tensor"),
    (lambda: ndd.as_tensor(ndd.batch([[1], [2, 3]])), ValueError, "pad=True"),
    (lambda: ndd.tensor([1], layout="HW"), ValueError, "layout"),
    (lambda: ndd.batch([]), ValueError, "at least one"),
    (lambda: ndd.flip(np.zeros((2, 2, 3)), device="mixed"), ValueError, "mixed"),
    (lambda: ndd.noise.gaussian(np.zeros((2, 2, 3)), seed=1), TypeError, "RNG"),
    (lambda: ndd.noise.gaussian(np.zeros((2, 2, 3)), rng=3), TypeError, "RNG"),
    (lambda: ndd.transpose(np.zeros((2, 2)), perm=ndd.tensor([1, 0])), TypeError, "constant"),
    (lambda: ndd.one_hot(np.array([1]), num_classes=np.array(3)), TypeError, "constant"),
    (lambda: ndd.rotate(ndd.batch([np.zeros((2, 2, 3))] * 2), angle=list(np.array([1, 2]))), TypeError, "one value"),
    (lambda: ndd.batch_permutation(), ValueError, "batch_size=16"),
    (lambda: ndd.imread("/nowhere.jpg"), FileNotFoundError, "nowhere"),
    (lambda: ndd.follow, AttributeError, "dynamic mode has no follow"),
    (lambda: ndd.flip(np.zeros((2, 2, 3)), layout="HWC"), TypeError, "unknown argument layout"),
    (lambda: ndd.tensor([1], layout=3), ValueError, "layout"),
    (lambda: ndd.dtype("uint8"), ValueError, "element type"),
    (lambda: ndd.imread([]), ValueError, "at least one"),
    (lambda: ndd.imread("a.jpg", device="tpu"), ValueError, "device"),
    (lambda: ndd.as_batch(ndd.tensor([[1, 2]], layout="NH")), ValueError, "layout"),
    (lambda: ndd.Batch.broadcast(ndd.batch([[1]]), 3), ValueError, "one sample"),
    (lambda: ndd.Stream(), RuntimeError, "without CUDA streams"),
    (lambda: ndd.set_current_stream(3), RuntimeError, "without CUDA streams"),
    (lambda: ndd.warp_perspective, AttributeError, "penstock.fn.warp_perspective"),
    (lambda: ndd.random.unifrom, AttributeError, "uniform"),
]


@pytest.mark.parametrize(("call", "kind", "message"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_a_batch_of_penstock_keeps_its_layout():
    planar = Batch(np.zeros((2, 3, 4, 5), np.uint8), "CHW")
    assert ndd.batch(planar).layout == ndd.as_batch(planar).layout == "CHW"
    assert ndd.batch(Batch([1, 2])).shape == [(), ()]


def test_selection():
    b = ndd.batch([[1], [2], [3], [4]])
    assert [t.item() for t in b.select([3, 1])] == [4, 2]
    assert [t.item() for t in b.select(slice(1, 3))] == [2, 3]
    assert [t.item() for t in b.tensors[1:3]] == [2, 3]
    assert b.tensors[1:][1].item() == b.tensors.select(-2).item() == 3
    assert [t.item() for t in b.tensors[[3, 1]].as_batch()] == [4, 2]
    assert len(b.tensors.tolist()) == len(b.tensors) == 4
    assert not np.may_share_memory(b.tensors[:1].as_batch(copy=True).tensors[0].array, b.tensors[0].array)
    assert b.select(...) is b
    assert [t.item() for t in ndd.tensor([5, 6])] == [5, 6]
    assert ndd.uint8 != "u8"


def test_files(tmp_path):
    from dynamic_programs import jpeg

    (tmp_path / "a.jpg").write_bytes(jpeg(8, 16).tobytes())
    image = ndd.imread(tmp_path / "a.jpg")
    assert image.shape == (8, 16, 3)
    assert ndd.imread([tmp_path / "a.jpg"] * 2).batch_size == 2


def test_random_numbers_depend_on_the_state_alone():
    few = ndd.random.uniform(rng=ndd.random.RNG(4), batch_size=3)
    many = ndd.random.uniform(rng=ndd.random.RNG(4), batch_size=9)
    assert [t.item() for t in few] == [t.item() for t in many][:3]
    rng = ndd.random.RNG(4)
    clone = rng.clone()
    ndd.random.normal(rng=rng, batch_size=50)
    clone.advance(7)
    assert rng.state == clone.state
    assert rng() == clone()
    ndd.random.set_seed(0)
    first = ndd.random.uniform().item()
    ndd.random.set_seed(0)
    assert ndd.random.uniform().item() == first != ndd.random.uniform().item()
    with pytest.raises(PenstockError, match="state"):
        ndd.random.RNG(state="Philox_0")


def test_random_numbers_have_their_distribution():
    draws = np.asarray(ndd.as_tensor(ndd.random.uniform(rng=ndd.random.RNG(1), batch_size=4000)))
    assert -1 <= draws.min() < -0.99
    assert 0.99 < draws.max() < 1
    assert abs(draws.mean()) < 0.04
    calls = np.array([ndd.random.normal(rng=rng).item() for rng in [ndd.random.RNG(2)] for _ in range(400)])
    assert abs(calls.mean()) < 0.2
    assert abs(calls.std() - 1) < 0.15
    coins = np.asarray(ndd.as_tensor(ndd.random.coin_flip(rng=ndd.random.RNG(3), batch_size=4000)))
    assert coins.dtype == np.int32
    assert abs(coins.mean() - 0.5) < 0.04
