"""Tests that the benchmarks run, and that the hand-written loops compute the same as Penstock."""

import argparse
import gzip
import importlib
import json
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np
import pytest

from penstock import data_iterator, fn
from penstock.image.codecs import turbojpeg

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


def module(name):
    return importlib.import_module(name)


@pytest.fixture
def photographs(jpeg, tmp_path):
    """Write three photographs to two folders."""
    draw = np.random.default_rng(3)
    for number, shape in enumerate([(60, 90), (300, 240), (500, 331)]):
        coarse = draw.integers(0, 256, (*(-(-extent // 10) for extent in shape), 3), np.uint8)
        folder = tmp_path / f"class{number % 2}"
        folder.mkdir(exist_ok=True)
        pixels = np.kron(coarse, np.ones((10, 10, 1), np.uint8))[: shape[0], : shape[1]]
        (folder / f"{number}.JPEG").write_bytes(jpeg(pixels))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["slice", "crop", "pad", "random_resized_crop", "resize"])
def test_small_images(workload):
    benchmark, data = module("small_images"), module("data").cifar10(None, count=20)
    for name in ("penstock", "by_hand", "one_jax_function"):
        batch = next(getattr(benchmark, name)(data, workload, 2))
        images, labels = batch.values() if isinstance(batch, dict) else batch
        side = 64 if workload == "resize" else 32
        dense = workload in ("resize", "random_resized_crop")
        assert images.shape == (256, *((side, side, 3) if dense else (3, side, side)))
        assert images.dtype == (np.uint8 if dense else np.float32)
        assert labels.shape == (256,)


def test_small_images_resized_by_hand():
    data = module("data").cifar10(None, count=256)
    iterator = data_iterator(lambda: fn.resize(fn.readers.arrays(data.images, layout="HWC"), size=(64, 64)), ["images"])
    expected = np.asarray(next(iterator(batch_size=256))["images"])
    out = np.empty_like(expected)
    windows = np.tile(np.float64([0, 0, 32, 32]), (256, 1))
    unused = np.zeros(3, np.float32)
    module("small_images_by_hand").resize_windows(data.images, np.arange(256), windows, unused, unused, out)
    assert np.abs(out.astype(int) - expected).max() <= 1


def test_small_images_cropped_by_hand():
    data = module("data").cifar10(None, count=20)
    draw = np.random.default_rng(0)
    index, mirror = draw.integers(0, 20, 30), draw.random(30) < 0.5
    top, left = draw.integers(-4, 5, (2, 30))
    mean, factor = np.float32([1, 2, 3]), np.float32([0.5, 0.25, 2])
    out = np.empty((30, 3, 32, 32), np.float32)
    module("small_images_by_hand").crop_and_normalize(data.images, index, top, left, mirror, mean, factor, out)
    padded = np.pad(data.images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    for row in range(30):
        cut = padded[index[row], 4 + top[row] : 36 + top[row], 4 + left[row] : 36 + left[row]]
        cut = cut[:, ::-1] if mirror[row] else cut
        assert np.array_equal(out[row], ((cut - mean) * factor).transpose(2, 0, 1))


@pytest.mark.parametrize("workload", ["idx", "lmdb"])
def test_mnist(workload, digits, tmp_path):
    images, labels = digits
    for name, contents in (("images-idx3", bytes(8) + images.tobytes()), ("labels-idx1", labels.astype(np.uint8))):
        sizes = (len(images), 28, 28)[: 3 if "images" in name else 1]
        head = bytes([0, 0, 8, len(sizes)]) + b"".join(extent.to_bytes(4, "big") for extent in sizes)
        body = images.tobytes() if "images" in name else bytes(contents)
        (tmp_path / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(head + body))
    data, records = module("data"), tmp_path / "records"
    read = data.mnist(tmp_path)
    assert np.array_equal(read.images[..., 0], images)
    assert np.array_equal(read.labels, labels)
    if workload == "lmdb":
        data.write_jpeg_records(read, records)
    for name in ("penstock", "numpy", "one_jax_function"):
        batch = next(getattr(module("mnist"), name)(tmp_path, records, workload, 2))
        images, labels = batch.values() if isinstance(batch, dict) else batch
        assert images.shape == (256, 784)
        assert labels.shape == (256, 10)
        assert float(images.max()) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["train", "bytes", "evaluate", "views"])
def test_imagenet(workload, photographs):
    benchmark, files = module("imagenet"), module("data").jpegs(photographs)
    assert files.labels == [0, 0, 1]
    contenders = ("penstock",) if workload == "views" else ("penstock", "by_hand")
    batches = {name: next(getattr(benchmark, name)(files, workload, 2)) for name in contenders}
    images, labels = batches["penstock"].values()
    assert images.shape == ((256, 224, 224, 3) if workload == "bytes" else (256, 3, 224, 224))
    assert images.dtype == (np.uint8 if workload == "bytes" else np.float32)
    if workload == "evaluate":
        assert np.array_equal(np.ravel(labels), batches["by_hand"][1])
        assert (
            float(np.abs(images - batches["by_hand"][0]).max()) <= 0.51 / 57
        )  # Penstock rounds pixels before it normalizes them


@pytest.mark.slow
def test_imagenet_on_devices(photographs):
    contenders = module("imagenet").on_devices(8)
    files = module("data").jpegs(photographs)
    one, many = (next(contenders[name](files, "train", 2)) for name in ("penstock, 1 device", "penstock"))
    assert len(many["images"].sharding.device_set) == 8
    assert np.array_equal(one["images"], many["images"])


def test_imagenet_training(capsys):
    benchmark = module("imagenet_training")
    benchmark.report({"input": 300.0, "step": 200.0, "training": 190.0})
    assert capsys.readouterr().out.endswith("idle              5.0% of the training\n")
    if jax.default_backend() == "cpu":
        benchmark.main([])
        assert "there is no accelerator" in capsys.readouterr().out


@pytest.mark.slow
def test_imagenet_training_measures_any_device(photographs, capsys, monkeypatch):
    monkeypatch.setattr(module("imagenet_training"), "WARM_UP", 1)
    arguments = ["--any-device", "--batch-size", "8", "--steps", "1", "--dtype", "float32"]
    module("imagenet_training").main([str(photographs), *arguments])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["input", "step", "training", "idle"]


@pytest.mark.slow
def test_first_batch(photographs, tmp_path):
    benchmark, files = module("first_batch"), module("data").jpegs(photographs)
    task = tmp_path / "task.json"
    task.write_text(json.dumps({**files._asdict(), "threads": 1, "batch_size": 4}))
    seconds = benchmark.first_batch("penstock", task, tmp_path / "caches")
    assert tuple(seconds) == benchmark.PARTS
    assert all(benchmark.import_seconds(name, tmp_path / "caches") > 0 for name in benchmark.IMPORTS)
    assert all(wall > 0 and cpu >= 0 for wall, cpu in seconds.values())
    benchmark.report({"penstock, cold": [seconds]})


@pytest.mark.slow
def test_memory(photographs):
    memory = module("memory")
    # New processes: this one may already have free memory, which would hide allocations.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        usage = pool.submit(memory.measure_memory, "penstock", "imagenet", photographs, 1, 3)
        above_import = pool.submit(memory.measure_process, "bytes", photographs, 1, 2)
        assert usage.result().peak > 0
        assert usage.result().process > 0
        assert above_import.result() > 0


def test_eager(photographs, monkeypatch):
    benchmark = module("eager")
    monkeypatch.setattr(benchmark, "BATCH", 2)
    kernel, eager, _ = (next(contender()) for contender in benchmark.image_contenders().values())
    np.testing.assert_array_equal(kernel[0][0], eager[0])
    pipeline, eager = (next(make()) for make in benchmark.photograph_contenders(Path(photographs)).values())
    np.testing.assert_array_equal(pipeline[0].as_array(), np.stack(eager))


def test_threads(digits, tmp_path):
    benchmark, data, measure = module("threads"), module("data"), module("measure")
    data.write_jpeg_records(data.Arrays(digits[0][..., None], digits[1].astype(np.uint8)), tmp_path / "records")
    batches = next(benchmark.digits(tmp_path / "records", None, rows=64))
    assert [batch["images"].shape for batch in batches] == [(64, 784)] * 4
    times = {
        "1": measure.Times(wall=[3.0, 3.0]),
        "2": measure.Times(wall=[2.0, 2.0]),
        "None": measure.Times(wall=[4.0, 4.0]),
    }
    assert benchmark.share_of_best(times) == 0.5


def test_scaling(photographs, tmp_path, capsys, monkeypatch):
    benchmark = module("scaling")
    monkeypatch.setattr(benchmark, "BATCH", 8)
    small = ["--images", "8", "--rounds", "1", "--decode", "10", "--kernels", "10"]
    decode = benchmark.simplejpeg.decode_jpeg
    backends = ["simplejpeg", "turbojpeg"][: 1 + turbojpeg.installed()]
    small += ["--threads", "1", "2", "--figure", str(tmp_path / "scaling.svg"), "--backend"]
    benchmark.main([str(photographs), *small, *backends])
    assert benchmark.simplejpeg.decode_jpeg is decode
    printed = capsys.readouterr().out.splitlines()
    for number, backend in enumerate(backends):
        first, second, head, *lines = printed[5 * number : 5 * number + 5]
        budget = rf"{backend}, GIL budget: \d+ us per photograph, [\d.]+ us per JPEG of 28 x 28 pixels"
        assert re.fullmatch(budget, first)
        assert re.fullmatch(r"After a wait, Python takes [\d.]+ times as long.", second)
        assert head.split() == ["threads", "images/s", "of", "linear", "rows", "budget", "of", "limit"]
        assert [line.split()[0] for line in lines] == ["1", "2"]
    drawn = (tmp_path / "scaling.svg").read_text()
    assert all(text in drawn for text in ("photographs per second", *backends))


def test_cache(photographs, tmp_path_factory):
    benchmark, files = module("cache"), module("data").jpegs(photographs)
    caches = [None, {"memory": "8 MiB"}, {"path": tmp_path_factory.mktemp("cache")}]
    contenders = [benchmark.batches(files, cache, 1, rows=3) for cache in caches]
    for _ in range(2):
        expected, *results = (next(batches) for batches in contenders)
        for result in results:
            for name, value in expected.items():
                np.testing.assert_array_equal(np.asarray(result[name]), np.asarray(value))


def test_bad_samples(photographs):
    uses = {"raise": ["x", "y"], "replace": ["x", "y"], "skip": ["x", "y", "valid"]}
    for definition in module("bad_samples").WORKLOADS.values():
        batches = {}
        for on_error, names in uses.items():
            make = data_iterator(definition, names, reader_name="reader", on_error=on_error)
            batches[on_error] = next(make(photographs, batch_size=2, seed=1))
            np.testing.assert_array_equal(np.asarray(batches[on_error]["x"]), np.asarray(batches["raise"]["x"]))
        assert np.asarray(batches["skip"]["valid"]).all()


def test_measure(capsys):
    measure = module("measure")

    def missing():
        raise ImportError("No module named 'peer'")

    def impossible():
        raise measure.SkippedError("not supported")

    def batches():
        while True:
            yield jax.numpy.zeros(4)

    options = argparse.Namespace(only=[], images=300, rounds=2)
    contenders = {"missing": missing, "impossible": impossible, "slow": batches, "fast": batches}
    times = measure.compare("nothing", contenders, options, ["missing", "fast"])
    out = capsys.readouterr().out
    assert "missing: skipped, No module named 'peer'" in out
    assert "impossible: skipped, not supported" in out
    assert "x fast" in out
    assert [(name, len(result.cpu), len(result.wall)) for name, result in times.items()] == [
        ("slow", 2, 2),
        ("fast", 2, 2),
    ]
    with pytest.raises(SystemExit, match="unknown names: quick; choose from missing, impossible, slow, fast"):
        measure.selected(contenders, ["quick"])


@pytest.mark.parametrize("workload", ["flip", "erase", "equalize"])
def test_operators(workload):
    benchmark = module("operators")
    data = benchmark.pixels(8)
    for name in ("penstock", "library"):
        batch = next(benchmark.CONTENDERS[name](data, benchmark.WORKLOADS[workload], 8, 2))
        images = batch["images"] if isinstance(batch, dict) else batch
        assert (images.shape, images.dtype) == ((256, 8, 8, 3), np.uint8)


@pytest.mark.parametrize("workload", ["ssd_random_crop", "follow.boxes", "segmentation.random_object_bbox"])
def test_boxes(workload):
    benchmark = module("boxes")
    batch = next(benchmark.penstock(benchmark.samples(ragged=True), workload, 2))
    assert {len(values) for values in batch.values()} == {256}


def test_every_benchmark_has_a_test():
    tested = Path(__file__).read_text()
    programs = [path.stem for path in BENCHMARKS.glob("*.py") if "def main(" in path.read_text()]
    parts = {
        "small_training": "kills",
        "object_server": "object_store",
        "object_clients": "object_store",
        "first_batch_program": "first_batch",
    }
    missing = [name for name in programs if f"def test_{parts.get(name, name)}(" not in tested]
    assert not missing


@pytest.mark.slow
def test_kills(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kills.py", "--kills", "1", "--devices", "2"])
    with pytest.raises(SystemExit) as ended:
        module("kills").main()
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == 0, lines
    assert lines[1].endswith("resumed on 2: equal bits")
    assert lines[-1] == "1 kills, 0 wrong; largest difference 0.0e+00 of the largest parameter"


@pytest.mark.parametrize("workload", ["batches", "samples"])
def test_sources(workload):
    data = module("data").cifar10(None, count=512)
    for contender in (module("sources").penstock, module("sources").arrays):
        batch = next(contender(data, workload, 2))
        assert np.array_equal(batch["images"], data.images[:256])
        assert np.array_equal(np.ravel(batch["labels"]), np.ravel(data.labels[:256]))


def test_processes(capsys):
    processes = module("processes")
    processes.compare(rounds=1, batches=2)
    assert "ratio" in capsys.readouterr().out
    assert processes.kill(kills=1, batches=24, seed=1)


def test_hosts(photographs, capsys):
    hosts = module("hosts")
    hosts.compare(photographs, rounds=1, batches=2)
    assert "target 1.4" in capsys.readouterr().out
    assert hosts.survive(faults=2, batches=30, seed=1)


def test_parallel_source():
    assert module("parallel_source").delivered(2, samples=8, batch=4) > 0


def test_formats(photographs, tmp_path, capsys):
    pytest.importorskip("pyarrow")
    benchmark, folder = module("formats"), tmp_path / "formats"
    benchmark.write([path.read_bytes() for path in sorted(photographs.glob("class*/*"))], folder, 2)
    settings = {"batch_size": 3, "num_threads": 1, "seed": 1}
    files, *others = (next(benchmark.training(folder, kind, **settings)) for kind in benchmark.READERS)
    for batch in others:
        assert np.array_equal(batch["images"], files["images"])
        assert np.array_equal(batch["labels"], files["labels"])
    benchmark.measure_opening(folder, 300)
    assert "300 TFRecords with an index" in capsys.readouterr().out


def test_batch_calls(photographs, tmp_path, monkeypatch):
    benchmark, folder = module("batch_calls"), tmp_path / "sets"
    folder.mkdir()
    for path in photographs.glob("class*/*"):
        for copy in range(25):
            path.with_stem(f"{path.stem}-{copy}").write_bytes(path.read_bytes())
    benchmark.write(photographs, folder, 70)
    monkeypatch.setattr(benchmark, "BATCH", 64)
    for name, step in benchmark.STEPS.items():
        before = getattr(step.owner, step.name)
        one, other = (benchmark.batches(step, folder, 1, off) for off in (False, True))
        assert np.array_equal(next(one)["values"], next(other)["values"]), name
        one.close()
        other.close()
        assert getattr(step.owner, step.name) is before


def test_object_store(photographs, monkeypatch):
    pytest.importorskip("obstore")
    flat = photographs / "flat" / "0"
    flat.mkdir(parents=True)
    for path in photographs.glob("class*/*"):
        path.rename(flat / path.name)
    program = [sys.executable, str(BENCHMARKS / "object_server.py"), str(flat), "1", "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline())
        settings = {"ENDPOINT_URL": f"http://127.0.0.1:{port}", "SKIP_SIGNATURE": "true", "REGION": "us-east-1"}
        for name, value in settings.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        training = module("object_store").training
        roots = "s3://bucket", flat.parent
        remote, local = (next(training(root, batch_size=3, num_threads=1, seed=1))["images"] for root in roots)
        times = module("object_clients").measure_clients(port, [f"0/{path.name}" for path in flat.iterdir()], 1)
        server.kill()
    assert np.array_equal(remote, local)
    assert times.keys() >= {"obstore", "http.client"}
