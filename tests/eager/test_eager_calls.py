"""Calls of operators on data: kinds of data, arguments, random numbers, errors, and the cache of programs."""

import gc
import subprocess
import sys
import threading
import weakref

import jax
import numpy as np
import pytest
from pipeline_runs import run

from penstock import Batch, Generator, Pipeline, fn, math, pipeline_def, types
from penstock.eager import eager_call
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError, UsageError
from penstock.graph import DataNode

IMAGES = np.random.default_rng(1).integers(0, 256, (6, 5, 4, 3), np.uint8)
RAGGED = [IMAGES[0], IMAGES[1, :3], IMAGES[2, :, :2]]


@pytest.fixture
def traced(monkeypatch):
    """The operators that calls have traced, from an empty cache."""
    names = []
    record = eager_call._record
    monkeypatch.setattr(eager_call, "_programs", type(eager_call._programs)())
    monkeypatch.setattr(eager_call, "_record", lambda op, *a, **k: names.append(op.name) or record(op, *a, **k))
    return names


def test_the_result_is_of_the_kind_of_the_input():
    flipped = IMAGES[0][:, ::-1]
    one = fn.flip(IMAGES[0])
    assert type(one) is np.ndarray
    np.testing.assert_array_equal(one, flipped)
    on_device = fn.flip(jax.numpy.asarray(IMAGES[0]))
    assert isinstance(on_device, jax.Array)
    np.testing.assert_array_equal(on_device, flipped)
    listed = fn.flip(RAGGED)
    assert type(listed) is list
    assert [type(sample) for sample in listed] == [np.ndarray] * 3
    np.testing.assert_array_equal(listed[1], RAGGED[1][:, ::-1])
    assert isinstance(fn.flip(list(map(jax.numpy.asarray, RAGGED)))[2], jax.Array)
    batch = fn.transpose(Batch(RAGGED, "HWC"), perm=[2, 0, 1])
    assert isinstance(batch, Batch)
    assert batch.layout == "CHW"
    (tensors,) = pipeline_def(lambda: fn.readers.arrays(IMAGES, layout="HWC"), batch_size=2)().run()
    again = fn.flip(tensors)
    assert type(again) is type(tensors)
    assert again.layout() == "HWC"


def test_a_jax_array_stays_on_its_device():
    device = jax.devices()[3]
    assert fn.flip(jax.device_put(IMAGES[0], device)).devices() == {device}


def test_several_outputs_come_as_the_operator_returns_them():
    resized, sizes = fn.resize(IMAGES[0], size=[2, 2], save_attrs=True)
    assert (resized.shape, sizes.tolist()) == ((2, 2, 3), [5, 4])


def test_a_path_is_content_except_where_an_operator_takes_paths(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(b"1234")
    assert bytes(fn.pad(path, axes=[0], align=[3])) == b"1234\0\0"
    for form in (path, str(path), np.frombuffer(bytes(path), np.uint8)):
        assert bytes(fn.io.file.read(form)) == b"1234"
    assert [bytes(content) for content in fn.io.file.read([path, str(path)])] == [b"1234"] * 2
    assert bytes(fn.io.file.read(filepaths=path)) == b"1234"
    with pytest.raises(TypeError, match="positional"):
        fn.io.file.read(path, path)


def test_scalars_are_samples():
    assert fn.cast(np.float32(2.5), dtype=types.INT32).shape == ()
    assert math.sqrt(np.float32([4, 9])).tolist() == [2, 3]
    assert fn.one_hot(np.int32(2), num_classes=3).tolist() == [0, 0, 1]


def test_nodes_and_constants_alone_make_nodes():
    assert isinstance(fn.cast(3, dtype=types.FLOAT), DataNode)
    assert isinstance(fn.random.uniform(range=[0, 1]), DataNode)
    assert isinstance(fn.constant(IMAGES), DataNode)
    assert isinstance(fn.readers.arrays(IMAGES), DataNode)
    assert isinstance(fn.paste(IMAGES[0], fill_value=0, ratio=fn.random.uniform(range=[1, 2])), DataNode)
    with Pipeline(batch_size=2):
        assert isinstance(fn.flip(IMAGES[0]), DataNode)


def test_layouts_are_given_or_those_of_the_batch():
    planar = IMAGES.transpose(0, 3, 1, 2)
    expected = run(lambda x: fn.resize(x, size=[2, 2]), planar, layout="CHW")[0]
    np.testing.assert_array_equal(fn.resize(planar[0], size=[2, 2], layout="CHW"), expected[0])
    np.testing.assert_array_equal(fn.resize(list(planar), size=[2, 2], layout="CHW"), expected)
    np.testing.assert_array_equal(fn.resize(Batch(planar, "CHW"), size=[2, 2]).as_array(), expected)
    assert fn.reshape(Batch(planar), shape=[3, -1], layout="CW").layout == "CW"
    for wrong in ("HW", "HHC", 3):
        with pytest.raises(ArgumentTypeError, match="a different letter for each axis"):
            fn.resize(planar[0], size=[2, 2], layout=wrong)


def test_arguments_are_one_value_or_one_per_sample():
    angles = np.float32([10, -20, 90])
    expected = run(lambda x, a: fn.rotate(x, angle=a), RAGGED, angles, layout=["HWC", ""])[0]
    for angle in (angles, angles.tolist(), tuple(angles.tolist()), list(angles), Batch(angles)):
        for result, reference in zip(fn.rotate(RAGGED, angle=angle), expected, strict=True):
            np.testing.assert_array_equal(result, reference)
    sizes = np.array([[2, 3], [4, 4], [1, 2]])
    assert [image.shape[:2] for image in fn.resize(RAGGED, size=sizes)] == [(2, 3), (4, 4), (1, 2)]
    assert [image.shape[:2] for image in fn.resize(RAGGED, size=sizes.tolist())] == [(2, 3), (4, 4), (1, 2)]
    # Three numbers for three samples: as in a pipeline, one value for all.
    np.testing.assert_array_equal(
        fn.crop_mirror_normalize(RAGGED, mean=[1, 2, 3])[1],
        run(lambda x: fn.crop_mirror_normalize(x, mean=[1, 2, 3]), RAGGED, layout="HWC")[0][1],
    )


@pytest.mark.parametrize("scalars", [list, lambda array: tuple(map(jax.numpy.asarray, array))], ids=["numpy", "jax"])
def test_a_list_of_scalars_is_one_value_if_it_can_be_one(scalars):
    image = IMAGES[0]
    calls = [
        (fn.resize, {"size": [2, 3]}),
        (fn.crop, {"crop": [2, 3]}),
        (fn.slice, {"start": [1, 0], "shape": [2, 3], "axes": [0, 1]}),
        (fn.reshape, {"shape": [5, 12]}),
        (fn.transpose, {"perm": [1, 0, 2]}),
        (fn.erase, {"anchor": [1, 0], "shape": [2, 3], "fill_value": [1, 2, 3]}),
        (fn.crop_mirror_normalize, {"mean": [1, 2, 3], "std": [4, 5, 6]}),
        (fn.warp_affine, {"matrix": [1, 0, 1, 0, 1, 0]}),
    ]
    for operator, arguments in calls:
        listed = {key: scalars(np.int64(value)) for key, value in arguments.items()}
        np.testing.assert_array_equal(operator(image, **listed), operator(image, **arguments))
        for count in (2, 3):  # as many samples as numbers
            for sample in operator([image] * count, **listed):
                np.testing.assert_array_equal(sample, operator(image, **arguments))
    window = scalars(np.int64([1, 0])), scalars(np.int64([2, 3]))
    np.testing.assert_array_equal(fn.slice(image, *window, axis_names="HW"), image[1:3, :3])


def test_a_list_of_scalars_in_place_of_data_is_a_batch():
    assert [one_hot.tolist() for one_hot in fn.one_hot(list(np.int32([1, 0])), num_classes=2)] == [[0, 1], [1, 0]]
    means = [np.float32(image.mean()) for image in RAGGED]
    expected = [image.var() for image in RAGGED]
    np.testing.assert_allclose(fn.reductions.variance(RAGGED, means), expected, rtol=1e-4)


def test_an_array_beside_a_batch_stands_for_all_samples():
    kernel = np.float32([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    for result, image in zip(fn.filter(RAGGED, kernel), RAGGED, strict=True):
        np.testing.assert_array_equal(result, fn.filter(image, kernel))


def test_random_operators_need_a_seed_or_a_generator():
    with pytest.raises(ArgumentTypeError, match=r"fn\.noise\.gaussian: it draws random numbers(.|\n)*seed=7, or rng="):
        fn.noise.gaussian(IMAGES[0], stddev=9)
    with pytest.raises(ArgumentTypeError, match="both seed and rng"):
        fn.noise.gaussian(IMAGES[0], stddev=9, seed=1, rng=Generator(1))
    with pytest.raises(ArgumentTypeError, match=r"expected: penstock\.Generator"):
        fn.noise.gaussian(IMAGES[0], stddev=9, rng=np.random.default_rng(1))
    with pytest.raises(UsageError, match="seed must be an integer of at least 0"):
        Generator(-1)
    np.testing.assert_array_equal(fn.flip(IMAGES[0], seed=3), IMAGES[0][:, ::-1])


def test_a_seed_draws_what_the_same_call_draws_in_a_pipeline():
    for seed in (3, 4, 3):
        expected = run(lambda x, seed=seed: fn.noise.gaussian(x, stddev=9, seed=seed), IMAGES)[0]
        np.testing.assert_array_equal(fn.noise.gaussian(Batch(IMAGES), stddev=9, seed=seed).as_array(), expected)


def test_generators_draw_what_a_pipeline_draws_in_its_batches():
    rng = Generator(7)
    batches = [fn.noise.gaussian(Batch(IMAGES[start : start + 2]), stddev=9, rng=rng) for start in (0, 2, 4)]
    expected = run(lambda x: fn.noise.gaussian(x, stddev=9), IMAGES, seed=7)[0]
    np.testing.assert_array_equal(np.concatenate([batch.as_array() for batch in batches]), expected)
    assert repr(rng) == "Generator(7, position=6)"
    again = Generator(7, rng.position - 2)
    np.testing.assert_array_equal(fn.noise.gaussian(IMAGES[4], stddev=9, rng=again), batches[2][0])


def test_tracers_are_refused():
    with pytest.raises(ArgumentTypeError, match=r"fn\.flip: (.|\n)*fn\.jax_function"):
        jax.jit(fn.flip)(IMAGES[0])


def test_jax_functions_compute_on_data():
    @fn.jax_function
    def double(x):
        return x * jax.numpy.uint8(2)

    result = double(IMAGES[0])
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, IMAGES[0] * np.uint8(2))
    assert double(Batch(IMAGES[:3], "HWC")).layout == "HWC"


def test_a_bad_sample_is_named_at_the_line_of_its_call():
    good = np.frombuffer(b"P6 1 1 255 abc", np.uint8)
    fn.decoders.image([good, good])
    with pytest.raises(SampleError, match=r"decoders\.image failed on sample 1 of the batch: ") as caught:
        fn.decoders.image([good, good[:4]])  # this line
    assert str(caught.value).endswith("# this line")
    with pytest.raises(SampleError, match=r"decoders\.image failed on its input: "):
        fn.decoders.image(good[:4])


def test_wrong_calls_are_refused_as_in_a_pipeline():
    with pytest.raises(ArgumentTypeError, match=r"fn\.resize: there is no argument 'sise'(.|\n)*did you mean 'size'"):
        fn.resize(IMAGES[0], sise=3)
    with pytest.raises(DefinitionError, match=r"fn\.resize: (.|\n)*at: .*test_eager_calls"):
        fn.resize(np.zeros((3, 3, 3)), size=[2, 2])
    with pytest.raises(DefinitionError, match="the batches of a call must have one size"):
        fn.cat(RAGGED, RAGGED[:2])
    with pytest.raises(DefinitionError, match="one dtype and one number of axes, and sample 1 differs"):
        fn.flip([IMAGES[0], IMAGES[0].astype(np.float32)])
    with pytest.raises(ArgumentTypeError, match="dtype is the same for all samples"):
        fn.cast(RAGGED, dtype=Batch([1, 2, 3]))
    with pytest.raises(ArgumentTypeError, match="a sample must be an array of numbers"):
        fn.flip(np.array(["a"]))
    with pytest.raises(DefinitionError, match="are unknown: they are an array"):
        fn.follow.boxes(np.zeros((1, 4), np.float32), IMAGES[0])


def test_results_are_in_memory_of_their_own():
    for data in (IMAGES[0], IMAGES[:1], RAGGED):
        for result in (fn.copy(data), fn.reshape(data, shape=[-1])):
            assert not any(np.may_share_memory(one, other) for one in result for other in data)
    permuted = fn.permute_batch(RAGGED, indices=[1, 0, 0])
    assert not any(np.may_share_memory(one, other) for one in permuted for other in RAGGED)
    assert not np.may_share_memory(permuted[1], permuted[2])
    filled = fn.full_like(IMAGES[0], 3)
    filled[:] = 4
    jax_image = jax.numpy.asarray(IMAGES[0])
    fn.copy(jax_image)
    np.testing.assert_array_equal(jax_image, IMAGES[0])


def test_another_size_uses_the_same_program(traced):
    for image in RAGGED:
        fn.resize(image, size=[3, 3])
    fn.resize(RAGGED[0], size=[3, 3], interp_type=types.INTERP_NN)
    assert traced == ["resize"] * 4  # with the exact sizes, and with open ones
    for number in range(5):
        fn.noise.gaussian(RAGGED[number % 3], stddev=3, seed=number)
    assert traced[4:] == ["noise.gaussian"] * 2


def test_what_depends_on_the_sizes_is_traced_for_each(traced):
    for shape in ((4, 6), (2, 5), (4, 6), (2, 5)):
        assert fn.pad(np.zeros(shape, np.float32), shape=[4, -1], axes=[0, 1]).shape == (4, shape[1])
    assert fn.python_function(IMAGES[0], function=lambda x: x.sum()).shape == ()


def test_the_cache_is_bounded_and_holds_no_data(traced, monkeypatch):
    monkeypatch.setattr(eager_call, "_MAX_PROGRAMS", 3)
    image = np.ones((4, 4, 3), np.uint8)
    kept = weakref.ref(image)
    for size in range(1, 8):
        fn.resize(image, size=[size, size])
    fn.python_function(image, function=np.negative)
    assert len(eager_call._programs) == 3
    del image
    gc.collect()
    assert kept() is None


def test_threads_share_a_program():
    results = [None] * 4

    def work(number):
        for _ in range(20):
            results[number] = fn.resize(RAGGED[number % 3], size=[3, 3])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result, fn.resize(RAGGED[number % 3], size=[3, 3]))


def test_a_call_does_not_import_jax():
    call = "from penstock import fn; fn.flip(np.ones((2, 2, 3), 'u1'))"
    code = f"import sys, numpy as np; {call}; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_batches():
    batch = Batch(RAGGED, "HWC")
    assert (len(batch), batch.layout, batch.dtype, batch.ndim) == (3, "HWC", np.uint8, 3)
    assert (batch.shape, batch.shapes[1]) == ((3, None, None, 3), (3, 4, 3))
    assert repr(batch) == "Batch(3 x uint8[?, ?, 3] HWC)"
    np.testing.assert_array_equal(batch[-1], RAGGED[2])
    assert len(batch[1:]) == len(list(batch)[1:]) == 2
    with pytest.raises(DefinitionError, match="the samples differ in shape"):
        batch.as_array()
    assert batch[:1].as_array().shape == (1, 5, 4, 3)
    assert Batch(batch).shapes == batch.shapes
    assert (Batch(batch).layout, Batch(batch, "").layout, Batch(batch, "WHC").layout) == ("HWC", "", "WHC")
    np.testing.assert_array_equal((+batch)[1], batch[1])
    assert np.asarray(Batch(IMAGES)).shape == IMAGES.shape
    halves = batch * 0.5
    assert (halves.dtype, (255 - batch)[0].max()) == (np.float32, 255 - RAGGED[0].min())
    assert (batch < 100)[0].dtype == bool
    with pytest.raises(ArgumentTypeError, match="at least one sample"):
        Batch([])
    with pytest.raises(DefinitionError, match="layout must name each axis once"):
        Batch(RAGGED, "HW")


def test_a_tensor_list_as_a_batch_keeps_its_layout():
    planar = IMAGES.transpose(0, 3, 1, 2)
    (tensors,) = pipeline_def(lambda: fn.readers.arrays(planar, layout="CHW"), batch_size=2)().run()
    assert Batch(tensors).layout == "CHW"
    assert fn.resize(Batch(tensors), size=[2, 2]).shape == (2, 3, 2, 2)


@pytest.mark.parametrize(
    "use",
    [
        lambda batch, other: bool(batch == other),
        lambda batch, other: [other].index(batch),
        lambda batch, other: max(batch, other),
        lambda batch, other: not batch,
    ],
    ids=["equal", "index", "max", "not"],
)
def test_a_batch_has_no_truth_value(use):
    batch = Batch(RAGGED)
    with pytest.raises(ArgumentTypeError, match=r"no truth value(.|\n)*given: (.|\n)*\.as_array\(\)\.all\(\)"):
        use(batch, fn.flip(batch))


def test_a_batch_is_not_a_key():
    with pytest.raises(ArgumentTypeError, match="a batch has no hash"):
        Batch(np.arange(3)) in {1, 2}  # noqa: B015  # the comparison itself fails
