"""Results in bfloat16: float32 results rounded to the nearest, ties to even, in every operator with a dtype."""

import inspect
import io
import tarfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from penstock import Batch, Pipeline, data_iterator, fn, types
from penstock.errors import ArgumentTypeError, DefinitionError, SourceError
from penstock.graph.identity.fingerprint import canonical_definition
from penstock.graph.tracing.registry import lookup, registered
from tests.support.pipeline_runs import build_pipeline, run

BFLOAT16 = np.dtype(jnp.bfloat16)
IMAGES = np.random.default_rng(3).integers(0, 256, (4, 12, 10, 3), np.uint8)
NUMBERS = np.float32([[0.1, -2.7, 1e30], [np.inf, np.nan, -0.0], [257, 259, 1.00390625], [3.3895314e38, 1e-40, 7]])
SOUND = np.random.default_rng(4).normal(size=(4, 200)).astype(np.float32)


def encoded(image):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [encoded(image) for image in IMAGES]


def images():
    return fn.readers.arrays(IMAGES, layout="HWC")


def numbers():
    return fn.readers.arrays(NUMBERS)


def points():
    return fn.readers.arrays(np.float32([[[1.7, 259.3]], [[-3.1, 0.7]], [[2.9, 1e9]], [[0.0, 4.4]]]))


def files():
    return fn.external_source(source=lambda: FILES, dtype=types.UINT8, ndim=1)


ROUNDED = {
    "audio_resample": lambda dtype: fn.audio_resample(fn.readers.arrays(SOUND), scale=0.5, dtype=dtype),
    "brightness": lambda dtype: fn.brightness(images(), brightness=1.3, dtype=dtype),
    "brightness_contrast": lambda dtype: fn.brightness_contrast(images(), contrast=1.3, dtype=dtype),
    "color_twist": lambda dtype: fn.color_twist(images(), hue=20.0, dtype=dtype),
    "contrast": lambda dtype: fn.contrast(images(), contrast=1.3, dtype=dtype),
    "coord_transform": lambda dtype: fn.coord_transform(points(), M=0.3, dtype=dtype),
    "crop": lambda dtype: fn.crop(images(), crop=(5, 4), dtype=dtype),
    "crop_mirror_normalize": lambda dtype: fn.crop_mirror_normalize(
        images(), dtype=dtype, output_layout="HWC", mean=[120.0, 110.0, 100.0], std=55.0, mirror=fn.random.coin_flip()
    ),
    "decoders.image": lambda dtype: fn.decoders.image(files(), dtype=dtype),
    "decoders.image_crop": lambda dtype: fn.decoders.image_crop(files(), crop=(5, 4), dtype=dtype),
    "decoders.image_random_crop": lambda dtype: fn.decoders.image_random_crop(files(), dtype=dtype),
    "decoders.image_slice": lambda dtype: fn.decoders.image_slice(files(), 0.0, 0.5, axes=[0], dtype=dtype),
    "fast_resize_crop_mirror": lambda dtype: fn.fast_resize_crop_mirror(
        images(), size=[7, 7], crop=[5, 5], dtype=dtype
    ),
    "filter": lambda dtype: fn.filter(images(), np.full((3, 3), 0.3, np.float32), dtype=dtype),
    "gaussian_blur": lambda dtype: fn.gaussian_blur(images(), sigma=1.0, dtype=dtype),
    "hsv": lambda dtype: fn.hsv(images(), saturation=1.3, dtype=dtype),
    "hue": lambda dtype: fn.hue(images(), hue=20.0, dtype=dtype),
    "laplacian": lambda dtype: fn.laplacian(images(), dtype=dtype),
    "lookup_table": lambda dtype: fn.lookup_table(images(), keys=[1, 2], values=[0.3, 0.7], dtype=dtype),
    "multi_paste": lambda dtype: fn.multi_paste(images(), in_ids=[0, 1], output_size=(12, 10), dtype=dtype),
    "normalize": lambda dtype: fn.normalize(images(), dtype=dtype),
    "one_hot": lambda dtype: fn.one_hot(fn.readers.arrays(np.arange(4)), num_classes=4, on_value=0.3, dtype=dtype),
    "ones": lambda dtype: fn.ones(shape=[2, 3], dtype=dtype),
    "ones_like": lambda dtype: fn.ones_like(numbers(), dtype=dtype),
    "preemphasis_filter": lambda dtype: fn.preemphasis_filter(fn.readers.arrays(SOUND), dtype=dtype),
    "random.beta": lambda dtype: fn.random.beta(shape=[9], dtype=dtype),
    "random.coin_flip": lambda dtype: fn.random.coin_flip(shape=[9], dtype=dtype),
    "random.normal": lambda dtype: fn.random.normal(shape=[9], dtype=dtype),
    "random.uniform": lambda dtype: fn.random.uniform(shape=[9], dtype=dtype),
    "random_resized_crop": lambda dtype: fn.random_resized_crop(images(), size=[6, 6], dtype=dtype),
    "reductions.mean": lambda dtype: fn.reductions.mean(images(), axes=[0], dtype=dtype),
    "reductions.mean_square": lambda dtype: fn.reductions.mean_square(images(), axes=[0], dtype=dtype),
    "reductions.rms": lambda dtype: fn.reductions.rms(images(), axes=[0], dtype=dtype),
    "reductions.sum": lambda dtype: fn.reductions.sum(images(), axes=[0], dtype=dtype),
    "resize": lambda dtype: fn.resize(images(), size=[7, 6], dtype=dtype),
    "resize_crop_mirror": lambda dtype: fn.resize_crop_mirror(images(), size=[7, 7], crop=[5, 5], dtype=dtype),
    "rotate": lambda dtype: fn.rotate(images(), angle=10.0, dtype=dtype),
    "saturation": lambda dtype: fn.saturation(images(), saturation=1.3, dtype=dtype),
    "slice": lambda dtype: fn.slice(images(), 0.0, 0.5, axes=[0], dtype=dtype),
    "tensor_resize": lambda dtype: fn.tensor_resize(images(), sizes=[7, 6], axes=[0, 1], dtype=dtype),
    "warp_affine": lambda dtype: fn.warp_affine(images(), matrix=[0.9, 0.1, 0.5, 0.1, 0.8, 0.3], dtype=dtype),
    "zeros": lambda dtype: fn.zeros(shape=[2, 3], dtype=dtype),
    "zeros_like": lambda dtype: fn.zeros_like(numbers(), dtype=dtype),
    "cast": lambda dtype: fn.cast(numbers(), dtype=dtype),
    "constant": lambda dtype: fn.constant([0.1, 257.0], dtype=dtype),
}

# Operators whose dtype describes the bytes or the arrays that they get, and readers, which have tests of their own.
OTHERS = {
    "decoders.inflate",
    "decoders.numpy",
    "dl_tensor_python_function",
    "external_source",
    "python_function",
    "reinterpret",
    "decoders.audio",
    "readers.fits",
    "readers.nemo_asr",
    "readers.video",
    "readers.video_resize",
    "readers.webdataset",
}
REFUSED = {
    "peek_image_shape": lambda dtype: fn.peek_image_shape(files(), dtype=dtype),
    "shapes": lambda dtype: fn.shapes(images(), dtype=dtype),
}


def bits(values):
    return [np.asarray(value).view(np.uint16).tolist() for value in values]


def rounded(values):
    return [np.asarray(value, np.float32).astype(BFLOAT16) for value in values]


def on_device(define, dtype):
    @data_iterator(output_map=["result"], size=4)
    def results():
        return fn.copy(define(dtype), device="gpu")

    batch = next(iter(results(batch_size=4, seed=7)))["result"]
    assert isinstance(batch, jax.Array)
    return batch


def test_every_operator_with_a_dtype_is_covered():
    takes_dtype = {
        name for name in registered() if {"dtype", "dtypes"} & inspect.signature(lookup(name)).parameters.keys()
    }
    assert takes_dtype == ROUNDED.keys() | REFUSED.keys() | OTHERS


@pytest.mark.parametrize("name", ROUNDED)
def test_the_result_is_the_rounded_float32(name):
    (float32,) = run(lambda: ROUNDED[name](types.FLOAT), batch_size=4, seed=7)
    (result,) = run(lambda: ROUNDED[name](jnp.bfloat16), batch_size=4, seed=7)
    assert {value.dtype for value in result} == {BFLOAT16}
    assert bits(result) == bits(rounded(float32))
    (other,) = run(lambda: ROUNDED[name](types.BFLOAT16), batch_size=4, seed=7)
    assert bits(other) == bits(result)


DENSE = sorted(ROUNDED.keys() - {"decoders.image", "decoders.image_random_crop", "decoders.image_slice"})


@pytest.mark.slow
@pytest.mark.parametrize("name", DENSE)
def test_iterators_return_bfloat16_arrays(name):
    float32, result = (on_device(ROUNDED[name], dtype) for dtype in (types.FLOAT, jnp.bfloat16))
    assert result.dtype == jnp.bfloat16
    assert bits(result) == bits(rounded(float32))


@pytest.mark.parametrize("name", REFUSED)
def test_dtypes_of_integers_are_refused(name):
    with pytest.raises((DefinitionError, ArgumentTypeError), match="bfloat16"):
        build_pipeline(lambda: REFUSED[name](types.BFLOAT16), batch_size=4)


def test_every_spelling_is_the_same_definition():
    pipelines = [
        build_pipeline(lambda dtype=dtype: fn.resize(images(), size=[6, 6], dtype=dtype), batch_size=4)
        for dtype in (jnp.bfloat16, types.BFLOAT16, BFLOAT16, "bfloat16", int(types.BFLOAT16))
    ]
    texts = {canonical_definition(pipeline.graph).calls for pipeline in pipelines}
    assert len(texts) == 1
    assert "dtype=bfloat16" in str(texts)
    assert "bfloat16[6, 6, 3]" in pipelines[0].explain()


def test_a_pipeline_of_bfloat16_is_serialized():
    def define():
        scaled = fn.cast(numbers(), dtype=jnp.bfloat16) * fn.constant(np.array([0.5, 2, 3], BFLOAT16))
        return scaled, fn.random.uniform(dtype=types.BFLOAT16)

    pipeline = build_pipeline(define, batch_size=4)
    restored = Pipeline.deserialize(pipeline.serialize())
    for one, other in zip(pipeline.run(), restored.run(), strict=True):
        assert one.as_array().dtype == BFLOAT16
        assert bits(one.as_array()) == bits(other.as_array())


def test_an_iterator_resumes():
    @data_iterator(output_map=["x", "y"], reader_name="reader")
    def define():
        read = fn.readers.arrays(IMAGES, layout="HWC", random_shuffle=True, name="reader")
        return fn.crop_mirror_normalize(read, dtype=jnp.bfloat16, output_layout="HWC"), fn.random.normal(
            dtype=jnp.bfloat16
        )

    iterator = define(batch_size=1, seed=3)
    next(iterator)
    state = iterator.get_state()
    expected = next(iterator)
    other = define(batch_size=1)
    other.set_state(state)
    result = next(other)
    assert result["x"].shape == (1, 12, 10, 3)
    assert all(bits(result[name]) == bits(expected[name]) for name in ("x", "y"))


def test_debug_mode_and_calls_on_data():
    (expected,) = run(lambda: fn.resize(images(), size=[6, 6], dtype=jnp.bfloat16), batch_size=4)
    (debugged,) = run(lambda: fn.resize(images(), size=[6, 6], dtype=jnp.bfloat16), batch_size=4, debug=True)
    assert bits(debugged) == bits(expected)
    called = fn.resize(Batch(IMAGES, layout="HWC"), size=[6, 6], dtype=jnp.bfloat16)
    assert bits(called) == bits(expected)
    one = fn.resize(jnp.asarray(IMAGES[0]), size=[6, 6], dtype=jnp.bfloat16, layout="HWC")
    assert isinstance(one, jax.Array)
    assert bits([one]) == bits(expected[:1])
    assert fn.cast(np.float32([1.5, 300]), dtype=types.BFLOAT16).dtype == BFLOAT16
    scale = np.array(0.5, BFLOAT16)
    assert fn.cast(np.array([1.5, 300], BFLOAT16) * scale, dtype=types.FLOAT).tolist() == [0.75, 150.0]


MOVED = {
    "flip": lambda x: fn.flip(x, horizontal=1),
    "crop": lambda x: fn.crop(x, crop=(5, 4)),
    "pad": lambda x: fn.crop(x, crop=(14, 14), out_of_bounds_policy="pad", fill_values=0.3),
    "transpose": lambda x: fn.transpose(x, perm=[2, 0, 1]),
    "reshape": lambda x: fn.reshape(x, shape=[-1]),
    "stack": lambda x: fn.stack(x, x),
    "getitem": lambda x: x[1:3, ::2],
    "copy": fn.copy,
}


@pytest.mark.parametrize("name", MOVED)
def test_values_in_bfloat16_are_moved(name):
    values = (IMAGES / np.float32(7)).astype(BFLOAT16)
    (moved,) = run(MOVED[name], values, layout="HWC")
    (wide,) = run(MOVED[name], values.astype(np.float32), layout="HWC")
    assert moved.dtype == BFLOAT16
    assert bits(moved) == bits(rounded(wide))


CASTS = ("float32", "float64", "float16", "int32", "uint8", "int64", "bool")


@pytest.mark.parametrize("dtype", CASTS)
def test_casts_between_bfloat16_and_other_types(dtype):
    values = np.array([[-3.5, 0.0, 2.5], [300, 65280, -0.25]], BFLOAT16)
    (there,) = run(lambda x: fn.cast(x, dtype=dtype), values)
    (expected,) = run(lambda x: fn.cast(x, dtype=dtype), values.astype(np.float32))
    assert there.dtype == np.dtype(dtype)
    assert there.tolist() == expected.tolist()
    (back,) = run(lambda x: fn.cast(x, dtype=jnp.bfloat16), there)
    assert bits(back) == bits(rounded(there))


def test_wide_numbers_are_rounded_as_float32():
    # The nearest bfloat16 of this float64 is the next one; that of its float32, a tie, is the even one.
    values = np.array([[1 + 2**-8 + 2**-40]], np.float64)
    (result,) = run(lambda x: fn.cast(x, dtype=jnp.bfloat16), values)
    assert float(result[0, 0]) == 1.0


def test_external_sources_and_functions_of_bfloat16():
    batch = [np.array([0.1, 2.0], BFLOAT16), np.array([3.0], BFLOAT16)]
    pipeline = build_pipeline(
        lambda: fn.external_source(source=lambda: batch, dtype=jnp.bfloat16, ndim=1), batch_size=2
    )
    assert bits(pipeline.run()[0]) == bits(batch)
    wrong = build_pipeline(lambda: fn.external_source(source=lambda: batch, dtype=types.FLOAT, ndim=1), batch_size=2)
    with pytest.raises(SourceError, match="bfloat16"):
        wrong.run()
    values = np.array([[1, 2], [3, 4]], BFLOAT16)
    (doubled,) = run(lambda x: fn.python_function(x, function=lambda a: a * 2, dtype=jnp.bfloat16, ndim=1), values)
    assert doubled.dtype == BFLOAT16
    assert doubled.astype(np.float32).tolist() == [[2, 4], [6, 8]]


def test_bytes_are_read_as_bfloat16():
    values = np.array([[1.5, -2], [3, 0.1]], BFLOAT16)
    (viewed,) = run(lambda x: fn.reinterpret(x, dtype=types.BFLOAT16), values.view(np.uint8))
    assert bits(viewed) == bits(values)


def test_types_convert():
    assert types.BFLOAT16.numpy == BFLOAT16 == types.as_dtype("bfloat16")
    assert types.to_numpy_type(types.BFLOAT16) is BFLOAT16.type
    assert types.to_dali_type(jnp.bfloat16) is types.to_dali_type("torch.bfloat16") is types.BFLOAT16
    assert {types.BFLOAT16: 1}[BFLOAT16] == 1
    assert float(types.Constant(np.array(1.5, BFLOAT16))) == 1.5
    with pytest.raises(ArgumentTypeError, match=r"types\.BFLOAT16"):
        types.as_dtype("V2")


def test_loops_of_numba_refuse_it():
    with pytest.raises((DefinitionError, ArgumentTypeError), match=r"(?i)bfloat16"):
        build_pipeline(
            lambda x: fn.experimental.numba_function(
                x, run_fn=lambda out, x: None, in_types=[types.BFLOAT16], out_types=[types.BFLOAT16],
                ins_ndim=[1], outs_ndim=[1],
            ),
            np.zeros((2, 2), BFLOAT16),
        )  # fmt: skip


def test_frames_of_videos(tmp_path):
    av = pytest.importorskip("av", reason="av is not installed (extra video)")
    path = str(tmp_path / "short.avi")
    with av.open(path, "w") as file:
        stream = file.add_stream("mjpeg", rate=25, width=32, height=16, pix_fmt="yuvj420p")
        for number in range(3):
            file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((16, 32, 3), 70 * number, np.uint8))))
        file.mux(stream.encode())

    def clips(dtype, reader=fn.readers.video, **size):
        return reader(
            filenames=[path], labels=[3], sequence_length=3, dtype=dtype, normalized=True, flat_labels=True, **size
        )

    for reader, size in ((fn.readers.video, {}), (fn.readers.video_resize, {"resize_shorter": 8})):
        frames, labels = run(lambda: clips(jnp.bfloat16, reader, **size), batch_size=1)  # called at once
        wide, _ = run(lambda: clips(types.FLOAT, reader, **size), batch_size=1)  # called at once
        assert bits(frames) == bits(rounded(wide))
        assert labels.tolist() == [3]


def test_sounds():
    soundfile = pytest.importorskip("soundfile", reason="soundfile is not installed (extra audio)")
    file = io.BytesIO()
    soundfile.write(file, SOUND[0].clip(-1, 1), 8000, format="WAV")
    data = np.frombuffer(file.getvalue(), np.uint8)[None]
    (sound, rate), (wide, _) = (
        run(lambda x, dtype=dtype: fn.decoders.audio(x, dtype=dtype), data) for dtype in (jnp.bfloat16, types.FLOAT)
    )
    assert bits(sound) == bits(rounded(wide))
    assert rate.tolist() == [8000]


def test_bytes_of_an_archive_are_bfloat16(tmp_path):
    values = np.array([1.5, -2, 0.1], BFLOAT16)
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        entry = tarfile.TarInfo("1.bin")
        entry.size = values.nbytes
        archive.addfile(entry, io.BytesIO(values.tobytes()))
    (read,) = run(lambda: fn.readers.webdataset(paths=tmp_path, ext="bin", dtypes=types.BFLOAT16), batch_size=1)
    assert bits(read) == bits(values[None])
