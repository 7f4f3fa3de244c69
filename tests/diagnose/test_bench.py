"""Tests of `penstock bench`: it names the cause in three prepared situations, and measures every setting."""

import io
import json
import subprocess
import sys
from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest
from PIL import Image

from penstock.cli import main
from penstock.core.cpu_limits import cpu_limits
from penstock.core.stage_timers import HOST_WAIT, StageTiming, TimerSnapshot
from penstock.diagnose.benchmark import Benchmark
from penstock.diagnose.bottleneck import find_bottleneck
from penstock.diagnose.measured_pipeline import Measurement
from penstock.iterate.iterator_statistics import IteratorStatistics

# A store in a process of its own, so that it does not take the GIL of the pipeline. It answers one request at a time,
# each after 10 ms, so no number of requests hides the delay.
STORE = """
import http.server, sys, threading, time
body = open(sys.argv[1], "rb").read()
turn = threading.Lock()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with turn:
            time.sleep(0.01)
        first, last = 0, len(body) - 1
        partial = "Range" in self.headers
        if partial:
            first, last = (int(n or last) for n in self.headers["Range"].removeprefix("bytes=").split("-"))
        self.send_response(206 if partial else 200)
        self.send_header("Content-Length", str(min(last, len(body) - 1) + 1 - first))
        self.send_header("ETag", '"1"')
        if partial:
            self.send_header("Content-Range", f"bytes {first}-{min(last, len(body) - 1)}/{len(body)}")
        self.end_headers()
        self.wfile.write(body[first : last + 1])

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""

# Programs, as a user writes them: they would train, but are measured at their first batch.
PROGRAM = """
import sys
from penstock import data_iterator, fn

{definition}

for batch in training(batch_size={rows}, num_threads={threads}, seed=1):
    raise SystemExit("the program got a batch")
"""

READ_IMAGES = """
@data_iterator(output_map=["images"], reader_name="r")
def training(files=tuple(sys.argv[1:])):
    jpegs, labels = fn.readers.file(files=files, name="r")
    return fn.resize(fn.decoders.image(jpegs), size=[32, 32])
"""

PYTHON_BOUND = """
def slow(x):
    for _ in range(20_000):
        x = x + 0
    return x

@data_iterator(output_map=["x"], reader_name="r")
def training():
    x = fn.readers.arrays(list(range(64)), name="r")
    return fn.python_function(x, function=lambda x: slow(int(x)), dtype="int64", ndim=0)
"""

# Work that waits and does not need a CPU, so that more threads help on a machine with one core, too.
WAITING = """
import time

@data_iterator(output_map=["x"], reader_name="r")
def training():
    x = fn.readers.arrays(list(range(64)), name="r")
    return fn.python_function(x, function=lambda x: time.sleep(0.004) or x, dtype="int64", ndim=0)
"""


def photograph(path, size):
    pixels = np.random.default_rng(0).integers(0, 256, (size // 8, size // 8, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((size, size)).save(file, "JPEG")
    path.write_bytes(file.getvalue())
    return path


@pytest.fixture
def bench(tmp_path, capsys):
    """Return a function that runs `penstock bench --json` on a definition."""

    def run(definition, threads, *arguments, rows=16, seconds=4):
        program = tmp_path / "train.py"
        program.write_text(PROGRAM.format(definition=dedent(definition), threads=threads, rows=rows))
        assert main(["bench", "--json", "--seconds", str(seconds), str(program), *map(str, arguments)]) == 0
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def slow_store(tmp_path):
    image = photograph(tmp_path / "image.jpg", 64)
    with subprocess.Popen([sys.executable, "-c", STORE, str(image)], stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.terminate()


@pytest.mark.slow
@pytest.mark.measures  # the share of waiting is what remains of the time, so other processes may not take much of it
def test_slow_store_is_the_cause(bench, slow_store):
    report = bench(READ_IMAGES, 2, *[f"{slow_store}/{number}.jpg" for number in range(1000)], rows=4, seconds=8)
    assert (report["limit"], report["stage"]) == ("storage", "readers.file")
    assert report["verdict"].startswith("readers.file limits: it waits for the storage")
    assert "read_threads=" in report["fix"]
    assert report["decoding"]["samples_per_second"] > 2 * report["configured"]["samples_per_second"]


@pytest.mark.slow
@pytest.mark.measures
def test_python_function_is_the_cause(bench):
    report = bench(PYTHON_BOUND, 2)
    assert (report["limit"], report["stage"]) == ("python", "python_function")
    assert "Python holds the GIL" in report["verdict"]
    assert "numba_function" in report["fix"]


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.parametrize("work", ["waiting", "decoding"])
def test_too_few_threads_are_the_cause(bench, tmp_path, work):
    if work == "waiting":
        report = bench(WAITING, 1)
    elif cpu_limits().usable == 1:
        pytest.skip("one CPU decodes no faster with two threads")
    else:
        image = photograph(tmp_path / "image.jpg", 512)
        report = bench(READ_IMAGES, 1, *[image] * 64, seconds=8)
    assert report["limit"] == "threads"
    assert report["verdict"].startswith("num_threads=1 limits: ")
    assert report["fix"].startswith("num_threads=")
    assert report["best"]["num_threads"] > 1


def setting(threads, rate, stages, *, gil=10.0, depth=2, rss=100.0, cpus=1.25, starved=0.0, others=0.0):
    stats = IteratorStatistics(TimerSnapshot(stages, elapsed_seconds=1.0, compilation_seconds=0.0))
    return Measurement(threads, depth, rate, rate, cpus, starved, others, gil, rss, stats)


READ, DECODE, PYTHON = "readers.file", "decoders.image + resize", "python_function"


@pytest.mark.parametrize(
    ("stages", "gil", "cause", "stage", "text", "fix"),
    [
        ({READ: (0.9, 0.1), DECODE: (0.1, 0.1)}, 10, "storage", READ, "waits for the storage 89%", "read_threads"),
        ({READ: (0.9, 0.9), DECODE: (0.1, 0.1)}, 10, "stage", READ, "90% of the work", "read_threads"),
        ({READ: (0.1, 0.1), DECODE: (0.9, 0.9)}, 10, "stage", DECODE, "1.2 of 2 CPUs busy", "reduced=True"),
        ({READ: (0.1, 0.1), PYTHON: (0.9, 0.5)}, 90, "python", PYTHON, "90% contention", "numba_function"),
        ({DECODE: (0.9, 0.9)}, 90, "python", DECODE, "holds the GIL", "compute a batch at once"),
        # Threads that wait for the GIL use no CPU time, but that is not the storage.
        ({READ: (0.9, 0.4), DECODE: (0.1, 0.1)}, 90, "python", READ, "holds the GIL", "__getitem__"),
        # An idle consumer is not a stage.
        ({HOST_WAIT: (5.0, 0.0), DECODE: (0.9, 0.9)}, 10, "stage", DECODE, "100% of the work", "reduced=True"),
    ],
)
def test_verdict(stages, gil, cause, stage, text, fix):
    totals = {name: StageTiming(4, 100, *seconds) for name, seconds in stages.items()}
    result = find_bottleneck(setting(2, 100, totals, gil=gil), [setting(4, 110, totals)], usable_cpus=2)
    assert (result.cause, result.stage) == (cause, stage)
    assert text in result.text
    assert fix in result.fix


def test_verdict_on_threads_recommends_the_fewest_that_are_as_fast():
    totals = {DECODE: StageTiming(4, 100, 1.0, 1.0)}
    others = [setting(1, 60, totals), setting(4, 198, totals), setting(8, 200, totals)]
    result = find_bottleneck(setting(2, 100, totals), others, usable_cpus=4)
    assert result.text == "num_threads=2 limits: 4 threads deliver 198 samples per second instead of 100"
    assert result.fix == "num_threads=4, or leave num_threads out"
    # On a busy machine, contention of several threads says little; that of one thread is small for decoders.
    many, one = setting(2, 100, totals, gil=90), setting(1, 60, totals, gil=5)
    assert find_bottleneck(many, [one], usable_cpus=2).cause == "stage"
    assert find_bottleneck(one, [many], usable_cpus=2).cause == "threads"
    # A reader that had no CPU did not wait for the storage.
    reads = {READ: StageTiming(4, 100, 1.0, 0.2)}
    assert find_bottleneck(setting(1, 60, reads), [], usable_cpus=2).cause == "storage"
    assert find_bottleneck(setting(1, 60, reads, starved=0.7), [], usable_cpus=2).cause == "stage"
    # Fewer threads that happen to be faster are not a lack of threads.
    assert find_bottleneck(setting(2, 100, totals), [setting(1, 200, totals)], usable_cpus=4).cause == "stage"


@pytest.mark.parametrize(
    ("cpu_seconds", "starved", "waits"),
    [(0.2, 0.0, True), (0.9, 0.0, False), (0.2, 0.7, False)],  # a thread that waits for a CPU does not wait for data
)
def test_waiting_for_data_is_not_waiting_for_a_cpu(cpu_seconds, starved, waits):
    measurement = setting(1, 100, {DECODE: StageTiming(4, 100, 1.0, cpu_seconds)})
    assert replace(measurement, starved_threads=starved).mostly_waits == waits


def test_table_names_the_best_setting_with_its_memory():
    totals = {DECODE: StageTiming(4, 100, 1.0, 1.0)}
    configured = setting(1, 100, totals)
    settings = [setting(2, 200, totals, rss=150), setting(4, 203, totals, rss=200)]
    reading, depths = setting(1, 1000, {}), [setting(2, 199, totals, depth=1, rss=120)]
    bottleneck = find_bottleneck(configured, settings, 4)
    result = Benchmark("training", 32, 4, configured, settings, depths, reading, None, bottleneck)
    assert (result.best.num_threads, result.best.prefetch_queue_depth, result.best.peak_rss_megabytes) == (2, 1, 120)
    lines = result.as_table().splitlines()
    assert lines[0] == "training: 32 samples per batch, 4 CPUs"
    assert [line.split()[0] for line in lines[2:6]] == ["num_threads=1,", *["num_threads=2,"] * 2, "num_threads=4,"]
    assert "prefetch_queue_depth=1 (best)" in lines[3]
    assert any(line.startswith("readers alone (configured reaches 10%)") for line in lines)
    assert not any(line.startswith("decoders alone") for line in lines)
    assert lines[-1].startswith("  fix: num_threads=")
    assert not any("other processes" in line for line in lines)
    noisy = replace(result, configured=setting(1, 100, totals, others=0.5))
    assert "other processes kept 0.5 CPUs busy" in noisy.as_table()


def test_command_measures_every_setting(bench, tmp_path):
    image = photograph(tmp_path / "image.jpg", 32)
    report = bench(READ_IMAGES, 1, *[image] * 32, seconds=1)
    usable = cpu_limits().usable
    settings = {(one["num_threads"], one["prefetch_queue_depth"]) for one in report["settings"]}
    assert {(1, 2), (usable, 2)} <= settings
    assert {depth for _, depth in settings} == {1, 2, 4}
    assert all(one["samples_per_second"] > 0 and one["peak_rss_megabytes"] > 0 for one in report["settings"])
    assert report["reading"]["samples_per_second"] > 0
    assert report["decoding"]["samples_per_second"] > 0
    assert set(report["stages"]) == {"readers.file", "decoders.image + resize", "transfer and dispatch"}
    assert report["best"] in report["settings"]


def test_program_with_several_iterators(tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text(
        dedent("""
        from penstock import data_iterator, fn, pipeline_def

        @data_iterator(output_map=["x"], reader_name="r")
        def evaluation():
            return fn.readers.arrays([1, 2, 3, 4], name="r")

        @data_iterator(output_map=["x"], reader_name="r")
        @pipeline_def(batch_size=2)
        def training():
            return fn.readers.arrays([1, 2, 3, 4], name="r")

        if __name__ == "__main__":
            print(next(evaluation(batch_size=4))["x"].tolist())
            next(training())
        """)
    )
    # Other iterators return batches, so that the program reaches the one to measure.
    assert main(["bench", "--json", "--seconds", "1", f"{program}:training"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["name"] == "training"
    assert output.err.strip() == "[1, 2, 3, 4]"
    assert main(["bench", "--seconds", "1", str(program)]) == 0
    assert capsys.readouterr().out.startswith("evaluation: 4 samples per batch")
    assert main(["bench", "--seconds", "1", f"{program}:other"]) == 1
    assert "its iterators are evaluation, training" in capsys.readouterr().err


def test_batches_that_a_program_takes_while_it_ends_are_not_measured(tmp_path, capsys):
    program = tmp_path / "train.py"
    program.write_text(
        dedent("""
        from penstock import data_iterator, fn

        @data_iterator
        def training():
            return {"x": fn.readers.arrays([1, 2, 3, 4])}

        try:
            next(training(batch_size=2))
        finally:
            next(training(batch_size=4))
        """)
    )
    assert main(["bench", "--seconds", "1", str(program)]) == 0
    assert capsys.readouterr().out.startswith("training: 2 samples per batch")


def test_definition_that_no_main_block_calls(tmp_path, capsys):
    program = tmp_path / "data.py"
    program.write_text(
        dedent("""
        from penstock import data_iterator, fn, pipeline_def

        @data_iterator(output_map=["x"])
        @pipeline_def(batch_size=2)
        def endless():
            return fn.external_source(source=lambda: [1, 2], dtype="int64", ndim=0, batch=True)
        """)
    )
    assert main(["bench", "--json", "--seconds", "1", f"{program}:endless"]) == 0
    report = json.loads(capsys.readouterr().out)
    # A function without arguments cannot be rewound, so its pipeline is measured once.
    assert len(report["settings"]) == 1
    assert report["reading"] is None
    assert main(["bench", str(program)]) == 1
    assert "it made no iterator" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["bench", str(tmp_path / "missing.py")])
    assert ended.value.code == 2
    assert "there is no file" in capsys.readouterr().err


def test_measuring_does_not_move_the_iterator():
    from penstock import data_iterator, fn
    from penstock.diagnose.benchmark import benchmark

    @data_iterator(output_map=["x"], reader_name="r")
    def numbers():
        return fn.readers.arrays(np.arange(8), name="r", random_shuffle=True)

    measured, plain = numbers(batch_size=4, seed=1), numbers(batch_size=4, seed=1)
    assert next(measured)["x"].tolist() == next(plain)["x"].tolist()
    state = measured.get_state()
    assert benchmark(measured, 1.0).name == "numbers"
    assert measured.get_state() == state
    assert next(measured)["x"].tolist() == next(plain)["x"].tolist()


def test_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "gilknocker", None)
    program = tmp_path / "train.py"
    program.write_text(PROGRAM.format(definition=WAITING, threads=1, rows=16))
    assert main(["bench", str(program)]) == 1
    assert 'pip install "penstock[bench]"' in capsys.readouterr().err
