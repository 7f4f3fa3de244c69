"""Tests of photographs from folder to sharded batch: reproducibility and errors."""

import io
import json
import resource
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from damaged_images import damaged
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from PIL import Image
from pipeline_runs import run

from penstock import Pipeline, data_iterator, fn, types
from penstock.errors import DefinitionError, SampleError
from penstock.image.codecs.image_codec import ImageCodec
from penstock.image.codecs.image_header import MAX_PIXELS
from penstock.testing import check_iterator
from penstock.testing.iterator_checks import same_batches

SAMPLE = Path(__file__).parents[3] / "shared" / "data" / "imagenet400"
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def photograph(number, size, kind="JPEG", **options):
    """Return an encoded image with some structure."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8))
    file = io.BytesIO()
    small.resize(size, Image.Resampling.BICUBIC).save(file, kind, **options)
    return file.getvalue()


@pytest.fixture(scope="session")
def generated(tmp_path_factory):
    """Create two classes of small images of many sizes, most of them JPEGs."""
    root = tmp_path_factory.mktemp("photographs")
    for number in range(37):
        folder = root / f"class{number % 2}"
        folder.mkdir(exist_ok=True)
        kind = {5: "PNG", 11: "WEBP", 17: "BMP", 23: "TIFF"}.get(number, "JPEG")
        options = {"progressive": True} if number % 3 == 0 and kind == "JPEG" else {}
        size = 70 + 13 * number % 90, 60 + 29 * number % 80
        (folder / f"{number:02}.{kind.lower()}").write_bytes(photograph(number, size, kind, **options))
    return root


@pytest.fixture(scope="session")
def imagenet(tmp_path_factory):
    """Return the sample of ImageNet, one folder per class."""
    if not SAMPLE.is_dir():
        pytest.skip("the ImageNet sample is missing")
    root = tmp_path_factory.mktemp("imagenet")
    for path in sorted(SAMPLE.glob("*.JPEG"))[:400:5]:
        folder = root / path.name.partition("_")[0]
        folder.mkdir(exist_ok=True)
        (folder / path.name).symlink_to(path)
    return root


def training(root, size):
    def definition():
        jpegs, labels = fn.readers.file(file_root=root, random_shuffle=True, name="r")
        images = fn.decoders.image_random_crop(jpegs, device="mixed", output_type=types.RGB)
        images = fn.resize(images, size=[size, size])
        images = fn.crop_mirror_normalize(images, mean=MEAN, std=STD, mirror=fn.random.coin_flip())
        return images, labels.gpu()

    return definition


def sharding(count):
    mesh = Mesh(np.array(jax.devices()[:count]), ("batch",), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, PartitionSpec("batch"))


@pytest.mark.slow
@pytest.mark.parametrize("placement", ["host", "device"])
@pytest.mark.parametrize("data", ["generated", "imagenet"])
def test_training_batches_are_the_same_on_any_topology(data, placement, request):
    root = request.getfixturevalue(data)
    definition = training(root, 32 if data == "generated" else 224)

    def make(devices=1, threads=1):
        factory = data_iterator(definition, ["image", "label"], reader_name="r", sharding=sharding(devices))
        return factory(batch_size=16, seed=11, num_threads=threads, placement=placement)

    def epoch(iterator):
        return [{name: np.asarray(array) for name, array in batch.items()} for batch in iterator]

    expected = check_iterator(make) if data == "generated" else [epoch(make())]
    for devices, threads in ((2, 4), (4, 1), (8, 4)):
        assert same_batches(epoch(make(devices, threads)), expected[0]), (devices, threads)
    for step in range(1, len(expected[0])):
        other = make(8, 4)
        other.set_state({**json.loads(json.dumps(make().get_state())), "row": 16 * step})
        assert same_batches(epoch(other), expected[0][step:]), step


def test_host_and_device_agree_within_rounding(generated):
    def batches(placement):
        factory = data_iterator(training(generated, 32), ["image", "label"], reader_name="r")
        return [dict(batch) for batch in factory(batch_size=16, seed=3, placement=placement)]

    for one, other in zip(batches("host"), batches("device"), strict=True):
        np.testing.assert_allclose(one["image"], other["image"], rtol=0, atol=4 * 4.5 * np.finfo(np.float32).eps)
        assert np.array_equal(one["label"], other["label"])


def arrays(files):
    return [np.frombuffer(file, np.uint8) for file in files]


GOOD = photograph(0, (60, 50))
HUGE = bytearray(GOOD)
HUGE[(at := HUGE.index(b"\xff\xc0")) + 5 : at + 9] = b"\xff\xff\xff\xff"  # a header of 65535 x 65535 pixels


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (GOOD[: len(GOOD) // 2], "truncated"),
        (GOOD[:20], ""),
        (b"", "empty"),
        (b"this is no image at all", "not an image of a known format"),
        (photograph(1, (30, 20), "PNG")[:80], "damaged"),
        (bytes(HUGE), f"more than the {MAX_PIXELS}"),
        (b"\xff\xd8\xff" + b"\0" * 50, ""),
        (b"\x89PNG\r\n\x1a\n" + GOOD, ""),
    ],
    ids=["truncated", "header only", "empty", "text", "truncated PNG", "huge", "zeros", "mislabelled"],
)
@pytest.mark.parametrize("place", [0, 2])
def test_bad_files_are_named(bad, words, place):
    files = [GOOD] * 4
    files[place] = bad
    with pytest.raises(SampleError) as caught:
        run(lambda data: fn.resize(fn.decoders.image(data), size=9), arrays(files))
    assert f"sample {place}" in str(caught.value)
    assert words.lower() in str(caught.value).lower()
    assert "test_photographs.py" in str(caught.value)


def test_image_with_wrong_extension_is_decoded(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "in fact a PNG.jpg").write_bytes(photograph(1, (30, 20), "PNG"))
    with Pipeline(1) as pipeline:
        pipeline.set_outputs(fn.decoders.image(fn.readers.file(file_root=tmp_path)[0]))
    assert pipeline.run()[0][0].shape == (20, 30, 3)
    pipeline.close()


def test_too_large_crop_names_image():
    files = [GOOD, photograph(2, (20, 20))]
    with pytest.raises(SampleError, match=r"sample 1 .*the crop of 50 pixels along H leaves the image, which has 20"):
        run(lambda data: fn.crop(fn.decoders.image(data), crop=(50, 30)), arrays(files))
    with pytest.raises(SampleError, match="sample 1"):
        run(lambda data: fn.decoders.image_crop(data, crop=(50, 30)), arrays(files))
    with pytest.raises(SampleError, match="sample 1"):
        run(
            lambda data: fn.crop_mirror_normalize(fn.resize(fn.decoders.image(data), resize_y=20), crop=(20, 22)),
            arrays(files),
        )


MISUSE = {
    "size twice": (lambda x: fn.resize(x, size=9, resize_x=3), "size and resize_x cannot be combined"),
    "size nowhere": (lambda x: fn.resize(x), "the size is missing"),
    "shorter and longer": (lambda x: fn.resize(x, resize_shorter=9, resize_longer=3), "cannot be combined"),
    "three sizes": (lambda x: fn.resize(x, size=[9, 9, 9]), "a number for each axis"),
    "no such mode": (lambda x: fn.resize(x, size=9, mode="not_smallr"), "did you mean 'not_smaller'"),
    "no such filter": (lambda x: fn.resize(x, size=9, interp_type=17), "types.INTERP_CUBIC"),
    "mode for shorter": (lambda x: fn.resize(x, resize_shorter=9, mode="stretch"), "cannot be combined with mode"),
    "half a part": (lambda x: fn.resize(x, size=9, roi_start=[1, 1]), "must be given together"),
    "depth of an image": (lambda x: fn.resize(x, resize_z=9), "layout 'HWC'"),
    "dtype": (lambda x: fn.resize(x, size=9, dtype=types.INT16), "input's dtype, or FLOAT"),
    "bytes resized": (lambda x: fn.resize(x[:, 0, 0], size=9), "decode first"),
    "wide": (lambda x: fn.resize(fn.cast(x, dtype=types.INT64), size=9), "fn.cast"),
    "crop twice": (lambda x: fn.crop(x, crop=(3, 3), crop_h=3), "given twice"),
    "crop half": (lambda x: fn.crop(x, crop_h=3), "given together"),
    "no area": (lambda x: fn.random_resized_crop(x, size=9, random_area=[0.5, 0.1]), "random_area"),
    "no ratio": (lambda x: fn.random_resized_crop(x, size=9, random_aspect_ratio=[2, 1]), "random_aspect_ratio"),
    "no size": (lambda x: fn.random_resized_crop(x), "missing a required keyword-only argument: 'size'"),
    "negative size": (lambda x: fn.random_resized_crop(x, size=[-3, 3]), "(height, width)"),
    "perm": (lambda x: fn.transpose(x, perm=[0, 0, 1]), "each axis once"),
    "axes": (lambda x: fn.pad(x, axes=[3]), "axes names each axis once"),
    "axis name": (lambda x: fn.slice(x, start=[1], axis_names="F"), "no axis F"),
    "start twice": (lambda x: fn.slice(x, start=[1, 1], rel_start=[0, 0]), "given twice"),
    "no bound": (lambda x: fn.slice(x), "where to begin or end"),
    "slice outside": (lambda x: fn.slice(x, start=[5], end=[9], axes=[0]), "exceeds the array, whose extent is 8"),
    "huge": (lambda x: fn.resize(x, size=1e9), "an image has at most"),
    "empty part": (lambda x: fn.resize(x, size=9, roi_start=[1, 1], roi_end=[1, 5]), "the ROI to resize is empty"),
    "bounds": (lambda x: fn.slice(x, start=[1, 1, 1]), "a number per axis"),
    "alignment": (lambda x: fn.pad(x, align=0), "at least 1"),
    "mean": (lambda x: fn.normalize(x, mean=[1.0, 2.0]), "has all axes of a sample"),
    "decoder dtype": (lambda x: fn.decoders.image(x[:, 0, 0], dtype=types.FLOAT64), "dtype is not supported"),
    "decode an image": (lambda x: fn.decoders.image(x), "encoded bytes"),
    "list with a node": (lambda x: fn.resize(x, size=[x[0, 0, 0], 9]), "one node, or numbers"),
    "limit as a node": (lambda x: fn.resize(x, size=9, max_size=x[0, 0, 0]), "the same for all samples"),
    "axes as a node": (lambda x: fn.squeeze(x, axes=x[0, 0]), "the same for all samples"),
    "deviation": (lambda x: fn.random.normal(stddev=-1), "stddev is out of range"),
}


@pytest.mark.parametrize("name", MISUSE)
def test_misuse_is_found_while_tracing(name):
    build, words = MISUSE[name]
    with Pipeline(1):
        images = fn.readers.arrays(np.zeros((2, 8, 8, 3), np.uint8), layout="HWC")
        with pytest.raises((DefinitionError, TypeError)) as caught:
            build(images)
    assert words in str(caught.value)
    assert "test_photographs.py" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda x, _: fn.resize(x, size=fn.constant(types.Constant([1e9, 5.0], types.FLOAT))), "at most"),
        (lambda x, _: fn.resize(x, resize_x=x[0, 0, 0] * np.inf), "not possible"),
        (lambda x, _: fn.pad(x, axes=[0, 1], shape=fn.constant([-1, 100])), "leaves an extent open"),
        (lambda x, data: fn.crop_mirror_normalize(fn.decoders.image(data, output_type=types.ANY_DATA), mean=[1, 2]),
         "mean has 2 numbers, and the image 3 channels"),
    ],
    ids=["huge", "infinite", "open shape", "channels"],
)  # fmt: skip
def test_data_dependent_errors_are_clear(build, words):
    with pytest.raises(SampleError, match=words):
        run(lambda data: build(fn.decoders.image(data), data), arrays([GOOD]))


@pytest.mark.parametrize("placement", ["host", "device"])
def test_images_of_any_channels_with_a_maximum_size_are_resized_on_the_host(placement):
    file = io.BytesIO()
    Image.fromarray(np.full((20, 30, 3), 50, np.uint8)).save(file, "PNG")

    def definition():
        files = fn.readers.arrays(np.frombuffer(file.getvalue(), np.uint8)[None])
        images = fn.decoders.image(files, output_type=types.ANY_DATA, max_size=(32, 32))
        return {"images": fn.resize(images, size=(8, 8))}

    batch = next(data_iterator(definition)(batch_size=1, placement=placement))
    np.testing.assert_array_equal(batch["images"], np.full((1, 8, 8, 3), 50))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_pixels_of_32_bits_are_refused(dtype):
    file = io.BytesIO()
    Image.fromarray(np.zeros((4, 5), dtype)).save(file, "TIFF")
    with pytest.raises(SampleError, match="white level is unknown"):
        run(fn.decoders.image, arrays([file.getvalue()]))


def test_ragged_output_error_suggests_operator(generated):
    def definition():
        return fn.decoders.image_random_crop(fn.readers.file(file_root=generated, name="r")[0])

    with pytest.raises(SampleError, match=r"fn\.resize\(\.\.\., size=\(height, width\)\)"):
        list(data_iterator(definition, ["x"], reader_name="r")(batch_size=37))


def test_padding_to_largest_uses_one_batch_at_a_time():
    files = [photograph(n, (20 + n, 30)) for n in range(4)]
    for threads in (True, False):
        (batch,) = run(lambda data: fn.pad(fn.decoders.image(data), fill_value=7), arrays(files), exec_async=threads)
        assert [sample.shape for sample in batch] == [(30, 23, 3)] * 4


def test_2000_damaged_files_are_refused_or_decoded(generated):
    """Damaged files must not crash, hang, or use more memory than the pixel limit allows."""
    files = [path.read_bytes() for path in sorted(generated.glob("*/*")) if path.suffix in (".jpeg", ".png")]
    if SAMPLE.is_dir():
        files += [path.read_bytes() for path in sorted(SAMPLE.glob("*.JPEG"))[::40]]
        files += [_as_png(path) for path in sorted(SAMPLE.glob("*.JPEG"))[::200]]
    decoder, rng = ImageCodec(), np.random.default_rng(5)
    refused = decoded = 0
    for number in range(2000):
        data = damaged(files[number % len(files)], rng)
        try:
            pixels = decoder.decode(data, decoder.header(data))
        except ValueError as error:
            refused += bool(str(error))
        else:
            assert pixels.dtype in (np.uint8, np.uint16)
            assert pixels.shape[2] == 3
            decoded += 1
    assert refused + decoded == 2000
    assert min(refused, decoded) > 200
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    assert peak < 8 << 30
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("penstock")]


def _as_png(path):
    file = io.BytesIO()
    Image.open(path).convert("RGB").resize((200, 150)).save(file, "PNG")
    return file.getvalue()


def test_damaged_files_in_a_pipeline_are_named(generated, tmp_path):
    """The error names the file in all stages, and a state after it resumes."""
    paths = sorted(generated.glob("*/*.jpeg"))
    rng = np.random.default_rng(9)
    (tmp_path / "c").mkdir()
    damaged = set()
    for number, path in enumerate(paths):
        data = path.read_bytes()
        if number % 7 == 3:
            data = data[: rng.integers(0, len(data) // 2)]
            damaged.add(path.name)
        (tmp_path / "c" / path.name).write_bytes(data)
    iterator = data_iterator(training(tmp_path, 16), ["x", "y"], reader_name="r", prepare_first_batch=False)(
        batch_size=1, seed=1, num_threads=2
    )
    found, good = set(), 0
    for row in range(len(paths)):
        iterator.set_state({**iterator.get_state(), "row": row})
        try:
            next(iterator)
            good += 1
        except SampleError as error:
            found |= {name for name in damaged if name in str(error)}
    assert found == damaged
    assert good == len(paths) - len(damaged)
