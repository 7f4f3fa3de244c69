"""Images on a canvas: described on the host, computed in the device program."""

import io

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from PIL import Image
from pipeline_runs import build_pipeline, run

from penstock import Pipeline, data_iterator, fn, math, types
from penstock.engine.sample_probe import resolve_shapes
from penstock.errors import ArgumentTypeError, DefinitionError, SampleError
from penstock.operators.readers.reader_arguments import apply_reader
from penstock.plan.placement import Side, TargetMachine
from penstock.plan.plan import make_plan
from penstock.plan.shard_merge import merge_shards
from penstock.testing import ListSource

DENSE = np.random.default_rng(1).integers(0, 256, (8, 40, 50, 3), dtype=np.uint8)
SIZES = [(40, 50), (64, 30), (20, 64), (33, 47), (64, 64), (8, 9), (50, 50), (61, 37)]


def jpeg(height, width):
    pixels = np.random.default_rng(height * width).integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((width, height)).save(file, "JPEG")
    return np.frombuffer(file.getvalue(), np.uint8)


FILES = [jpeg(*size) for size in SIZES]


def dense():
    return fn.readers.arrays(DENSE, layout="HWC", name="reader")


def photographs(max_size=(64, 64)):
    return fn.decoders.image(apply_reader(ListSource([FILES]), {}, common={"name": "reader"})[0], max_size=max_size)


def random_crop():
    return fn.random_resized_crop(dense(), size=(16, 20))


def random_crop_of_floats():
    return fn.random_resized_crop(fn.cast(dense(), dtype=types.FLOAT), size=(16, 20), interp_type=types.INTERP_CUBIC)


def parts():
    low, high = (fn.random.uniform(range=limits, shape=[2]) for limits in ([0.0, 5.0], [20.0, 38.0]))
    return fn.resize(dense(), size=(10, 12), roi_start=low, roi_end=high, interp_type=types.INTERP_LANCZOS3)


def filters_by_row():
    return fn.resize(
        dense(), size=(50, 12), interp_type=fn.random.uniform(values=[0, 1, 2, 3, 4, 5], dtype=types.INT32)
    )


def resized():
    return fn.resize(photographs(), size=(16, 20))


def training():
    images = fn.flip(photographs(), horizontal=fn.random.coin_flip())
    images = fn.random_resized_crop(images, size=(16, 20))
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[100.0, 90.0, 80.0])


def evaluation():
    return fn.crop(fn.resize(photographs(), resize_shorter=16), crop=(12, 12))


def letterbox():
    images = fn.resize(photographs(), resize_longer=32)
    return fn.crop(images, crop=(32, 32), out_of_bounds_policy="pad", fill_values=[7])


def normalized_window():
    return fn.crop_mirror_normalize(
        photographs(),
        crop=(40, 40),
        crop_pos_x=fn.random.uniform(range=[0.0, 1.0]),
        mirror=fn.random.coin_flip(),
        mean=[100.0, 90.0, 80.0],
        std=[60.0],
        out_of_bounds_policy="pad",
    )


def twice_resized():
    small = fn.resize(photographs(), size=(40, 36), mode="not_larger")
    return fn.resize(small, size=(16, 16), interp_type=types.INTERP_CUBIC)


def trimmed():
    images = fn.crop(photographs(), crop=(30, 30), out_of_bounds_policy="trim_to_shape")
    return fn.resize(images, size=(24, 24), antialias=False)


def fractional_sizes():
    return fn.resize(photographs(), size=(4.5, 5.5))


def resized_and_mirrored():
    images = fn.resize(dense(), size=(16, 20))
    return fn.crop_mirror_normalize(images, crop=(12, 12), mirror=fn.random.coin_flip(), mean=[100.0, 90.0, 80.0])


def padded_output(images, **arguments):
    arguments = {"crop": (12, 12), "mirror": fn.random.coin_flip(), **arguments}
    return fn.crop_mirror_normalize(images, mean=[100.0, 90.0, 80.0], std=60.0, pad_output=True, **arguments)


def padded_windows():
    return padded_output(dense(), mirror=1, crop_pos_x=fn.random.uniform(range=[0.0, 1.0]))


def padded_resized():
    return padded_output(fn.resize(dense(), size=(16, 20)))


def padded_files():
    return padded_output(fn.resize(photographs(), size=(16, 20)), output_layout="HWC", dtype=types.FLOAT16)


def padded_mirrored():
    images = fn.resize_crop_mirror(dense(), resize_x=20, resize_y=20, crop=(12, 12), mirror=fn.random.coin_flip())
    return padded_output(images, crop=(14, 14), out_of_bounds_policy="pad", fill_values=[1.0, 2.0, 3.0])


def padded_blurred():
    images = fn.gaussian_blur(dense(), sigma=1.3, dtype=types.FLOAT)
    return padded_output(fn.cast(images, dtype=types.UINT8))


def padded_frames():
    frames = fn.readers.arrays(DENSE.reshape(4, 2, 40, 50, 3), layout="FHWC", name="reader")
    window = {"crop_d": 3, "crop_h": 12, "crop_w": 12, "crop_pos_x": fn.random.uniform(range=[0.0, 1.0])}
    return fn.crop(frames, out_of_bounds_policy="pad", fill_values=7, dtype=types.FLOAT, **window)


def small():
    return fn.readers.arrays(DENSE[:, :8, :8, :1].astype(np.float32), layout="HWC", name="reader")


def blurred():
    return fn.gaussian_blur(small(), sigma=1.3)


def blurred_by_row():
    return fn.gaussian_blur(small(), sigma=fn.random.uniform(range=[0.5, 2.0]), window_size=7)


def exponentials():
    numbers = np.random.default_rng(0).uniform(0.05, 0.95, 24).astype(np.float32)
    return math.exp(fn.readers.arrays(numbers, name="reader"))


def enlarged_floats():
    return fn.random_resized_crop(small(), size=(17, 13))


BOUNDED = [resized, training, evaluation, letterbox, normalized_window, twice_resized, trimmed, fractional_sizes]


def planned(build, platform="cpu", placement="device"):
    graph = resolve_shapes(
        merge_shards([build_pipeline(build, batch_size=4, seed=5).graph], (0,), 1), dense_outputs=True
    ).graph
    return make_plan(graph, TargetMachine(platform, False, placement), dense_outputs=True)


def batch(build, placement):
    return run(build, batch_size=8, seed=5, placement=placement)[0]


@pytest.mark.slow
@pytest.mark.parametrize("build", [random_crop, random_crop_of_floats, parts, filters_by_row, *BOUNDED])
def test_the_device_computes_what_the_host_does(build):
    plan = planned(build)
    assert plan.host_descriptions
    assert plan.on_device(plan.graph.outputs[0])
    host, device = batch(build, "host"), batch(build, "device")
    assert device.dtype == host.dtype
    limit = 1 if host.dtype == np.uint8 else 4 * np.finfo(np.float32).eps * 255
    np.testing.assert_allclose(device.astype(np.float64), host.astype(np.float64), rtol=0, atol=limit)


def test_what_the_program_resamples_may_be_mirrored_row_by_row():
    assert not planned(resized_and_mirrored).host_descriptions
    host, device = batch(resized_and_mirrored, "host"), batch(resized_and_mirrored, "device")
    np.testing.assert_allclose(device, host, rtol=0, atol=4 * np.finfo(np.float32).eps * 255)


@pytest.mark.parametrize(
    "build", [padded_windows, padded_resized, padded_files, padded_mirrored, padded_blurred, padded_frames]
)
def test_padded_channels_and_frames_of_windows_that_differ_by_row(build):
    host, device = batch(build, "host"), batch(build, "device")
    assert device.shape == host.shape
    # A blurred byte may round to the next one on the device: one unit in 60.
    limit = 1 / 60 + 1e-6 if build is padded_blurred else 1e-3 if build is padded_files else 1e-5
    np.testing.assert_allclose(device.astype(np.float64), host.astype(np.float64), rtol=0, atol=limit)


def test_a_canvas_crosses_as_bytes_and_numbers_as_float32():
    specs = [value.spec for value in planned(resized).crossing]
    assert [str(spec) for spec in specs] == ["uint8[64, 64, 3] HWC", "float32[340]"]


def test_no_argument_of_what_the_host_describes_crosses():
    plan = planned(training)
    whys = {str(node): placement.why for node, placement in plan.placements.items() if not node.sources}
    assert whys["random.coin_flip"] == 'placement="device"', "the one that the program itself uses"
    described = [placement.why for node, placement in plan.placements.items() if node.kind == "random.coin_flip"]
    assert described == ["describes flip", 'placement="device"']
    assert len(plan.crossing) == 3


@pytest.mark.slow
@pytest.mark.parametrize("build", [training, letterbox, blurred, blurred_by_row, enlarged_floats, exponentials])
def test_any_number_of_devices_computes_the_same_bits(build):
    batches = []
    for count in (1, 8):
        sharding = NamedSharding(Mesh(np.array(jax.devices()[:count]), ("batch",)), P("batch"))
        iterator = data_iterator(build, ["x"], reader_name="reader", sharding=sharding)
        batches.append(np.asarray(next(iter(iterator(batch_size=24, seed=5, placement="device")))["x"]))
    np.testing.assert_array_equal(*batches)


def test_auto_sends_what_is_smaller_and_says_so():
    def enlarged():
        return fn.resize(photographs(), size=(200, 200))

    def whys(build):
        plan = planned(build, "gpu", "auto")
        placements = {node.kind: placement for node, placement in plan.placements.items()}
        return placements["resize"].place, placements["resize"].why

    assert whys(resized) == (Side.HOST, "crosses as 960 bytes instead of 13648")
    place, why = whys(enlarged)
    assert place is Side.DEVICE
    assert why == f"crosses as {64 * 64 * 3 + 4 * 400 * 3} bytes instead of {200 * 200 * 3}"


def test_auto_does_not_count_what_crosses_anyway():
    def alone():
        return fn.random_resized_crop(dense(), size=(30, 30))

    def both():
        images = dense()
        return fn.random_resized_crop(images, size=(50, 50)), fn.crop_mirror_normalize(images)

    assert not planned(alone, "gpu", "auto").host_descriptions
    plan = planned(both, "gpu", "auto")
    why = next(placement.why for node, placement in plan.placements.items() if node.kind == "random_resized_crop")
    assert plan.host_descriptions
    assert why == "crosses as 1200 bytes instead of 7500"


def test_an_image_larger_than_max_size_is_named():
    def small():
        return fn.resize(photographs((60, 64)), size=(16, 20))

    for placement in ("host", "device"):
        with pytest.raises(SampleError, match=r"sample 1 .*64 x 30, larger than max_size=\(60, 64\): raise max_size"):
            batch(small, placement)


def test_max_size_is_two_numbers_and_does_not_go_with_reduced():
    with Pipeline(batch_size=1):
        with pytest.raises(ArgumentTypeError, match="max_size"):
            photographs((60,))
        with pytest.raises(DefinitionError, match="reduced"):
            fn.decoders.image(apply_reader(ListSource([FILES]), {})[0], max_size=(64, 64), reduced=True)


def test_a_part_larger_than_the_image_is_refused_by_name():
    def wide():
        high = fn.random.uniform(range=[900.0, 901.0], shape=[2])
        return fn.resize(dense(), size=(10, 10), roi_start=[0.0, 0.0], roi_end=high)

    with pytest.raises(SampleError, match=r'resize failed on sample 0 .*use placement="host"'):
        batch(wide, "device")


def test_images_that_need_more_than_float32_stay_on_the_host():
    def deep():
        images = fn.cast(photographs(), dtype=types.INT32)
        return fn.crop(images, crop=(8, 8))

    plan = planned(deep)
    assert not plan.on_device(plan.graph.outputs[0])


def test_what_somebody_else_needs_as_it_is_stays_on_the_host():
    def shared():
        images = fn.resize(photographs(), resize_shorter=16)
        return fn.crop(images, crop=(12, 12)), fn.crop(images, crop=(8, 8))

    places = {node.kind: placement.place for node, placement in planned(shared).placements.items()}
    assert (places["resize"], places["crop"]) == (Side.HOST, Side.HOST), "and it has no largest size itself"
